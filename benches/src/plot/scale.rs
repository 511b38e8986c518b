use std::{mem, ops::Range};

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use crate::{Error, format};

/// Where figures stand on an axis: in proportion, or in proportion to their logarithms.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    kind: Kind,
    start: f64,
    end: f64,
    /// What the axis is labelled at, in growing order.
    ticks: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Linear,
    Logarithmic,
}

impl Scale {
    /// From zero on; for figures that lie too far apart for that, by factors, from below the least of them.
    ///
    /// # Errors
    ///
    /// If there are none, or one is negative or not finite.
    pub(super) fn of_figures(figures: impl IntoIterator<Item = f64>) -> Result<Self, Error> {
        const TOO_FAR_APART: f64 = 50.0;
        let (min, max) = extremes(figures)?;
        if min < 0.0 {
            return Err(format!("{min} has no place on an axis from zero on").into());
        }
        if min > 0.0 && max / min > TOO_FAR_APART {
            // So that the least of them has a bar, too.
            return Ok(Self::logarithmic(step_below(min * 0.8), step_above(max)));
        }
        let end = if max > 0.0 { max } else { 1.0 };
        let step = step_above(end / 8.0);
        // Rounding must not make a step more of it.
        let steps = (end / step - 1e-9).ceil() as i32;
        let ticks = (0..=steps).map(|tick| f64::from(tick) * step).collect();
        let end = f64::from(steps) * step;
        Ok(Self { kind: Kind::Linear, start: 0.0, end, ticks })
    }

    /// By factors, labelled at the places that are asked for.
    ///
    /// # Errors
    ///
    /// If there are none, or one is not greater than zero, or not finite.
    pub(super) fn by_factors(places: impl IntoIterator<Item = f64>) -> Result<Self, Error> {
        let mut places: Vec<_> = places.into_iter().collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let (min, max) = extremes(places.iter().copied())?;
        if min <= 0.0 {
            return Err(format!("{min} has no place on an axis that grows by factors").into());
        }
        // Some room at both ends.
        let room = (max / min).powf(0.04).max(1.1);
        Ok(Self { kind: Kind::Logarithmic, start: min / room, end: max * room, ticks: places })
    }

    fn logarithmic(start: f64, end: f64) -> Self {
        let decades = (end / start).log10();
        let is_decade = |step: &f64| *step == scaled(1.0, power_of_ten_below(*step));
        let ticks = steps_between(start, end).filter(|step| decades <= 3.0 || is_decade(step)).collect();
        Self { kind: Kind::Logarithmic, start, end, ticks }
    }

    /// Along an axis of that many pixels: of ticks whose labels would run into each other, the first stays.
    pub(super) fn along(mut self, pixels: u32, width: impl Fn(&str) -> u32) -> Self {
        const BETWEEN: f64 = 10.0;
        let mut taken = f64::NEG_INFINITY;
        for tick in mem::take(&mut self.ticks) {
            let middle = self.share(tick) * f64::from(pixels);
            let half = f64::from(width(&Self::format(&tick))) / 2.0;
            if middle - half >= taken {
                taken = middle + half + BETWEEN;
                self.ticks.push(tick);
            }
        }
        self
    }

    /// Where all bars begin.
    pub(super) fn start(&self) -> f64 {
        self.start
    }

    pub(super) fn labels(&self) -> impl Iterator<Item = String> {
        self.ticks.iter().map(Self::format)
    }

    /// What the axis is labelled as a whole.
    pub(super) fn described(&self, what: &str) -> String {
        match self.kind {
            Kind::Linear => what.to_owned(),
            Kind::Logarithmic => format!("{what} (logarithmic)"),
        }
    }

    /// How far along the axis a figure stands, from 0 to 1.
    fn share(&self, figure: f64) -> f64 {
        match self.kind {
            Kind::Linear => (figure - self.start) / (self.end - self.start),
            Kind::Logarithmic => (figure / self.start).ln() / (self.end / self.start).ln(),
        }
    }
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, figure: &f64, (from, to): (i32, i32)) -> i32 {
        from + (self.share(*figure) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.start..self.end
    }
}

