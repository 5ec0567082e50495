//! Pictures inside a page: the SVG of our plots, with a name that is read out, in a box that scrolls.

use super::html::Html;
use crate::report::sheet::Figure;

/// A figure; `id` is its own within the page.
pub(super) fn html(figure: &Figure, id: &str) -> Html {
    let label = format!("{id}-label");
    Html::element(
        "figure",
        &[],
        [
            Html::element(
                "div",
                &[
                    ("class", "scroll"),
                    ("role", "group"),
                    ("tabindex", "0"),
                    ("aria-labelledby", &label),
                ],
                [inlined(figure, id)],
            ),
            Html::leaf("figcaption", &[("id", &label)], &figure.about),
        ],
    )
}

/// The SVG as a part of the page. An image has no parts to whoever listens: its name and what it shows are
/// all, and the numbers are in tables.
fn inlined(figure: &Figure, id: &str) -> Html {
    let title_id = format!("{id}-title");
    let about_id = format!("{id}-about");
    let Some(rest) = figure.svg.strip_prefix("<svg ") else {
        return Html::text("there is no picture");
    };
    let Some((attributes, inside)) = rest.split_once('>') else {
        return Html::text("there is no picture");
    };
    let title = Html::leaf("title", &[("id", &title_id)], &figure.title).into_text();
    let about = Html::leaf("desc", &[("id", &about_id)], &figure.about).into_text();
    Html::drawn(format!(
        "<svg role=\"img\" aria-labelledby=\"{title_id} {about_id}\" {attributes}>{title}{about}{}",
        inside.trim_end()
    ))
}
