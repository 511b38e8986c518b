//! The measurements of one row.

use super::{
    plan::{Call, ROUNDS, Row},
    turns::Turns,
};
use crate::format;

/// Measurements in turn, under one load.
#[derive(Debug)]
pub(super) struct Matrix {
    pub(super) row: Row,
    pub(super) turns: Turns,
}

impl Matrix {
    /// Names the load: `First calls: 16 at once, 100 B`.
    pub(super) fn caption(&self) -> String {
        let Row { call, concurrency, payload, turn, .. } = self.row;
        let calls = match call {
            Call::First => "First calls",
            Call::Replay => "Replays",
        };
        let at_once = if concurrency == 1 { "one at a time".to_owned() } else { format!("{concurrency} at once") };
        let size = format::bytes(payload as f64);
        let turn = format::duration(turn.as_secs_f64());
        format!("{calls}: {at_once}, {size} ({ROUNDS} rounds of {turn})")
    }
}

/// Returns the measurements under this load.
pub(super) fn at(matrices: &[Matrix], call: Call, concurrency: usize, payload: usize) -> &Matrix {
    let here = matrices
        .iter()
        .find(|matrix| (matrix.row.call, matrix.row.concurrency, matrix.row.payload) == (call, concurrency, payload));
    here.expect("the plan has this load")
}
