//! Draws plots as SVG: the same figures give the same bytes. They stand on white, so that they can be read on a dark page too.
//!
//! No fonts are at hand while drawing, so widths of texts are estimates, on the generous side: see `text`.

mod bars;
mod canvas;
mod header;
mod lines;
mod palette;
mod scale;
#[cfg(test)]
mod tests;
mod text;

use crate::{
    Error,
    section::{Plot, PlotKind},
};

/// # Errors
///
/// If there is nothing to draw, or a figure has no place on its axis.
pub(crate) fn svg(plot: &Plot) -> Result<String, Error> {
    match &plot.kind {
        PlotKind::Bars { labels, series } => bars::svg(plot, labels, series),
        PlotKind::Lines { axis, series } => lines::svg(plot, axis, series),
    }
    .map_err(|error| format!("plot {}: {error}", plot.name).into())
}
