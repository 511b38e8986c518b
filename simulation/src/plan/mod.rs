//! The plan of a run: everything that a seed decides before it begins.
//!
//! A plan can be reduced. What is left out changes no other operation, no other fault, and not when other clients' messages arrive: each
//! draws from a stream of its own. It does change when messages to the database arrive, since those of one server share a stream.

mod fault;
mod length;
mod operation;
mod policies;
mod sealing;
mod settings;

use std::{collections::BTreeSet, ops::RangeInclusive, time::Duration};

use serde::{Deserialize, Serialize};

pub use self::{
    fault::{Fault, Kind},
    length::LENGTH,
    operation::{Behaviour, End, GoCall, Job, LONGEST_RESPONSE, Operation, Pace, Procedure, caller},
    sealing::{Absence, Away, Deployment, Destruction, Role, Rotation, Sealing},
    settings::{OfServer, Settings},
};
use crate::world::Random;

/// The plan of a run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Plan {
    /// The seed that it is made from.
    pub seed: u64,
    /// The settings of servers and store.
    pub settings: Settings,
    /// The operations, by their numbers.
    pub operations: Vec<Operation>,
    /// The faults, by their numbers.
    pub faults: Vec<Fault>,
}

/// Draws how many operations there are. Few find more for each call, since they meet more settings and faults; what takes many needs many.
fn draw_count(random: &mut Random, settings: &Settings) -> usize {
    let range: RangeInclusive<f64> = if settings.is_burst { 100.0..=400.0 } else { 3.0..=60.0 };
    random.magnitude(range) as usize
}

/// The parts that a plan leaves out, by the numbers of operations and of faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Omitted {
    /// The numbers of operations.
    pub operations: BTreeSet<usize>,
    /// The numbers of faults.
    pub faults: BTreeSet<usize>,
    /// The numbers of operations that are sent once while there are faults.
    pub repeats: BTreeSet<usize>,
    /// The numbers of operations whose handlers do no slow work.
    pub slow_work: BTreeSet<usize>,
}

impl Plan {
    /// Makes the plan of a seed, with this many operations, or as many as it draws.
    pub fn new(seed: u64, operations: Option<usize>) -> Self {
        let mut settings = Settings::draw(&mut Random::new(seed, "settings"));
        let mut random = Random::new(seed, "operations");
        let drawn = draw_count(&mut random, &settings);
        let operations = operations.unwrap_or(drawn);
        let operations = Operation::draw_all(&mut random, operations, &settings);
        let mut faults = Fault::draw_all(&mut Random::new(seed, "faults"), &settings, &operations);
        let begun: Vec<_> = operations.iter().map(|operation| operation.begins).collect();
        settings.sealing = Sealing::draw(&mut Random::new(seed, "sealing"), settings.servers, &begun);
        faults.extend(Fault::draw_distortions(&mut Random::new(seed, "distortions"), &settings, faults.len()));
        let mut operations = operations;
        if settings.has_last_crowd {
            Operation::draw_last_crowd(&mut Random::new(seed, "last crowd"), &mut operations, &settings);
        }
        Self { seed, settings, operations, faults }
    }

    /// Reads a plan that was [written](Self::to_text) before.
    ///
    /// # Errors
    ///
    /// The text is none, or of a plan that has other parts.
    pub fn from_text(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Returns the plan as text: it means the same when a seed has come to mean another plan.
    ///
    /// # Panics
    ///
    /// Never: all of it can be written.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).expect("a plan that can be written")
    }

    /// Returns the operation with this number.
    ///
    /// # Panics
    ///
    /// There is none.
    pub fn operation(&self, number: usize) -> &Operation {
        let place = self.operations.binary_search_by_key(&number, |operation| operation.number);
        &self.operations[place.expect("an operation of the plan")]
    }

    /// Returns the plan without some of its parts.
    #[must_use]
    pub fn without(mut self, omitted: &Omitted) -> Self {
        self.operations.retain(|operation| !omitted.operations.contains(&operation.number));
        self.faults.retain(|fault| !omitted.faults.contains(&fault.number));
        for operation in &mut self.operations {
            if omitted.repeats.contains(&operation.number) {
                (operation.duplicates, operation.attempts) = (0, 1);
            }
            if omitted.slow_work.contains(&operation.number) {
                let quick = operation.behaviours.last().map_or(Duration::ZERO, |last| last.before);
                operation.behaviours.iter_mut().for_each(|behaviour| behaviour.before = quick);
            }
        }
        self
    }
}
