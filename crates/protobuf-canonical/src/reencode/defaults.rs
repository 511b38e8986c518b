//! Unset fields, written as their default.

use super::{
    choices::{Choices, Variation},
    message::{Content, Message, Record},
};
use crate::schema::{Presence, Shape, Value};

/// Writes some unset fields with implicit presence as their default, in their places in the canonical order.
pub(super) fn add(message: &mut Message<'_>, choices: &mut Choices) {
    for &field in message.fields.iter() {
        let Shape::Singular(Value::Scalar(scalar), Presence::Implicit) = field.shape else { continue };
        let is_set = message.records.iter().any(|record| record.is_of(field));
        if !is_set && choices.happens(Variation::Defaults) {
            let next = message.records.iter().position(|record| record.rank() > field.rank);
            let at = next.unwrap_or(message.records.len());
            message.records.insert(at, Record::new(field, Content::default(scalar)));
        }
    }
}
