//! Random messages of a type, as a model from which any of their encodings can be made.

use prost_reflect::{ExtensionDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use rand::{Rng, RngExt as _, rngs::StdRng, seq::IndexedRandom as _};

/// A message: its set fields and the unknown ones.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) descriptor: MessageDescriptor,
    pub(crate) fields: Vec<(Field, Content)>,
    /// Field numbers and varints, in order.
    pub(crate) unknown: Vec<(u32, u64)>,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    List(Vec<Value>),
    /// No two keys are equal.
    Map(Vec<(Value, Value)>),
    One(Value),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Bytes(Vec<u8>),
    Message(Message),
    /// A varint, fixed32 or fixed64 that the type can hold.
    Number(u64),
}

impl PartialEq for Message {
    fn eq(&self, _: &Self) -> bool {
        // Only map keys are compared, and no key is a message.
        false
    }
}

/// A field or an extension.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) number: u32,
    pub(crate) kind: Kind,
    pub(crate) group: bool,
    pub(crate) list: bool,
    pub(crate) presence: bool,
    /// The name of its real oneof.
    pub(crate) oneof: Option<String>,
}

impl From<FieldDescriptor> for Field {
    fn from(field: FieldDescriptor) -> Self {
        let oneof = field.containing_oneof().filter(|oneof| !oneof.is_synthetic());
        Self {
            number: field.number(),
            kind: field.kind(),
            group: field.is_group(),
            list: field.is_list(),
            presence: field.supports_presence(),
            oneof: oneof.map(|oneof| oneof.name().to_owned()),
        }
    }
}

impl From<ExtensionDescriptor> for Field {
    fn from(field: ExtensionDescriptor) -> Self {
        Self {
            number: field.number(),
            kind: field.kind(),
            group: field.is_group(),
            list: field.is_list(),
            presence: field.supports_presence(),
            oneof: None,
        }
    }
}

pub(crate) fn fields(descriptor: &MessageDescriptor) -> Vec<Field> {
    descriptor.fields().map(Field::from).chain(descriptor.extensions().map(Field::from)).collect()
}

/// Returns the key field and the value field of a map's entries; `None` if the field is not a map.
pub(crate) fn map_entry(field: &Field) -> Option<(Field, Field)> {
    let entry = field.kind.as_message().filter(|entry| entry.is_map_entry())?;
    Some((entry.map_entry_key_field().into(), entry.map_entry_value_field().into()))
}

pub(crate) fn message(descriptor: &MessageDescriptor, depth: usize, rng: &mut StdRng) -> Message {
    let all = fields(descriptor);
    let mut chosen: Vec<(Field, Content)> = Vec::new();
    for field in &all {
        let oneof_is_set = field.oneof.is_some() && chosen.iter().any(|(other, _)| other.oneof == field.oneof);
        if oneof_is_set || rng.random_bool(0.6) || (depth == 0 && field.kind.as_message().is_some()) {
            continue;
        }
        let content = if let Some((key, value)) = map_entry(field) {
            let mut entries: Vec<(Value, Value)> = Vec::new();
            for _ in 0..rng.random_range(1..5) {
                let key = self::value(&key, 0, rng);
                if entries.iter().all(|(other, _)| *other != key) {
                    entries.push((key, self::value(&value, depth.saturating_sub(1), rng)));
                }
            }
            Content::Map(entries)
        } else if field.list {
            Content::List((0..rng.random_range(1..5)).map(|_| value(field, depth.saturating_sub(1), rng)).collect())
        } else {
            let value = value(field, depth.saturating_sub(1), rng);
            if !field.presence && is_default(&value) {
                continue;
            }
            Content::One(value)
        };
        chosen.push((field.clone(), content));
    }
    let free = || (70_000..70_010).filter(|number| all.iter().all(|field| field.number != *number));
    let unknown = (0..rng.random_range(0..3))
        .filter_map(|_| Some((*free().collect::<Vec<_>>().choose(rng)?, rng.random())))
        .collect();
    Message { descriptor: descriptor.clone(), fields: chosen, unknown }
}

pub(crate) fn is_default(value: &Value) -> bool {
    match value {
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::Message(_) => false,
        Value::Number(number) => *number == 0,
    }
}

pub(crate) fn value(field: &Field, depth: usize, rng: &mut StdRng) -> Value {
    if let Kind::Message(descriptor) = &field.kind {
        return Value::Message(message(descriptor, depth, rng));
    }
    if matches!(field.kind, Kind::Bytes | Kind::String) {
        let length = rng.random_range(0..6);
        return Value::Bytes((0..length).map(|_| rng.random_range(b'a'..=b'z')).collect());
    }
    let raw = match rng.random_range(0..4) {
        0 => 0,
        1 => rng.random_range(0..200),
        2 => rng.random(),
        _ => u64::MAX - rng.random_range(0..200),
    };
    Value::Number(fit(&field.kind, raw))
}

/// Returns the number truncated to what a field of this kind can hold.
pub(crate) fn fit(kind: &Kind, raw: u64) -> u64 {
    match kind {
        Kind::Bool => raw & 1,
        Kind::Enum(_) | Kind::Int32 => i64::from(raw as i32) as u64,
        Kind::Fixed32 | Kind::Sfixed32 | Kind::Sint32 | Kind::Uint32 => u64::from(raw as u32),
        // Never a NaN: some NaNs are written as others, and none equals itself.
        Kind::Double => raw & 0xbfff_ffff_ffff_ffff,
        Kind::Float => u64::from(raw as u32 & 0xbfff_ffff),
        _ => raw,
    }
}

/// Changes one value of the message; `None` if the chosen field has none.
pub(crate) fn mutate(message: &mut Message, rng: &mut StdRng) -> Option<()> {
    let fields = message.fields.len();
    if fields == 0 {
        message.unknown.push((70_020, rng.next_u64()));
        return Some(());
    }
    let index = rng.random_range(0..fields);
    let (field, content) = &mut message.fields[index];
    match content {
        Content::List(values) => {
            let index = rng.random_range(0..values.len());
            change(field, &mut values[index], rng)
        }
        Content::Map(entries) => {
            let (_, value_field) = map_entry(field)?;
            let index = rng.random_range(0..entries.len());
            change(&value_field, &mut entries[index].1, rng)
        }
        Content::One(value) => {
            change(field, value, rng)?;
            if !field.presence && is_default(value) {
                message.fields.remove(index);
            }
            Some(())
        }
    }
}

fn change(field: &Field, value: &mut Value, rng: &mut StdRng) -> Option<()> {
    match value {
        Value::Bytes(bytes) => {
            bytes.push(b'!');
            Some(())
        }
        Value::Message(message) => mutate(message, rng),
        Value::Number(number) => {
            *number = fit(&field.kind, *number ^ 1);
            Some(())
        }
    }
}
