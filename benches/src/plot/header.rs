use plotters::{
    element::Rectangle,
    style::{Color as _, text_anchor::HPos},
};

use super::{
    canvas::{Canvas, MARGIN, WIDTH},
    palette,
    text::{self, LINE_HEIGHT, SIZE, TITLE_LINE_HEIGHT, TITLE_SIZE},
};
use crate::Error;

/// What stands above a plot: its title, and below it which color is which series, both in as many lines as they take.
#[derive(Debug)]
pub(super) struct Header {
    title: Vec<String>,
    legend: Vec<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    series: usize,
    name: String,
    left: u32,
}

const SWATCH: u32 = 12;
const SWATCH_TO_NAME: u32 = 6;
const BETWEEN_ENTRIES: u32 = 18;
const ABOVE_LEGEND: u32 = 4;
const BELOW_LEGEND: u32 = 12;

impl Header {
    pub(super) fn new<'a>(title: &str, series: impl Iterator<Item = &'a str>) -> Self {
        let mut legend = vec![Vec::new()];
        let mut left = MARGIN;
        for (series, name) in series.enumerate() {
            let width = SWATCH + SWATCH_TO_NAME + text::width(name, SIZE);
            if left > MARGIN && left + width > WIDTH - MARGIN {
                legend.push(Vec::new());
                left = MARGIN;
            }
            if let Some(line) = legend.last_mut() {
                line.push(Entry { series, name: name.to_owned(), left });
            }
            left += width + BETWEEN_ENTRIES;
        }
        Self { title: text::wrapped(title, WIDTH - 2 * MARGIN, TITLE_SIZE), legend }
    }

    pub(super) fn height(&self) -> u32 {
        self.below_title() + ABOVE_LEGEND + self.legend.len() as u32 * LINE_HEIGHT + BELOW_LEGEND
    }

    pub(super) fn draw(&self, canvas: &Canvas<'_>) -> Result<(), Error> {
        for (line, title) in (0..).zip(&self.title) {
            let middle = MARGIN + line * TITLE_LINE_HEIGHT + TITLE_LINE_HEIGHT / 2;
            canvas.draw_text(title, &text::title(), (MARGIN as i32, middle as i32))?;
        }
        for (line, entries) in (0..).zip(&self.legend) {
            let middle = (self.below_title() + ABOVE_LEGEND + line * LINE_HEIGHT + LINE_HEIGHT / 2) as i32;
            for Entry { series, name, left } in entries {
                let (left, size) = (*left as i32, SWATCH as i32);
                let swatch = [(left, middle - size / 2), (left + size, middle + size / 2)];
                canvas.draw(&Rectangle::new(swatch, palette::color(*series).filled()))?;
                let name_at = (left + size + SWATCH_TO_NAME as i32, middle);
                canvas.draw_text(name, &text::plain(HPos::Left), name_at)?;
            }
        }
        Ok(())
    }

    fn below_title(&self) -> u32 {
        MARGIN + self.title.len() as u32 * TITLE_LINE_HEIGHT
    }
}
