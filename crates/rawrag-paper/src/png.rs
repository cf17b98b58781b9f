//! Figures as PNG, drawn from their SVG with the fonts of this machine.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

/// Why a picture cannot be turned into pixels.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// Text would be left out.
    #[error(
        "no sans-serif font is installed, so a PNG would have no text; install one, or use the SVG"
    )]
    NoFont,
    /// Not a picture that can be drawn.
    #[error("the SVG cannot be drawn: {0}")]
    Svg(String),
}

/// The picture at `scale` pixels for each of its units.
///
/// The SVG has the same bytes on every machine; the pixels depend on the font found here.
///
/// # Errors
/// [`PngError`] when no font is found or the SVG is damaged.
pub fn png(svg: &str, scale: f32) -> Result<Vec<u8>, PngError> {
    let wrong = |problem: &dyn std::fmt::Display| PngError::Svg(problem.to_string());
    let mut options = Options::default();
    let fonts = options.fontdb_mut();
    fonts.load_system_fonts();
    // What a family name like `sans-serif` means is for the machine to say; the fonts database
    // assumes Arial, which few machines have.
    let found = [
        "DejaVu Sans",
        "Liberation Sans",
        "Noto Sans",
        "Arial",
        "Helvetica",
    ]
    .into_iter()
    .find(|wanted| {
        fonts
            .faces()
            .any(|face| face.families.iter().any(|(name, _)| name == wanted))
    })
    .map(str::to_owned)
    .or_else(|| Some(fonts.faces().next()?.families.first()?.0.clone()))
    .ok_or(PngError::NoFont)?;
    fonts.set_sans_serif_family(found);
    let tree = Tree::from_str(svg, &options).map_err(|error| wrong(&error))?;
    let size = tree
        .size()
        .to_int_size()
        .scale_by(scale)
        .ok_or_else(|| wrong(&format!("its size times {scale} is no size")))?;
    let mut pixels =
        Pixmap::new(size.width(), size.height()).ok_or_else(|| wrong(&"it has no size"))?;
    resvg::render(
        &tree,
        Transform::from_scale(scale, scale),
        &mut pixels.as_mut(),
    );
    pixels.encode_png().map_err(|error| wrong(&error))
}
