use plotters::{
    backend::SVGBackend,
    chart::{ChartBuilder, ChartContext, LabelAreaPosition},
    coord::types::RangedCoordf64,
    element::{EmptyElement, PathElement, Rectangle, Text},
    prelude::Cartesian2d,
    style::{Color as _, WHITE, text_anchor::HPos},
};

use super::{
    canvas::{self, Canvas, MARGIN, TICK, WIDTH},
    header::Header,
    palette,
    scale::Scale,
    text::{self, LINE_HEIGHT, SIZE},
};
use crate::{Error, format, section::Plot, spread::Spread};

type Series = (String, Vec<Option<Spread>>);
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Scale, RangedCoordf64>>;

const BAR: u32 = 19;
const BETWEEN_BARS: u32 = 3;
const BETWEEN_GROUPS: u32 = 18;
pub(super) const LABELS_AT_MOST: u32 = 240;
const LABEL_TO_BARS: u32 = 10;
const BAR_TO_FIGURE: u32 = 7;
/// The labels of the axis, and what it is labelled as a whole.
const BELOW: u32 = 44;

/// Bars from left to right, so that labels and figures have room however many there are: groups from top to bottom, in each a
/// bar for each series, with its figure beside it.
pub(super) fn svg(plot: &Plot, labels: &[String], series: &[Series]) -> Result<String, Error> {
    if let Some((name, _)) = series.iter().find(|(_, figures)| figures.len() != labels.len()) {
        return Err(format!("{name} has not as many figures as there are labels").into());
    }
    let figures = series.iter().flat_map(|(_, figures)| figures.iter().flatten());
    let scale = Scale::of_figures(figures.clone().flat_map(|figure| [figure.min, figure.median, figure.max]))?;
    let start = scale.start();
    let header = Header::new(&plot.title, series.iter().map(|(name, _)| name.as_str()));
    let groups = Groups::new(labels, series.len() as u32);
    let written = figures.map(|figure| text::width(&format::figure(figure.median), SIZE));
    let right = MARGIN + BAR_TO_FIGURE + written.max().unwrap_or_default();

    canvas::drawn(header.height() + groups.height + BELOW + MARGIN, |canvas| {
        header.draw(canvas)?;
        groups.draw_labels(canvas, header.height())?;
        let mut chart = axis(canvas, &header, &groups, scale, right, &plot.unit)?;
        for (index, (_, figures)) in series.iter().enumerate() {
            for (group, figure) in groups.groups.iter().zip(figures) {
                let top = group.top + group.above_bars + index as u32 * (BAR + BETWEEN_BARS);
                match figure {
                    Some(figure) => draw_bar(&mut chart, index, start, top, *figure)?,
                    None => draw_text(&mut chart, start, top, "–")?,
                }
            }
        }
        Ok(())
    })
}

/// Where the groups of bars stand, from the top of the first on.
#[derive(Debug)]
struct Groups {
    groups: Vec<Group>,
    labels_width: u32,
    height: u32,
}

#[derive(Debug)]
struct Group {
    label: Vec<String>,
    top: u32,
    height: u32,
    /// Where a label takes more room than the bars, these stand in its middle.
    above_bars: u32,
}

impl Groups {
    fn new(labels: &[String], series: u32) -> Self {
        let bars = series * (BAR + BETWEEN_BARS) - BETWEEN_BARS;
        let mut top = BETWEEN_GROUPS / 2;
        let groups: Vec<_> = labels
            .iter()
            .map(|label| {
                let label = text::wrapped(label, LABELS_AT_MOST, SIZE);
                let height = bars.max(label.len() as u32 * LINE_HEIGHT);
                let group = Group { label, top, height, above_bars: (height - bars) / 2 };
                top += height + BETWEEN_GROUPS;
                group
            })
            .collect();
        let lines = groups.iter().flat_map(|group| &group.label);
        let labels_width = lines.map(|line| text::width(line, SIZE)).max().unwrap_or_default();
        Self { groups, labels_width, height: top - BETWEEN_GROUPS / 2 }
    }

    fn left(&self) -> u32 {
        MARGIN + self.labels_width + LABEL_TO_BARS
    }

    fn draw_labels(&self, canvas: &Canvas<'_>, above: u32) -> Result<(), Error> {
        for group in &self.groups {
            let first = above + group.top + (group.height - group.label.len() as u32 * LINE_HEIGHT) / 2;
            for (line, label) in (0..).zip(&group.label) {
                let middle = first + line * LINE_HEIGHT + LINE_HEIGHT / 2;
                let at = ((MARGIN + self.labels_width) as i32, middle as i32);
                canvas.draw_text(label, &text::plain(HPos::Right), at)?;
            }
        }
        Ok(())
    }
}

/// The axis of the figures, below. From top to bottom a chart is measured in pixels.
fn axis<'a, 'b>(
    canvas: &'a Canvas<'b>,
    header: &Header,
    groups: &Groups,
    scale: Scale,
    right: u32,
    unit: &str,
) -> Result<Chart<'a, 'b>, Error> {
    let scale = scale.along(WIDTH - groups.left() - right, |label| text::width(label, SIZE));
    let described = scale.described(unit);
    let mut chart = ChartBuilder::on(canvas)
        .margin_top(header.height())
        .margin_bottom(MARGIN)
        .margin_left(groups.left())
        .margin_right(right)
        .set_label_area_size(LabelAreaPosition::Bottom, BELOW)
        .build_cartesian_2d(scale, f64::from(groups.height)..0.0)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(WHITE.mix(0.0))
        .bold_line_style(palette::GRID)
        .axis_style(palette::FAINT)
        .set_all_tick_mark_size(TICK)
        .x_label_style(text::faint(HPos::Center))
        .axis_desc_style(text::plain(HPos::Center))
        .x_desc(described)
        .draw()?;
    Ok(chart)
}

fn draw_bar(chart: &mut Chart<'_, '_>, series: usize, start: f64, top: u32, figure: Spread) -> Result<(), Error> {
    let Spread { median, min, max } = figure;
    let [top_of_bar, bottom, middle] = [top, top + BAR, top + BAR / 2].map(f64::from);
    let bar = [(start, top_of_bar), (median, bottom)];
    chart.draw_series([Rectangle::new(bar, palette::color(series).filled())])?;
    if min < max {
        const CAP: f64 = 4.0;
        let whisker = [
            vec![(min, middle), (max, middle)],
            vec![(min, middle - CAP), (min, middle + CAP)],
            vec![(max, middle - CAP), (max, middle + CAP)],
        ];
        // Seen on a bar of any color.
        for style in [WHITE.mix(0.8).stroke_width(4), palette::INK.stroke_width(2)] {
            chart.draw_series(whisker.iter().map(|line| PathElement::new(line.clone(), style)))?;
        }
    }
    draw_text(chart, median.max(max), top, &format::figure(median))
}

/// To the right of a place, in the middle of a bar.
fn draw_text(chart: &mut Chart<'_, '_>, place: f64, top: u32, text: &str) -> Result<(), Error> {
    let at = (place, f64::from(top + BAR / 2));
    let text = Text::new(text.to_owned(), (BAR_TO_FIGURE as i32, 0), text::plain(HPos::Left));
    chart.draw_series([EmptyElement::at(at) + text])?;
    Ok(())
}
