//! An axis: values to pixels, and round numbers to write beside it.

/// A linear or logarithmic axis over a range of pixels.
#[derive(Clone, Copy, Debug)]
pub(in crate::report) struct Axis {
    is_log: bool,
    /// On the axis's own scale: values, or their decimal logarithms.
    low: f64,
    high: f64,
    from: i32,
    to: i32,
}

impl Axis {
    /// An axis on which all values fit with some room at both ends, logarithmic if all are above zero and
    /// the largest is more than `log_ratio` times the smallest. `None` without finite values.
    pub(in crate::report) fn fitting(
        values: &[f64],
        (from, to): (i32, i32),
        log_ratio: f64,
    ) -> Option<Self> {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let least = finite().reduce(f64::min)?;
        let most = finite().reduce(f64::max)?;
        let is_log = least > 0.0 && most / least > log_ratio;
        let scale = |value: f64| if is_log { libm::log10(value) } else { value };
        let (low, high) = (scale(least), scale(most));
        // Where everything is one value, there is room around it all the same.
        let room = if high > low {
            (high - low) * 0.06
        } else {
            (low.abs() * 0.1).max(0.5)
        };
        Some(Self {
            is_log,
            low: low - room,
            high: high + room,
            from,
            to,
        })
    }

    /// A linear axis from `low` to `high`, which is above it, from end to end.
    pub(in crate::report) fn between(low: f64, high: f64, (from, to): (i32, i32)) -> Self {
        Self {
            is_log: false,
            low,
            high: if high > low { high } else { low + 1.0 },
            from,
            to,
        }
    }

    /// Whether equal distances are equal ratios.
    pub(in crate::report) fn is_log(&self) -> bool {
        self.is_log
    }

    /// How much of this axis another one would take, both on this one's scale.
    pub(in crate::report) fn share_of(&self, other: &Self) -> f64 {
        let ends = [other.low, other.high].map(|end| match (self.is_log, other.is_log) {
            (true, false) => libm::log10(end.max(f64::MIN_POSITIVE)),
            (false, true) => libm::pow(10.0, end),
            _ => end,
        });
        (ends[1] - ends[0]) / (self.high - self.low)
    }

    /// Whether the value is on the axis.
    pub(in crate::report) fn holds(&self, value: f64) -> bool {
        let at = if self.is_log {
            libm::log10(value)
        } else {
            value
        };
        (self.low..=self.high).contains(&at)
    }

    /// The pixel of a value, on the axis even if the value is not.
    pub(in crate::report) fn pixel(&self, value: f64) -> i32 {
        let at = if !self.is_log {
            value
        } else if value > 0.0 {
            libm::log10(value)
        } else {
            self.low
        };
        let share = ((at - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        let length = f64::from(self.to - self.from);
        self.from + (share * length).round() as i32
    }

    /// Pixels and texts of round numbers, in order.
    pub(in crate::report) fn ticks(&self) -> Vec<(i32, String)> {
        let written = if self.is_log {
            self.log_ticks()
        } else {
            self.linear_ticks(7.0)
        };
        written
            .into_iter()
            .map(|(value, text)| (self.pixel(value), text))
            .collect()
    }

    /// Pixels and texts of about so many round numbers on a linear axis, in order.
    pub(in crate::report) fn about(&self, ticks: f64) -> Vec<(i32, String)> {
        self.linear_ticks(ticks)
            .into_iter()
            .map(|(value, text)| (self.pixel(value), text))
            .collect()
    }

    /// Multiples of 1, 2 or 5 times a power of ten, about so many of them.
    fn linear_ticks(&self, about: f64) -> Vec<(f64, String)> {
        let rough = (self.high - self.low) / about;
        let exponent = libm::floor(libm::log10(rough)) as i32;
        let power = libm::pow(10.0, f64::from(exponent));
        let (step, digit) = [(1.0, 1), (2.0, 2), (5.0, 5), (10.0, 10)]
            .map(|(factor, digit)| (factor * power, digit))
            .into_iter()
            .find(|(step, _)| *step >= rough)
            .unwrap_or((10.0 * power, 10));
        let decimals = if digit == 10 {
            -exponent - 1
        } else {
            -exponent
        }
        .clamp(0, 12) as usize;
        let first = libm::ceil(self.low / step) as i64;
        let last = libm::floor(self.high / step) as i64;
        (first..=last)
            .map(|count| {
                let value = count as f64 * step;
                let text = format!("{value:.decimals$}");
                // A rounded zero has no sign.
                let text = if count == 0 {
                    text.replace('-', "")
                } else {
                    text
                };
                (value, text)
            })
            .collect()
    }

    /// Powers of ten, with their double and fivefold while these are few.
    fn log_ticks(&self) -> Vec<(f64, String)> {
        let (first, last) = (libm::floor(self.low) as i32, libm::ceil(self.high) as i32);
        let factors: &[f64] = if self.high - self.low > 3.5 {
            &[1.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        let mut ticks = Vec::new();
        for exponent in first..=last {
            for factor in factors {
                let value = factor * libm::pow(10.0, f64::from(exponent));
                let at = libm::log10(value);
                if (self.low..=self.high).contains(&at) {
                    let decimals = (-exponent).clamp(0, 12) as usize;
                    ticks.push((value, format!("{value:.decimals$}")));
                }
            }
        }
        ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(values: &[f64], ratio: f64) -> Vec<String> {
        let axis = Axis::fitting(values, (0, 700), ratio).unwrap();
        axis.ticks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_numbers_with_the_digits_they_need() {
        assert_eq!(
            texts(&[0.0, 6.0], 20.0),
            ["0", "1", "2", "3", "4", "5", "6"]
        );
        assert_eq!(texts(&[97.2, 97.9], 20.0), ["97.2", "97.4", "97.6", "97.8"]);
        assert_eq!(
            texts(&[0.3, 18.0], 20.0),
            ["0.5", "1", "2", "5", "10", "20"]
        );
        assert_eq!(texts(&[0.001, 9000.0], 20.0).len(), 8);
        assert!(texts(&[5.0], 20.0).contains(&"5.0".to_owned()));
    }

    #[test]
    fn costs_of_zero_are_not_put_on_a_logarithmic_axis() {
        let axis = Axis::fitting(&[0.0, 1000.0], (0, 100), 20.0).unwrap();
        assert!(!axis.is_log);
        assert!(Axis::fitting(&[], (0, 100), 20.0).is_none());
        assert!(Axis::fitting(&[f64::NAN], (0, 100), 20.0).is_none());
    }

    proptest! {
        #[test]
        fn values_are_on_the_axis_in_their_order(
            values in prop::collection::vec(1e-9_f64..1e9, 1..20), ratio in 2.0_f64..1e6,
        ) {
            let axis = Axis::fitting(&values, (560, 80), ratio).unwrap();
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let pixels: Vec<i32> = sorted.iter().map(|value| axis.pixel(*value)).collect();
            prop_assert!(pixels.windows(2).all(|two| two[0] >= two[1]));
            prop_assert!(pixels.iter().all(|pixel| (80..=560).contains(pixel)));
            prop_assert!(axis.ticks().len() <= 40);
        }
    }
}
