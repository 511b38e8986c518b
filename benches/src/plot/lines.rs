use plotters::{
    backend::SVGBackend,
    chart::{ChartBuilder, ChartContext, LabelAreaPosition},
    element::{Circle, EmptyElement, PathElement, Polygon, Text},
    prelude::Cartesian2d,
    style::{Color as _, RGBColor, WHITE, text_anchor::HPos},
};

use super::{
    canvas::{self, Canvas, MARGIN, TICK, WIDTH},
    header::Header,
    palette,
    scale::Scale,
    text::{self, LINE_HEIGHT, SIZE},
};
use crate::{Error, format, section::Plot, spread::Spread};

type Series = (String, Vec<(f64, Spread)>);
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Scale, Scale>>;

const HEIGHT: u32 = 340;
/// The labels of the axis, and what it is labelled as a whole.
const BELOW: u32 = 44;
/// What the axis at the left is labelled as a whole: above it, where it has room.
const ABOVE: u32 = LINE_HEIGHT + 12;
const LABELS_TO_AXIS: u32 = 10;
const POINT_TO_FIGURE: u32 = 9;

/// Lines through the medians, in bands from the least to the greatest; what the last point of a line is, stands beside it where
/// there is room.
pub(super) fn svg(plot: &Plot, axis: &str, series: &[Series]) -> Result<String, Error> {
    let places = Scale::by_factors(series.iter().flat_map(|(_, points)| points).map(|(place, _)| *place))?;
    let spreads = series.iter().flat_map(|(_, points)| points).map(|(_, figure)| figure);
    let figures = Scale::of_figures(spreads.clone().flat_map(|figure| [figure.min, figure.median, figure.max]))?;
    let header = Header::new(&plot.title, series.iter().map(|(name, _)| name.as_str()));
    let written = spreads.map(|figure| text::width(&format::figure(figure.median), SIZE));
    let right = MARGIN + POINT_TO_FIGURE + written.max().unwrap_or_default();
    let lines: Vec<_> = series.iter().map(|(_, points)| in_order(points)).collect();

    canvas::drawn(header.height() + ABOVE + HEIGHT + BELOW + MARGIN, |canvas| {
        header.draw(canvas)?;
        let mut chart = axes(canvas, &header, (places, axis), (figures, &plot.unit), right)?;
        for (index, line) in lines.iter().enumerate() {
            draw_spread(&mut chart, palette::color(index), line)?;
        }
        // Above the spread of all of them.
        for (index, line) in lines.iter().enumerate() {
            draw_medians(&mut chart, palette::color(index), line)?;
        }
        draw_last_figures(&mut chart, &lines)
    })
}

/// From left to right.
fn in_order(points: &[(f64, Spread)]) -> Vec<(f64, Spread)> {
    let mut points = points.to_vec();
    points.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    points
}

/// A band from the least to the greatest, and where the points are a whisker.
fn draw_spread(chart: &mut Chart<'_, '_>, color: RGBColor, line: &[(f64, Spread)]) -> Result<(), Error> {
    let greatest = line.iter().map(|(place, figure)| (*place, figure.max));
    let least = line.iter().rev().map(|(place, figure)| (*place, figure.min));
    chart.draw_series([Polygon::new(greatest.chain(least).collect::<Vec<_>>(), color.mix(0.13))])?;
    let whiskers = line.iter().map(|(place, figure)| vec![(*place, figure.min), (*place, figure.max)]);
    chart.draw_series(whiskers.map(|whisker| PathElement::new(whisker, color.mix(0.7))))?;
    Ok(())
}

fn draw_medians(chart: &mut Chart<'_, '_>, color: RGBColor, line: &[(f64, Spread)]) -> Result<(), Error> {
    let medians: Vec<_> = line.iter().map(|(place, figure)| (*place, figure.median)).collect();
    chart.draw_series(medians.iter().map(|median| Circle::new(*median, 4, color.filled())))?;
    chart.draw_series([PathElement::new(medians, color.stroke_width(2))])?;
    Ok(())
}

/// Both axes, with what they are labelled.
fn axes<'a, 'b>(
    canvas: &'a Canvas<'b>,
    header: &Header,
    (places, axis): (Scale, &str),
    (figures, unit): (Scale, &str),
    right: u32,
) -> Result<Chart<'a, 'b>, Error> {
    let figures = figures.along(HEIGHT, |_| LINE_HEIGHT);
    let left = figures.labels().map(|label| text::width(&label, SIZE)).max().unwrap_or_default() + LABELS_TO_AXIS;
    let places = places.along(WIDTH - MARGIN - left - right, |label| text::width(label, SIZE));
    let axis = places.described(axis);
    let unit_at = (MARGIN as i32, (header.height() + LINE_HEIGHT / 2) as i32);
    canvas.draw_text(&figures.described(unit), &text::plain(HPos::Left), unit_at)?;
    let mut chart = ChartBuilder::on(canvas)
        .margin_top(header.height() + ABOVE)
        .margin_bottom(MARGIN)
        .margin_left(MARGIN)
        .margin_right(right)
        .set_label_area_size(LabelAreaPosition::Bottom, BELOW)
        .set_label_area_size(LabelAreaPosition::Left, left)
        .build_cartesian_2d(places, figures)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE.mix(0.0))
        .bold_line_style(palette::GRID)
        .axis_style(palette::FAINT)
        .set_all_tick_mark_size(TICK)
        .x_label_style(text::faint(HPos::Center))
        .y_label_style(text::faint(HPos::Right))
        .axis_desc_style(text::plain(HPos::Center))
        .x_desc(axis)
        .draw()?;
    Ok(chart)
}

/// Right of the last points of all, as far as there is room.
fn draw_last_figures(chart: &mut Chart<'_, '_>, lines: &[Vec<(f64, Spread)>]) -> Result<(), Error> {
    let last = lines.iter().filter_map(|line| line.last()).map(|(place, _)| *place).fold(0.0, f64::max);
    let mut taken = Vec::new();
    for (place, figure) in lines.iter().filter_map(|line| line.last()).filter(|(place, _)| *place == last) {
        let (_, middle) = chart.backend_coord(&(*place, figure.median));
        if taken.iter().any(|taken| middle.abs_diff(*taken) < LINE_HEIGHT - 3) {
            continue;
        }
        taken.push(middle);
        let text = format::figure(figure.median);
        let text = Text::new(text, (POINT_TO_FIGURE as i32, 0), text::plain(HPos::Left));
        chart.draw_series([EmptyElement::at((*place, figure.median)) + text])?;
    }
    Ok(())
}
