use plotters::style::RGBColor;

pub(super) const INK: RGBColor = RGBColor(0x24, 0x29, 0x2f);
pub(super) const FAINT: RGBColor = RGBColor(0x6e, 0x77, 0x81);
pub(super) const GRID: RGBColor = RGBColor(0xe1, 0xe4, 0xe8);

/// The color of a series: of the palette by Okabe and Ito, which the colour-blind tell apart, without its yellow, which is hard
/// to see on white.
pub(super) fn color(series: usize) -> RGBColor {
    OKABE_ITO[series % OKABE_ITO.len()]
}

const OKABE_ITO: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x00, 0x00, 0x00),
];
