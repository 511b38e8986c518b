//! The formats of figures in the report.

use crate::spread::Spread;

/// Formats a figure with three significant digits, or all digits before the point, and separates thousands: `0.00213`, `1.20`,
/// `12.3`, `1,235`. A whole number has no decimals: `2`, `10,000`.
pub(crate) fn figure(figure: f64) -> String {
    with_decimals(figure, decimals(figure))
}

/// Formats a figure with the given number of decimals, and separates thousands: `1,234.50`.
pub(crate) fn with_decimals(figure: f64, decimals: usize) -> String {
    let written = format!("{figure:.decimals$}");
    let digits = written.find(|c: char| c.is_ascii_digit()).unwrap_or(written.len());
    let point = written.find('.').unwrap_or(written.len());
    let mut apart = String::from(&written[..digits]);
    for (index, digit) in written[digits..point].char_indices() {
        if index > 0 && (point - digits - index).is_multiple_of(3) {
            apart.push(',');
        }
        apart.push(digit);
    }
    apart + &written[point..]
}

/// Formats the median and the extremes of the rounds: `1.23 (1.10–1.40)`. A figure that was the same in all rounds stands alone:
/// `2`.
pub(crate) fn spread(spread: Spread, decimals: usize) -> String {
    let median = with_decimals(spread.median, decimals);
    if spread.min == spread.max {
        return median;
    }
    format!("{median} ({}–{})", with_decimals(spread.min, decimals), with_decimals(spread.max, decimals))
}

/// Returns the number of decimals that makes three significant digits; zero for a whole number.
pub(crate) fn decimals(figure: f64) -> usize {
    if !figure.is_finite() || figure.fract() == 0.0 {
        return 0;
    }
    // Counted after rounding, so that 9.999 is 10.0 and not 10.00.
    let rounded = format!("{figure:.2e}");
    let exponent = rounded.split_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok()).unwrap_or(0);
    usize::try_from(2 - exponent).unwrap_or(0)
}

/// Formats a time in seconds, in the unit that suits it: `812 ns`, `1.23 µs`, `45.6 ms`, `12.0 s`.
pub(crate) fn duration(seconds: f64) -> String {
    in_units(seconds * 1e9, 1000.0, &["ns", "µs", "ms", "s"])
}

/// Formats a size: `90 B`, `4 KiB`, `1.50 MiB`.
pub(crate) fn bytes(bytes: f64) -> String {
    in_units(bytes, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// Formats a rate: `12,346/s`.
pub(crate) fn rate(per_second: f64) -> String {
    format!("{}/s", figure(per_second))
}

fn in_units(mut amount: f64, factor: f64, units: &[&str]) -> String {
    let mut unit = 0;
    // An amount that rounds to a thousand of a unit is one of the next unit.
    while amount.abs() >= factor - 0.5 && unit + 1 < units.len() {
        amount /= factor;
        unit += 1;
    }
    format!("{} {}", figure(amount), units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_three_significant_digits_and_separate_thousands() {
        let written = [0.002_134, 0.9962, 1.2, 9.999, 12.34, 123.4, 1_234.5, 12_345_678.9].map(figure);
        assert_eq!(written, ["0.00213", "0.996", "1.20", "10.0", "12.3", "123", "1,234", "12,345,679"]);
    }

    #[test]
    fn a_whole_number_has_no_decimals() {
        assert_eq!(
            [0.0, 2.0, 999.0, 1_000.0, -1_000.0, 10_000_000.0].map(figure),
            ["0", "2", "999", "1,000", "-1,000", "10,000,000"]
        );
    }

    #[test]
    fn a_figure_that_is_not_a_number_is_written_as_such() {
        assert_eq!(figure(f64::NAN), "NaN");
        assert_eq!(figure(f64::INFINITY), "inf");
    }

    #[test]
    fn a_spread_has_its_extremes_if_its_rounds_differ() {
        assert_eq!(spread(Spread { median: 1.234, min: 0.9, max: 12.0 }, 2), "1.23 (0.90–12.00)");
        assert_eq!(spread(Spread { median: 2.0, min: 2.0, max: 2.0 }, 0), "2");
    }

    #[test]
    fn a_unit_fits_its_amount() {
        assert_eq!(
            [8.12e-7, 1.234e-6, 0.0456, 0.9996, 12.0, 0.0].map(duration),
            ["812 ns", "1.23 µs", "45.6 ms", "1.00 s", "12 s", "0 ns"]
        );
        assert_eq!([90.0, 4096.0, 1_572_864.0].map(bytes), ["90 B", "4 KiB", "1.50 MiB"]);
        assert_eq!(rate(12_345.6), "12,346/s");
    }
}
