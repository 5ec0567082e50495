//! The cheapest mix of alternatives that is as accurate as something else.
//!
//! Who sends a request to alternative a with probability w and else to b stands on the straight line between
//! their points on the plane of cost and accuracy. So the cheapest way to an accuracy lies on the lower
//! convex hull of the points, and two alternatives are always enough: a point of a hull's edge is a mix of
//! its two ends.

use super::pareto::Point;

/// A mix of two alternatives, or of one alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheapestMix {
    /// What it costs, in the unit of the points.
    pub cost: f64,
    /// The less accurate alternative: an index.
    pub low: usize,
    /// The more accurate one; the same if one is enough.
    pub high: usize,
    /// The share of requests that go to the more accurate one.
    pub share: f64,
}

/// The cheapest mix of `points` that is at least as accurate as `accuracy`; of equals the one that comes first.
/// `None` if none is, or if a point or the accuracy is not a number: an alternative of unknown place might be
/// the cheapest.
#[must_use]
pub fn cheapest_mix(points: &[Point], accuracy: f64) -> Option<CheapestMix> {
    let known = |point: &Point| point.cost.is_finite() && point.accuracy.is_finite();
    if !points.iter().all(known) {
        return None;
    }
    let mut best: Option<CheapestMix> = None;
    let mut offer = |mix: CheapestMix| {
        if best.is_none_or(|best| mix.cost < best.cost) {
            best = Some(mix);
        }
    };
    for (high, above) in points.iter().enumerate() {
        // Not "below": false for an accuracy that is not a number.
        if above.accuracy >= accuracy {
            offer(CheapestMix {
                cost: above.cost,
                low: high,
                high,
                share: 1.0,
            });
            for (low, below) in points.iter().enumerate() {
                if below.accuracy < accuracy {
                    let share = (accuracy - below.accuracy) / (above.accuracy - below.accuracy);
                    offer(CheapestMix {
                        cost: below.cost + share * (above.cost - below.cost),
                        low,
                        high,
                        share,
                    });
                }
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point(cost: f64, accuracy: f64) -> Point {
        Point { cost, accuracy }
    }

    #[test]
    fn a_mix_lies_on_the_hull() {
        // The middle one lies above the line between its neighbours, so no mix uses it.
        let points = [point(1.0, 0.5), point(6.0, 0.7), point(9.0, 0.9)];
        let mix = cheapest_mix(&points, 0.7).unwrap();
        assert_eq!((mix.low, mix.high), (0, 2));
        assert!((mix.share - 0.5).abs() < 1e-12 && (mix.cost - 5.0).abs() < 1e-12);
        // Whoever is less accurate than all is reached by the cheapest one alone.
        let mix = cheapest_mix(&points, 0.2).unwrap();
        assert_eq!((mix.low, mix.high, mix.cost, mix.share), (0, 0, 1.0, 1.0));
        assert_eq!(cheapest_mix(&points, 0.9).unwrap().cost, 9.0);
        assert_eq!(cheapest_mix(&points, 0.900_1), None);
        // One that is better and cheaper takes the place of the others.
        let points = [point(5.0, 0.5), point(4.0, 0.6)];
        assert_eq!(cheapest_mix(&points, 0.5).unwrap().low, 1);
        assert_eq!(cheapest_mix(&[], 0.5), None);
        assert_eq!(cheapest_mix(&points, f64::NAN), None);
        assert_eq!(cheapest_mix(&[points[0], point(f64::NAN, 0.9)], 0.1), None);
    }

    proptest! {
        /// No mix of any number of alternatives that is as accurate costs less.
        #[test]
        fn no_other_mix_is_cheaper(
            points in prop::collection::vec((0.0_f64..9.0, 0.0_f64..1.0), 1..7),
            weights in prop::collection::vec(0.0_f64..1.0, 7),
        ) {
            let points: Vec<Point> = points.iter().map(|&(cost, accuracy)| point(cost, accuracy)).collect();
            let total: f64 = weights[..points.len()].iter().sum();
            prop_assume!(total > 1e-3);
            let mixed = |of: fn(&Point) -> f64| -> f64 {
                points.iter().zip(&weights).map(|(one, weight)| of(one) * weight / total).sum()
            };
            let (cost, accuracy) = (mixed(|one| one.cost), mixed(|one| one.accuracy));
            let best = cheapest_mix(&points, accuracy - 1e-12).unwrap();
            prop_assert!(best.cost <= cost + 1e-6, "{} is more than {cost}", best.cost);
            // And it is what it says.
            let (low, high) = (points[best.low], points[best.high]);
            let reached = low.accuracy + best.share * (high.accuracy - low.accuracy);
            prop_assert!(reached >= accuracy - 1e-9 && (0.0..=1.0).contains(&best.share));
        }
    }
}
