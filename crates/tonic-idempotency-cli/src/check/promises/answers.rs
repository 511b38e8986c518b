//! Kinds of answers that a check goes on with.

use crate::check::{
    finding::{Finding, failed},
    wire::{Answer, Outcome},
};

/// Finds that the first call of an operation has succeeded, and returns its message.
pub(super) fn succeeded(answer: &Answer) -> Result<&[u8], Finding> {
    let Some(message) = answer.message() else { return failed(format!("the first call: {answer}")) };
    Ok(message)
}

/// Finds that a call was answered: whatever it was told, no answer is no refusal.
pub(super) fn answered(answer: &Answer) -> Result<(), Finding> {
    if matches!(answer.outcome, Outcome::Lost(_)) { failed(answer.to_string()) } else { Ok(()) }
}
