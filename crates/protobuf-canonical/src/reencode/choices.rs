//! The places at which the variations happen.

use fastrand::Rng;

use super::variations::{Padding, Variations};

#[derive(Clone, Copy, Debug)]
pub(super) enum Variation {
    Defaults,
    FieldOrder,
    MapOrder,
    Packing,
    Padding,
    Replaced,
}

impl Variation {
    const ALL: [Self; 6] =
        [Self::Defaults, Self::FieldOrder, Self::MapOrder, Self::Packing, Self::Padding, Self::Replaced];

    /// The part of the places at which it happens, unless it happens at one only.
    fn part(self) -> f64 {
        match self {
            Self::Defaults | Self::Padding => 0.3,
            Self::Replaced => 0.4,
            Self::Packing => 0.75,
            Self::FieldOrder | Self::MapOrder => 0.9,
        }
    }
}

/// How often a variation happens at one place only: some errors show only then.
const ONCE: f64 = 0.25;

/// Chooses the places at random.
pub(super) struct Choices {
    pub(super) rng: Rng,
    variations: Variations,
    /// In the order of [`Variation::ALL`].
    tallies: [Tally; Variation::ALL.len()],
}

#[derive(Clone, Copy)]
struct Tally {
    /// The part of the places at which the variation happens.
    part: f64,
    /// The place at which it happens in any case.
    certain: Option<usize>,
    /// The places so far.
    places: usize,
    has_happened: bool,
}

impl Choices {
    pub(super) fn new(variations: Variations, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let tallies = Variation::ALL.map(|variation| {
            let part = if rng.f64() < ONCE { 0.0 } else { variation.part() };
            Tally { part, certain: None, places: 0, has_happened: false }
        });
        Self { rng, variations, tallies }
    }

    pub(super) fn padding(&self) -> Padding {
        self.variations.padding
    }

    /// Returns whether a variation happens at a place that allows it.
    pub(super) fn happens(&mut self, variation: Variation) -> bool {
        if !self.allow(variation) {
            return false;
        }
        let tally = &mut self.tallies[variation as usize];
        let happens = tally.certain == Some(tally.places) || self.rng.f64() < tally.part;
        tally.places += 1;
        tally.has_happened |= happens;
        happens
    }

    fn allow(&self, variation: Variation) -> bool {
        match variation {
            Variation::Defaults => self.variations.defaults,
            Variation::FieldOrder => self.variations.field_order,
            Variation::MapOrder => self.variations.map_order,
            Variation::Packing => self.variations.packing,
            Variation::Padding => self.variations.padding != Padding::None,
            Variation::Replaced => self.variations.replaced,
        }
    }

    /// Returns whether a variation has happened nowhere although there was a place. Prepares for the same message once more, in which it
    /// happens at one place at least.
    pub(super) fn insist(&mut self) -> bool {
        let mut insists = false;
        for tally in &mut self.tallies {
            if tally.places > 0 && !tally.has_happened {
                tally.certain = Some(self.rng.usize(..tally.places));
                insists = true;
            }
            (tally.places, tally.has_happened) = (0, false);
        }
        insists
    }
}
