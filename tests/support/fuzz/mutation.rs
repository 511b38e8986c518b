//! Small changes of descriptor sets that stay encoded descriptor sets.

use std::sync::LazyLock;

use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, FieldDescriptor, Kind, ReflectMessage as _, Value};
use prost_types::FileDescriptorSet;

use super::random::Random;

/// Numbers that mean something somewhere in a descriptor: field numbers, types, labels, indexes, editions, limits.
const NUMBERS: [i32; 22] = [
    0,
    1,
    2,
    3,
    4,
    7,
    9,
    10,
    11,
    12,
    14,
    21,
    999,
    1000,
    1001,
    1002,
    19_000,
    536_870_911,
    i32::MAX,
    -1,
    i32::MIN,
    50_000,
];

/// Strings that mean something somewhere in a descriptor.
const TEXTS: [&str; 12] = [
    "",
    ".",
    "a.b",
    "proto2",
    "proto3",
    "editions",
    "key",
    "\\777",
    "\\x1é",
    ".google.protobuf.FieldOptions",
    "google/protobuf/descriptor.proto",
    "nan",
];

/// Changes an encoded descriptor set in one to four places; `None` if it cannot be decoded.
pub fn mutate(set: &[u8], seed: u64) -> Option<Vec<u8>> {
    let mut random = Random::new(seed);
    let descriptor = POOL.get_message_by_name("google.protobuf.FileDescriptorSet").expect("a message");
    let mut message = DynamicMessage::decode(descriptor, set).ok()?;
    let mut texts: Vec<String> = TEXTS.iter().map(|&text| text.to_owned()).collect();
    collect(&message, &mut texts);
    for _ in 0..=random.below(4) {
        change(&mut message, &texts, &mut random);
    }
    Some(message.encode_to_vec())
}

/// `descriptor.proto`, with editions.
static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let mut set = FileDescriptorSet::decode(crate::orders::FILE_DESCRIPTOR_SET).expect("descriptors");
    set.file.retain(|file| file.name() == "google/protobuf/descriptor.proto");
    DescriptorPool::from_file_descriptor_set(set).expect("a file without imports")
});

/// Collects the strings of a message: names to be swapped.
fn collect(message: &DynamicMessage, texts: &mut Vec<String>) {
    for (_, value) in message.fields() {
        match value {
            Value::String(text) => texts.push(text.clone()),
            Value::Message(inner) => collect(inner, texts),
            Value::List(items) => items.iter().for_each(|item| match item {
                Value::String(text) => texts.push(text.clone()),
                Value::Message(inner) => collect(inner, texts),
                _ => {}
            }),
            _ => {}
        }
    }
}

/// Changes something in a message or in a message inside.
fn change(message: &mut DynamicMessage, texts: &[String], random: &mut Random) {
    let set: Vec<_> = message.fields().map(|(field, _)| field).collect();
    let all: Vec<_> = message.descriptor().fields().collect();
    let fields = if random.one_in(8) || set.is_empty() { all } else { set };
    let Some(field) = random.of(&fields) else { return };
    if random.one_in(10) {
        message.clear_field(field);
        return;
    }
    if let Value::List(items) = message.get_field_mut(field) {
        change_list(items, field, texts, random);
    } else if let Value::Message(inner) = message.get_field_mut(field) {
        change(inner, texts, random);
    } else {
        message.set_field(field, scalar(&field.kind(), texts, random));
    }
}

fn change_list(items: &mut Vec<Value>, field: &FieldDescriptor, texts: &[String], random: &mut Random) {
    let at = random.below(items.len().max(1));
    match (random.below(8), items.get_mut(at)) {
        (0, Some(_)) => drop(items.remove(at)),
        (1, Some(item)) => {
            let again = item.clone();
            items.push(again);
        }
        (2, Some(_)) => {
            let other = random.below(items.len());
            items.swap(at, other);
        }
        (_, Some(Value::Message(inner))) => change(inner, texts, random),
        (_, Some(item)) => *item = scalar(&field.kind(), texts, random),
        (_, None) => {
            let mut item = field.kind().default_value();
            match &mut item {
                Value::Message(inner) => change(inner, texts, random),
                item => *item = scalar(&field.kind(), texts, random),
            }
            items.push(item);
        }
    }
}

fn scalar(kind: &Kind, texts: &[String], random: &mut Random) -> Value {
    let number = *random.of(&NUMBERS).expect("a number");
    match kind {
        Kind::Bool => Value::Bool(random.one_in(2)),
        Kind::Bytes => Value::Bytes(random.of(texts).expect("a text").clone().into()),
        Kind::Double => Value::F64(number.into()),
        Kind::Enum(_) => Value::EnumNumber(number),
        Kind::Int32 => Value::I32(number),
        Kind::Int64 => Value::I64(number.into()),
        Kind::String => Value::String(random.of(texts).expect("a text").clone()),
        Kind::Uint64 => Value::U64(number.unsigned_abs().into()),
        kind => kind.default_value(),
    }
}
