//! Cells of estimates: the number, its interval, and in words by which method and from how many.

use super::Cell;
use crate::report::format::{margin_points, whole};
use crate::stats::Estimate;

/// An estimate as it is written (`93.8 % [93.2, 94.4]`), taken apart into a cell.
pub(super) fn measured(estimate: &Estimate, written: &str) -> Cell {
    let (text, aside) = match written.find('[') {
        Some(at) if at > 0 => (written[..at].trim_end(), &written[at..]),
        _ => (written, ""),
    };
    Cell {
        text: text.to_owned(),
        aside: aside.to_owned(),
        detail: if estimate.value.is_some() {
            detail(estimate)
        } else {
            String::new()
        },
        key: estimate.value,
        ..Cell::default()
    }
}

/// How an estimate was made: `95 % interval by Wilson's score, n = 6,000`.
pub(super) fn detail(estimate: &Estimate) -> String {
    let n = whole(estimate.n);
    if estimate.limits().is_none() {
        return format!("no interval, n = {n}");
    }
    format!(
        "{} % interval by {}, n = {n}",
        margin_points(estimate.level),
        method(estimate.method)
    )
}

/// A method in words; one without words goes by its name.
pub(super) fn method(name: &'static str) -> &'static str {
    match name {
        "wilson" => "Wilson's score",
        "tango" => "Tango's paired score",
        "normal" => "the normal curve",
        Estimate::T_REPLICATES => "Student's t over replicates",
        Estimate::ROWS_AND_REPLICATES => "the spread over requests and replicates",
        Estimate::CLUSTER_T => "Student's t over clusters",
        Estimate::CLUSTER_TANGO => "Tango's paired score over clusters",
        Estimate::CLUSTER_BCA => "drawing clusters anew (BCa)",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Limits;

    #[test]
    fn a_number_says_how_it_was_made() {
        let limits = Limits {
            low: 0.9,
            high: 0.95,
        };
        let estimate = Estimate::new(0.93, Some(limits), 0.95, 6000, "wilson");
        let cell = measured(&estimate, "93.0 % [90.0, 95.0]");
        assert_eq!(cell.text, "93.0 %");
        assert_eq!(cell.aside, "[90.0, 95.0]");
        assert_eq!(cell.detail, "95 % interval by Wilson's score, n = 6,000");
        let none = measured(&Estimate::unknown(0.95), "unknown");
        assert_eq!((none.detail.as_str(), none.key), ("", None));
    }
}
