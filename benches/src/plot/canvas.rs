use plotters::backend::SVGBackend;
use plotters::{
    coord::Shift,
    drawing::{DrawingArea, IntoDrawingArea as _},
    style::WHITE,
};

use crate::Error;

/// What a plot is drawn on, measured in pixels.
pub(super) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// As wide as GitHub shows a picture without scaling it.
pub(super) const WIDTH: u32 = 860;
pub(super) const MARGIN: u32 = 16;
/// How long the marks on an axis are.
pub(super) const TICK: u32 = 5;

/// An SVG of what is drawn.
pub(super) fn drawn(height: u32, draw: impl FnOnce(&Canvas<'_>) -> Result<(), Error>) -> Result<String, Error> {
    let mut svg = String::new();
    let canvas = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    canvas.fill(&WHITE)?;
    draw(&canvas)?;
    canvas.present()?;
    drop(canvas);
    Ok(svg)
}
