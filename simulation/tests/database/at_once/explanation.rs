//! Looks for an order of operations that explains their answers and the row that they leave.

use std::collections::HashSet;

use tonic_idempotency::status::{OutboxStatus, Resource};

use super::{
    model::{Model, Next, Step},
    operation::Done,
};

/// The operations of one call after the other, and how far an order has come with each call.
#[derive(Clone, Debug)]
struct Order {
    model: Model,
    places: Vec<Place>,
}

/// The operation of a call that is next or under way.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    operation: usize,
    step: Step,
}

/// Returns the states in which some order of the operations may have left the key, with the answers that they had, and this row in the end;
/// none, if there is no such order. An operation comes after those that had ended when it began.
pub(super) fn explain(
    before: &[Model],
    calls: &[Vec<Done>],
    row: Option<&str>,
    resources: &[(Resource, Option<OutboxStatus>)],
) -> Vec<Model> {
    let begin = |model: &Model| Order { model: model.clone(), places: vec![Place::default(); calls.len()] };
    let mut open: Vec<_> = before.iter().map(begin).collect();
    let (mut seen, mut explained) = (HashSet::new(), Vec::new());
    while let Some(order) = open.pop() {
        if !seen.insert(format!("{order:?}")) {
            continue;
        }
        if order.model.has_expired() {
            open.push(Order { model: order.model.without_row(), ..order.clone() });
        }
        if order.places.iter().zip(calls).all(|(place, call)| place.operation == call.len()) {
            if order.model.describe().as_deref() == row {
                explained.push(order.model.settled());
            }
            continue;
        }
        for (at, call) in calls.iter().enumerate() {
            let place = order.places[at];
            let Some(done) = call.get(place.operation).filter(|done| order.may_begin(done, calls)) else { continue };
            let Some(next) = order.model.step(done, place.step, resources) else { continue };
            let mut order = order.clone();
            (order.model, order.places[at]) = match next {
                Next::End(model) => (model, Place { operation: place.operation + 1, step: Step::default() }),
                Next::Step(model, known) => {
                    (model, Place { step: Step { number: place.step.number + 1, known }, ..place })
                }
            };
            open.push(order);
        }
    }
    let mut different = HashSet::new();
    explained.retain(|model| different.insert(format!("{model:?}")));
    explained
}

impl Order {
    /// Returns whether all operations are over that had ended when this one began.
    fn may_begin(&self, done: &Done, calls: &[Vec<Done>]) -> bool {
        self.places
            .iter()
            .zip(calls)
            .all(|(place, call)| call[place.operation..].iter().all(|it| it.ended > done.began))
    }
}
