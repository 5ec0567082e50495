//! Several tests at once: p-values adjusted so that the whole family's error rate holds.

/// Holm's step-down adjustment: with p₍₁₎ ≤ … ≤ p₍ₖ₎, adjusted p₍ᵢ₎ = max over j ≤ i of min(1, (k − j + 1)·p₍ⱼ₎),
/// in the order the p-values came in. Rejecting where the adjusted p is at most α errs, on any true
/// hypothesis at all, with probability at most α, however the tests depend on each other.
///
/// Equal p-values get equal adjusted ones. `None` if a p-value is NaN or outside [0, 1].
/// Source: S. Holm, Scandinavian Journal of Statistics 6 (1979) 65–70.
#[must_use]
pub fn holm(p: &[f64]) -> Option<Vec<f64>> {
    let order = ascending(p)?;
    let mut adjusted = vec![0.0; p.len()];
    let mut highest = 0.0_f64;
    for (rank, &index) in order.iter().enumerate() {
        highest = highest.max((p[index] * (p.len() - rank) as f64).min(1.0));
        adjusted[index] = highest;
    }
    Some(adjusted)
}

/// Benjamini and Hochberg's adjustment: adjusted p₍ᵢ₎ = min over j ≥ i of min(1, k·p₍ⱼ₎/j), in the order the
/// p-values came in. Rejecting where it is at most α keeps the expected share of false rejections among
/// all rejections at α, for tests that are independent or positively dependent.
///
/// `None` if a p-value is NaN or outside [0, 1].
/// Source: Y. Benjamini, Y. Hochberg, Journal of the Royal Statistical Society B 57 (1995) 289–300.
#[must_use]
pub fn benjamini_hochberg(p: &[f64]) -> Option<Vec<f64>> {
    let order = ascending(p)?;
    let mut adjusted = vec![0.0; p.len()];
    let mut lowest = 1.0_f64;
    for (rank, &index) in order.iter().enumerate().rev() {
        lowest = lowest.min(p[index] * p.len() as f64 / (rank + 1) as f64);
        adjusted[index] = lowest;
    }
    Some(adjusted)
}

/// Indices by rising p-value, if all are probabilities.
fn ascending(p: &[f64]) -> Option<Vec<usize>> {
    if !p.iter().all(|p| (0.0..=1.0).contains(p)) {
        return None;
    }
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    Some(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ties_are_adjusted_alike() {
        assert_eq!(holm(&[0.02, 0.02, 0.5]).unwrap(), [0.06, 0.06, 0.5]);
        assert_eq!(
            benjamini_hochberg(&[0.02, 0.02, 0.5]).unwrap(),
            [0.03, 0.03, 0.5]
        );
    }

    #[test]
    fn what_is_no_probability_is_refused() {
        for wrong in [f64::NAN, -0.1, 1.1, f64::INFINITY] {
            assert_eq!(holm(&[0.01, wrong]), None);
            assert_eq!(benjamini_hochberg(&[wrong]), None);
        }
        assert_eq!(holm(&[]).unwrap(), Vec::<f64>::new());
        assert_eq!(holm(&[0.4]).unwrap(), [0.4]);
        assert_eq!(holm(&[0.9, 1.0]).unwrap(), [1.0, 1.0]);
    }

    /// Holm's own procedure, step by step: reject while the smallest remaining p is at most α/(remaining).
    fn rejects_step_by_step(p: &[f64], alpha: f64) -> Vec<bool> {
        let mut rejected = vec![false; p.len()];
        for left in (1..=p.len()).rev() {
            let open = (0..p.len()).filter(|i| !rejected[*i]);
            let Some(least) = open.min_by(|a, b| p[*a].total_cmp(&p[*b])) else {
                break;
            };
            if p[least] * left as f64 > alpha {
                break;
            }
            rejected[least] = true;
        }
        rejected
    }

    proptest! {
        #[test]
        fn adjusted_values_reject_what_the_steps_reject(
            p in prop::collection::vec(0.0..=1.0f64, 1..9), alpha in 0.001..0.5f64,
        ) {
            let adjusted = holm(&p).unwrap();
            let rejected: Vec<bool> = adjusted.iter().map(|p| *p <= alpha).collect();
            prop_assert_eq!(rejected, rejects_step_by_step(&p, alpha));
            let bh = benjamini_hochberg(&p).unwrap();
            for ((holm, bh), raw) in adjusted.iter().zip(&bh).zip(&p) {
                // Bonferroni ≥ Holm ≥ Benjamini–Hochberg ≥ the raw value.
                prop_assert!(*holm <= (raw * p.len() as f64).min(1.0) + 1e-15);
                prop_assert!(bh <= &(holm + 1e-15) && *bh >= raw - 1e-15);
            }
        }
    }
}
