//! All variations but padding, message by message.

use super::{
    choices::Choices,
    defaults,
    message::{Message, Record},
    order, packing, replaced,
};
use crate::schema::{Schema, Shape, Value};

/// Varies a message and those inside it.
pub(super) fn vary<'a>(schema: &'a Schema, message: &mut Message<'a>, choices: &mut Choices) {
    Vary { schema, choices }.message(message, 0, true);
}

struct Vary<'a, 'b> {
    schema: &'a Schema,
    choices: &'b mut Choices,
}

impl<'a> Vary<'a, '_> {
    /// `is_whole` is whether there is no other piece with which a decoder merges the message.
    fn message(&mut self, message: &mut Message<'a>, depth: u32, is_whole: bool) {
        // First, so that values that are added below are not varied themselves: that might never end.
        let of_inner: Vec<_> = message.records.iter().map(|record| inner(message, record, depth, is_whole)).collect();
        for (record, (depth, is_whole)) in message.records.iter_mut().zip(of_inner) {
            if let Some(inner) = record.content.message_mut() {
                self.message(inner, depth, is_whole);
            }
        }
        if is_whole {
            defaults::add(message, self.choices);
        }
        replaced::add(self.schema, message, depth, is_whole, self.choices);
        packing::change(message, self.choices);
        order::shuffle_maps(message, self.choices);
        order::shuffle_fields(message, self.choices);
    }
}

/// Returns the depth of a message in a record, and whether it is whole.
fn inner(message: &Message<'_>, record: &Record<'_>, depth: u32, is_whole: bool) -> (u32, bool) {
    match record.field.map(|field| (field, field.shape)) {
        Some((_, Shape::Map(_))) => (depth, true),
        Some((field, Shape::Singular(Value::Group(_) | Value::Message(_), _))) => {
            let pieces = message.records.iter().filter(|record| record.is_of(field)).count();
            (depth + 1, is_whole && pieces == 1)
        }
        _ => (depth + 1, true),
    }
}
