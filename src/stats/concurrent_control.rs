//! A canary whose baseline nobody knows, held against the traffic beside it.
//!
//! A test of the canary's error rate against a known one is wrong as soon as the traffic gets harder:
//! everything errs more, and the canary is blamed. With a control group at the same time the question
//! is only from which of the two the next error comes. If the canary has a share s of the traffic and
//! errs as often as the control, it is the source of a share s of the errors, whatever that rate is;
//! if it errs r times as often, of θ = s·r/(s·r + 1 − s). So the stream of errors is a stream of hits
//! and misses with known shares, and Wald's test decides it.
//!
//! Source of the idea, conditioning on the number of events: L. Li, M. Kulldorff, Statistics in
//! Medicine 29 (2010) 284–295 (conditional maximized SPRT). What it is not: a comparison of pairs; if
//! both answer the same requests, `MixtureE` sees more in them.

use super::sprt::Sprt;
use super::stream_test::OperatingCharacteristics;

/// The share of errors that comes from a canary with a share `share` of the traffic and error rate
/// `p_canary`, when the rest errs at `p_control`: s·p₁/(s·p₁ + (1 − s)·p₀).
///
/// `None` unless all are in [0, 1] and an error is possible at all.
#[must_use]
pub fn error_share(share: f64, p_control: f64, p_canary: f64) -> Option<f64> {
    let shares = [share, p_control, p_canary];
    let possible = shares.iter().all(|value| (0.0..=1.0).contains(value));
    let (canary, control) = (share * p_canary, (1.0 - share) * p_control);
    (possible && canary + control > 0.0).then(|| canary / (canary + control))
}

/// A sequential test of a canary against its control: each error is one observation, a hit if it came
/// from the canary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConcurrentControl {
    sprt: Sprt,
    share: f64,
}

/// What such a test does at given error rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ControlOdds {
    /// Chances of both decisions; observations are errors of either group.
    pub errors: OperatingCharacteristics,
    /// Expected requests of both groups until it decides.
    pub requests: f64,
    /// Expected requests of the canary until then.
    pub canary_requests: f64,
    /// Expected wrong answers of the canary beyond what the control would have given.
    pub harm: f64,
}

impl ConcurrentControl {
    /// A test for a canary with a share `share` of the requests of both groups (½ for a control of
    /// equal weight). H0: it errs as often as the control. H1: it errs p1/p0 times as often, such as
    /// 2 for "twice". Bounds as for [`Sprt::new`].
    ///
    /// `None` unless 0 < share < 1, the ratio is above 1 and finite, and the bounds make sense.
    #[must_use]
    pub fn new(share: f64, ratio: f64, alpha: f64, beta: f64) -> Option<Self> {
        if !(share > 0.0 && share < 1.0 && ratio > 1.0 && ratio.is_finite()) {
            return None;
        }
        let theta = share * ratio / (share * ratio + (1.0 - share));
        Some(Self {
            sprt: Sprt::new(share, theta, alpha, beta)?,
            share,
        })
    }

    /// The test on the stream of errors.
    #[must_use]
    pub fn sprt(&self) -> &Sprt {
        &self.sprt
    }

    /// The canary's share of the requests.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.share
    }

    /// What it does when the groups err at these rates; after `cap` errors it is broken off.
    ///
    /// Errors come once in 1/(s·p₁ + (1 − s)·p₀) requests, so the requests are that many times the
    /// expected errors (A. Wald, Annals of Mathematical Statistics 15 (1944) 283–296). `None` as for
    /// [`error_share`]: without errors it never decides. Without a cap see
    /// [`OperatingCharacteristics::is_decided`]: with a ratio near 1 the calculation may have been given
    /// up, and requests and harm are then less than the truth.
    #[must_use]
    pub fn odds(&self, p_control: f64, p_canary: f64, cap: Option<u64>) -> Option<ControlOdds> {
        let theta = error_share(self.share, p_control, p_canary)?;
        let errors = self.sprt.operating_characteristics(theta, cap)?;
        let rate = self.share * p_canary + (1.0 - self.share) * p_control;
        let requests = errors.expected_n / rate;
        let canary_requests = requests * self.share;
        Some(ControlOdds {
            errors,
            requests,
            canary_requests,
            harm: canary_requests * (p_canary - p_control),
        })
    }
}

/// What a canary with a known baseline costs until its test decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CanaryCost {
    /// Expected requests that the canary answers.
    pub canary_requests: f64,
    /// Expected requests of the whole traffic of the tested kind meanwhile: the delay.
    pub requests: f64,
    /// Expected wrong answers beyond the baseline's: E N·(p − p₀). It does not depend on the share,
    /// which only sets the delay.
    pub harm: f64,
}

