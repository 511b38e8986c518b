use plotters::style::{
    FontStyle, IntoFont as _, RGBColor, TextStyle,
    text_anchor::{HPos, Pos, VPos},
};

use super::palette::{FAINT, INK};

/// Of the texts of a plot but for its title, in pixels.
pub(super) const SIZE: u32 = 13;
pub(super) const LINE_HEIGHT: u32 = 17;
pub(super) const TITLE_SIZE: u32 = 16;
pub(super) const TITLE_LINE_HEIGHT: u32 = 22;

const FAMILY: &str = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif";

/// What stands for texts, centred vertically at the point where they are drawn.
pub(super) fn plain(horizontally: HPos) -> TextStyle<'static> {
    style(SIZE, FontStyle::Normal, INK, horizontally)
}

pub(super) fn faint(horizontally: HPos) -> TextStyle<'static> {
    style(SIZE, FontStyle::Normal, FAINT, horizontally)
}

pub(super) fn title() -> TextStyle<'static> {
    style(TITLE_SIZE, FontStyle::Bold, INK, HPos::Left)
}

/// About how wide a text is, as it comes out in DejaVu Sans, which is wider than the other usual fonts.
pub(super) fn width(text: &str, size: u32) -> u32 {
    let hundredths = text.chars().map(|character| match character {
        ' ' | '!' | '\'' | '(' | ')' | ',' | '-' | '.' | '/' | ':' | ';' | 'I' | 'f' | 'i' | 'j' | 'l' | 'r' | 't'
        | '|' => 41,
        '%' | '<' | '=' | '>' | '@' | 'M' | 'W' | 'm' | 'w' | '×' | '≤' | '≥' => 98,
        'A'..='Z' => 72,
        _ => 64,
    });
    (hundredths.sum::<u32>() * size).div_ceil(100)
}

/// In lines that are about that wide at the most.
pub(super) fn wrapped(text: &str, width: u32, size: u32) -> Vec<String> {
    // Of words as they come on average.
    let columns = width * 100 / (58 * size);
    textwrap::wrap(text, columns as usize).into_iter().map(String::from).collect()
}

fn style(size: u32, weight: FontStyle, color: RGBColor, horizontally: HPos) -> TextStyle<'static> {
    // What plotters takes for a size, it divides by this before it is written down.
    const OF_PLOTTERS: f64 = 1.24;
    (FAMILY, f64::from(size) * OF_PLOTTERS)
        .into_font()
        .style(weight)
        .color(&color)
        .pos(Pos::new(horizontally, VPos::Center))
}