impl ValueFormatter<f64> for Scale {
    /// With no more decimals than it takes.
    fn format(tick: &f64) -> String {
        let written = format::with_decimals(*tick, 12);
        written.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

fn extremes(figures: impl IntoIterator<Item = f64>) -> Result<(f64, f64), Error> {
    let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
    for figure in figures {
        if !figure.is_finite() {
            return Err(format!("{figure} has no place on an axis").into());
        }
        (min, max) = (min.min(figure), max.max(figure));
    }
    if min > max {
        return Err("there is nothing to draw".into());
    }
    Ok((min, max))
}

/// The greatest step that is not above the figure.
fn step_below(figure: f64) -> f64 {
    let power = power_of_ten_below(figure);
    steps(power).into_iter().rev().find(|step| *step <= figure).unwrap_or(scaled(1.0, power))
}

/// The least step that is not below the figure.
fn step_above(figure: f64) -> f64 {
    let power = power_of_ten_below(figure);
    steps(power).into_iter().find(|step| *step >= figure).unwrap_or(scaled(1.0, power + 1))
}

/// Each step from one step to another: 1, 2, 5, 10, 20 and so on.
fn steps_between(start: f64, end: f64) -> impl Iterator<Item = f64> {
    let powers = power_of_ten_below(start)..=power_of_ten_below(end);
    powers.flat_map(steps).filter(move |step| (start..=end).contains(step))
}

fn steps(power: i32) -> [f64; 3] {
    [1.0, 2.0, 5.0].map(|step| scaled(step, power))
}

fn power_of_ten_below(figure: f64) -> i32 {
    let power = figure.log10().floor() as i32;
    // The logarithm may have been rounded over a step.
    if scaled(1.0, power) > figure { power - 1 } else { power }
}

/// A division gives the nearest number to 0.05; multiplying by 0.01 does not.
fn scaled(step: f64, power: i32) -> f64 {
    if power < 0 { step / 10f64.powi(-power) } else { step * 10f64.powi(power) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale) -> Vec<String> {
        scale.labels().collect()
    }

    #[test]
    fn figures_near_each_other_stand_from_zero_on() -> Result<(), Error> {
        let scale = Scale::of_figures([0.3, 1.2])?;
        assert_eq!(scale.kind, Kind::Linear);
        assert_eq!(labels(&scale), ["0", "0.2", "0.4", "0.6", "0.8", "1", "1.2"]);
        Ok(())
    }

    #[test]
    fn tiny_figures_have_labels_too() -> Result<(), Error> {
        assert_eq!(labels(&Scale::of_figures([0.002])?), ["0", "0.0005", "0.001", "0.0015", "0.002"]);
        Ok(())
    }

    #[test]
    fn nothing_but_zeros_has_an_axis() -> Result<(), Error> {
        let scale = Scale::of_figures([0.0, 0.0])?;
        assert_eq!(scale.range(), 0.0..1.0);
        Ok(())
    }

    #[test]
    fn figures_far_from_each_other_stand_by_factors_and_none_at_the_start() -> Result<(), Error> {
        let scale = Scale::of_figures([1.0, 100.0])?;
        assert_eq!(scale.kind, Kind::Logarithmic);
        assert_eq!(labels(&scale), ["0.5", "1", "2", "5", "10", "20", "50", "100"]);
        let scale = Scale::of_figures([1.0, 100_000.0])?;
        assert_eq!(labels(&scale), ["1", "10", "100", "1,000", "10,000", "100,000"]);
        assert!(scale.share(1.0) > 0.0);
        Ok(())
    }

    #[test]
    fn zero_is_never_on_an_axis_by_factors() -> Result<(), Error> {
        assert_eq!(Scale::of_figures([0.0, 1_000.0])?.kind, Kind::Linear);
        Ok(())
    }

    #[test]
    fn places_by_factors_are_labelled_where_they_are() -> Result<(), Error> {
        let scale = Scale::by_factors(vec![10_000_000.0, 10_000.0, 10_000.0])?;
        assert_eq!(labels(&scale), ["10,000", "10,000,000"]);
        assert!(scale.share(10_000.0) > 0.0 && scale.share(10_000_000.0) < 1.0);
        Ok(())
    }

    #[test]
    fn a_place_alone_is_in_the_middle() -> Result<(), Error> {
        let scale = Scale::by_factors(vec![16.0])?;
        assert_eq!(scale.map(&16.0, (0, 100)), 50);
        Ok(())
    }

    #[test]
    fn what_has_no_place_is_refused() {
        assert!(Scale::of_figures([]).is_err());
        assert!(Scale::of_figures([-1.0]).is_err());
        assert!(Scale::of_figures([1.0, f64::NAN]).is_err());
        assert!(Scale::by_factors([]).is_err());
        assert!(Scale::by_factors([0.0, 1.0]).is_err());
        assert!(Scale::by_factors([1.0, f64::INFINITY]).is_err());
    }

    #[test]
    fn labels_do_not_run_into_each_other() -> Result<(), Error> {
        let scale = Scale::by_factors([1.0, 1.1, 1_000.0])?.along(500, |label| 8 * label.len() as u32);
        assert_eq!(labels(&scale), ["1", "1,000"]);
        Ok(())
    }
}
