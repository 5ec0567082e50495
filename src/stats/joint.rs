//! What a candidate and a primary make of the same request.

/// Probabilities of the four outcomes of a pair of answers.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Joint {
    p11: f64,
    p10: f64,
    p01: f64,
    p00: f64,
}

impl Joint {
    /// Both right, only the candidate right, only the primary right, both wrong.
    ///
    /// `None` unless all four are at least 0 and their sum is 1 to within 10⁻⁹.
    #[must_use]
    pub fn new(p11: f64, p10: f64, p01: f64, p00: f64) -> Option<Self> {
        let cells = [p11, p10, p01, p00];
        let sound =
            cells.iter().all(|p| *p >= 0.0) && (cells.iter().sum::<f64>() - 1.0).abs() <= 1e-9;
        sound.then_some(Self { p11, p10, p01, p00 })
    }

    /// P(both right).
    #[must_use]
    pub fn p11(&self) -> f64 {
        self.p11
    }

    /// P(only the candidate right).
    #[must_use]
    pub fn p10(&self) -> f64 {
        self.p10
    }

    /// P(only the primary right).
    #[must_use]
    pub fn p01(&self) -> f64 {
        self.p01
    }

    /// P(both wrong).
    #[must_use]
    pub fn p00(&self) -> f64 {
        self.p00
    }

    /// The candidate's accuracy minus the primary's: p10 − p01.
    #[must_use]
    pub fn difference(&self) -> f64 {
        self.p10 - self.p01
    }

    /// How often the two disagree: p10 + p01. It drives the size of a paired comparison.
    #[must_use]
    pub fn disagreement(&self) -> f64 {
        self.p10 + self.p01
    }
}
