//! Values that later ones replace, and messages in two pieces.

use std::mem;

use super::{
    choices::{Choices, Variation},
    message::{Content, Delimited, Message, Record},
    random,
};
use crate::{
    depth::MAX_DEPTH,
    schema::{FieldPlan, MapPlan, Schema, Shape, Value},
};

/// Adds values in front of those that replace them, and cuts messages in two. `depth` is that of the message; it `is_whole` if there is no
/// other piece with which a decoder merges it.
pub(super) fn add<'a>(
    schema: &'a Schema,
    message: &mut Message<'a>,
    depth: u32,
    is_whole: bool,
    choices: &mut Choices,
) {
    let mut replaced = Replaced { schema, depth, is_whole, choices };
    for mut record in mem::take(&mut message.records) {
        let mut second = None;
        match record.field.map(|field| (field, field.shape)) {
            Some((field, Shape::Map(map))) => message.records.extend(replaced.entry(field, map, &record)),
            Some((field, Shape::Singular(value, _))) => {
                replaced.of_field(message, field, value);
                replaced.of_oneof(message, field, value);
                second = replaced.cut(&mut record);
            }
            _ => {}
        }
        message.records.push(record);
        message.records.extend(second);
    }
}

struct Replaced<'a, 'b> {
    schema: &'a Schema,
    depth: u32,
    is_whole: bool,
    choices: &'b mut Choices,
}

impl<'a> Replaced<'a, '_> {
    fn happens(&mut self) -> bool {
        self.choices.happens(Variation::Replaced)
    }

    /// Returns an entry with the key of this one, and another value.
    fn entry(&mut self, field: FieldPlan, map: MapPlan, of: &Record<'a>) -> Option<Record<'a>> {
        let Content::Message(Delimited { content: Message { fields, records }, .. }) = &of.content else { return None };
        if !self.fits(map.value) || !self.happens() {
            return None;
        }
        let [key, value] = map.fields();
        let value = self.record(value, map.value);
        let mut records: Vec<_> = records.iter().filter(|record| record.is_of(key)).cloned().collect();
        records.insert(self.choices.rng.usize(0..=records.len()), value);
        Some(Record::new(field, Content::Message(Delimited::new(Message { fields: fields.clone(), records }))))
    }

    /// Adds a value of the field of the next record.
    fn of_field(&mut self, message: &mut Message<'a>, field: FieldPlan, value: Value) {
        if is_scalar(value) && self.happens() {
            message.records.push(self.record(field, value));
        }
    }

    /// Adds a value of another member of its oneof.
    fn of_oneof(&mut self, message: &mut Message<'a>, field: FieldPlan, value: Value) {
        let last = message.records.iter().rfind(|record| record.rank() == field.rank);
        let may_continue = !self.is_whole || last.is_some_and(|record| record.is_of(field));
        // Between two pieces of a message, another member would drop the first of them.
        if may_continue && !is_scalar(value) {
            return;
        }
        let others = message.fields.iter().filter(|other| other.rank == field.rank && other.number != field.number);
        let others = others.filter_map(|other| match other.shape {
            Shape::Singular(value, _) if self.fits(value) => Some((*other, value)),
            _ => None,
        });
        if let Some((other, value)) = self.choices.rng.choice(others.collect::<Vec<_>>())
            && self.happens()
        {
            message.records.push(self.record(other, value));
        }
    }

    /// Cuts a message or a group in two, and returns the second piece.
    fn cut(&mut self, record: &mut Record<'a>) -> Option<Record<'a>> {
        if record.content.message_mut().is_none() || !self.happens() {
            return None;
        }
        let mut second = record.clone();
        let [first_message, second_message] = [record, &mut second].map(|record| record.content.message_mut());
        let (first_message, second_message) = (first_message?, second_message?);
        second_message.records =
            first_message.records.split_off(self.choices.rng.usize(0..=first_message.records.len()));
        Some(second)
    }

    fn record(&mut self, field: FieldPlan, value: Value) -> Record<'a> {
        Record::new(field, random::value(self.schema, value, field.number, &mut self.choices.rng))
    }

    /// Returns whether the message may have such a value.
    fn fits(&self, value: Value) -> bool {
        self.depth < MAX_DEPTH || is_scalar(value)
    }
}

fn is_scalar(value: Value) -> bool {
    matches!(value, Value::Scalar(_))
}
