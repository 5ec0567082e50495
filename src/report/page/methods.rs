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
    // Nothing at all, surely: an interval of nothing says no more.
    let is_nothing = [estimate.value, estimate.low, estimate.high] == [Some(0.0); 3];
    let aside = if is_nothing { "" } else { aside };
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

/// The same where only the number itself is shown: `whole` is how it is written with its interval, which then
/// is a part of the detail.
pub(super) fn alone(estimate: &Estimate, text: String, whole: &str) -> Cell {
    let mut cell = measured(estimate, &text);
    if let (Some(at), true) = (whole.find('['), estimate.limits().is_some()) {
        cell.detail = format!("{}, {}", &whole[at..], cell.detail);
    }
    cell
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
        "ratio" => "the delta method for a ratio",
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
        let alone = alone(&estimate, "93 %".to_owned(), "93.0 % [90.0, 95.0]");
        assert_eq!((alone.text.as_str(), alone.aside.as_str()), ("93 %", ""));
        assert!(alone.detail.starts_with("[90.0, 95.0], 95 % interval"));
        let none = measured(&Estimate::unknown(0.95), "unknown");
        assert_eq!((none.detail.as_str(), none.key), ("", None));
    }
}
