//! Pictures as PNG, for whoever cannot show SVG.
//!
//! The SVG is the picture; this draws it in dots, with one font that the program brings along (Ubuntu Light),
//! so that the bytes are the same on every run, and on all machines of one kind of processor (vector instructions of
//! another kind may round a last bit differently). Signs that this font does
//! not have (it has Latin, Greek and Cyrillic letters) are left out: the SVG and the tables have them.

use resvg::{tiny_skia, usvg};
use std::sync::Arc;

/// Most dots of a side.
const SIDE_MAX: u32 = 8_192;

/// A picture in dots: one of our SVG documents, `scale` dots to a pixel.
///
/// `None` if it is no SVG, or larger than 8,192 dots on a side.
#[must_use]
pub fn png(svg: &str, scale: u32) -> Option<Vec<u8>> {
    let mut fonts = usvg::fontdb::Database::new();
    fonts.load_font_data(epaint_default_fonts::UBUNTU_LIGHT.to_vec());
    let family = fonts.faces().next()?.families.first()?.0.clone();
    fonts.set_sans_serif_family(&family);
    let options = usvg::Options {
        font_family: family,
        fontdb: Arc::new(fonts),
        ..usvg::Options::default()
    };
    let tree = usvg::Tree::from_str(svg, &options).ok()?;
    let size = tree.size().to_int_size();
    let side = |pixels: u32| {
        let dots = pixels.checked_mul(scale)?;
        (1..=SIDE_MAX).contains(&dots).then_some(dots)
    };
    let (width, height) = (side(size.width())?, side(size.height())?);
    let mut dots = tiny_skia::Pixmap::new(width, height)?;
    let scale = scale as f32;
    let transform = tiny_skia::Transform::from_scale(scale, scale);
    resvg::render(&tree, transform, &mut dots.as_mut());
    dots.encode_png().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SVG: &str = "<svg width=\"120\" height=\"40\" viewBox=\"0 0 120 40\" xmlns=\"http://www.w3.org/2000/svg\"><rect x=\"0\" y=\"0\" width=\"120\" height=\"40\" fill=\"#FFFFFF\"/>";

    fn drawn(text: &str) -> Vec<u8> {
        let text = format!(
            "{SVG}<text x=\"4\" y=\"24\" font-family=\"sans-serif\" font-size=\"16\" fill=\"#282828\">{text}</text></svg>"
        );
        png(&text, 2).unwrap()
    }

    #[test]
    fn words_are_drawn_with_the_font_that_is_brought_along() {
        let (empty, some, other) = (drawn(""), drawn("verdict"), drawn("evidence"));
        assert!(some.starts_with(b"\x89PNG\r\n\x1a\n"));
        // Signature, length, `IHDR`, then width and height (PNG specification, 11.2.2).
        assert_eq!(some[16..24], [0, 0, 0, 240, 0, 0, 0, 80]);
        assert!(empty != some && some != other);
        assert_eq!(some, drawn("verdict"));
    }

    #[test]
    fn what_is_no_picture_or_too_large_is_refused() {
        assert_eq!(png("no picture", 1), None);
        assert_eq!(png(&format!("{SVG}</svg>"), 1_000), None);
        assert_eq!(png(&format!("{SVG}</svg>"), 0), None);
    }
}