impl CanaryCost {
    /// From what the test does at the canary's true error rate `p_canary`, a baseline of `p_baseline`
    /// and the canary's `share` of the traffic. `None` unless 0 < share ≤ 1 and the rates are in
    /// [0, 1].
    #[must_use]
    pub fn new(
        test: &OperatingCharacteristics,
        p_baseline: f64,
        p_canary: f64,
        share: f64,
    ) -> Option<Self> {
        let is_share = |value: f64| (0.0..=1.0).contains(&value);
        (share > 0.0 && is_share(share) && is_share(p_baseline) && is_share(p_canary)).then(|| {
            Self {
                canary_requests: test.expected_n,
                requests: test.expected_n / share,
                harm: test.expected_n * (p_canary - p_baseline),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{SprtState, Verdict};

    #[test]
    fn the_baseline_does_not_matter() {
        let control = ConcurrentControl::new(0.5, 3.0, 0.05, 0.10).unwrap();
        for (p_control, p_canary) in [(0.01, 0.03), (0.1, 0.3), (0.3, 0.9)] {
            assert!((error_share(0.5, p_control, p_canary).unwrap() - 0.75).abs() < 1e-15);
            let well = control.odds(p_control, p_control, None).unwrap();
            let bad = control.odds(p_control, p_canary, None).unwrap();
            assert!(well.errors.accept_h1 < 0.056, "{well:?}");
            assert!(bad.errors.accept_h1 > 0.889, "{bad:?}");
            // The rarer errors are, the longer it takes to see as many.
            let rate = f64::midpoint(p_control, p_canary);
            assert!((bad.requests * rate - bad.errors.expected_n).abs() < 1e-9);
            assert!(well.harm == 0.0 && bad.harm > 0.0);
        }
    }

    #[test]
    fn expected_requests_are_those_of_every_run_of_requests() {
        // All runs of twelve requests, with a test that ends within three errors or is cut off there.
        let control = ConcurrentControl::new(0.4, 30.0, 0.2, 0.2).unwrap();
        let (p_control, p_canary) = (0.5, 0.9);
        // Per request: an error of the canary, one of the control, or none.
        let chances = [
            0.4 * p_canary,
            0.6 * p_control,
            1.0 - 0.4 * p_canary - 0.6 * p_control,
        ];
        let cap = 2;
        let mut expected = 0.0;
        let length = 12;
        for code in 0..3_u32.pow(length) {
            let mut rest = code;
            let mut chance = 1.0;
            let mut state = SprtState::new(*control.sprt());
            let mut requests = 0;
            for _ in 0..length {
                let kind = (rest % 3) as usize;
                rest /= 3;
                chance *= chances[kind];
                if state.verdict() == Verdict::Continue && state.n() < cap {
                    requests += 1;
                    if kind < 2 {
                        state.observe(kind == 0);
                    }
                }
            }
            expected += chance * f64::from(requests);
        }
        let odds = control.odds(p_control, p_canary, Some(cap)).unwrap();
        // Runs longer than twelve requests have a chance of some 0.34¹¹.
        assert!(
            (odds.requests - expected).abs() < 1e-3,
            "{odds:?} {expected}"
        );
        assert!(odds.requests >= expected);
    }

    #[test]
    fn harm_until_detection_does_not_depend_on_the_share() {
        let sprt = Sprt::new(0.032, 0.14, 0.05, 0.10).unwrap();
        let test = sprt.operating_characteristics(0.14, None).unwrap();
        let small = CanaryCost::new(&test, 0.032, 0.14, 0.01).unwrap();
        let large = CanaryCost::new(&test, 0.032, 0.14, 0.5).unwrap();
        assert_eq!(small.harm, large.harm);
        assert!((small.harm - test.expected_n * 0.108).abs() < 1e-12);
        assert!((small.requests - 50.0 * large.requests).abs() < 1e-8);
    }

    #[test]
    fn nonsense_is_no_control() {
        assert_eq!(error_share(0.5, 0.0, 0.0), None);
        assert_eq!(error_share(1.5, 0.1, 0.1), None);
        for (share, ratio) in [
            (0.0, 2.0),
            (1.0, 2.0),
            (0.5, 1.0),
            (0.5, f64::INFINITY),
            (f64::NAN, 2.0),
        ] {
            assert_eq!(ConcurrentControl::new(share, ratio, 0.05, 0.1), None);
        }
        let control = ConcurrentControl::new(0.5, 2.0, 0.05, 0.1).unwrap();
        assert_eq!(control.odds(0.0, 0.0, None), None);
        let sure = control.odds(0.0, 0.1, None).unwrap();
        assert_eq!(sure.errors.accept_h1, 1.0);
        let test = control.sprt().operating_characteristics(0.5, None).unwrap();
        assert_eq!(CanaryCost::new(&test, 0.1, 0.1, 0.0), None);
        assert_eq!(CanaryCost::new(&test, 0.1, f64::NAN, 0.5), None);
    }
}
