//! A valid encoding of a message, picked at random.

use prost_reflect::Kind;
use rand::{RngExt as _, rngs::StdRng, seq::SliceRandom as _};

use crate::random::{self, Content, Field, Message, Value, map_entry};

/// The style of an encoding: plain, or any that a valid encoder may produce.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Odd,
    Plain,
}

pub(crate) fn encode(message: &Message, style: Style, rng: &mut StdRng) -> Vec<u8> {
    records(message, style, rng).concat()
}

/// Returns the fields of a message, each with its tag, in an order in which they may arrive.
fn records(message: &Message, style: Style, rng: &mut StdRng) -> Vec<Vec<u8>> {
    // Order matters within a stream, but not between streams.
    let mut streams = Vec::new();
    for (field, content) in &message.fields {
        let mut stream = Vec::new();
        match content {
            Content::List(values) => list(field, values, style, rng, &mut stream),
            Content::Map(entries) => map(field, entries, style, rng, &mut stream),
            Content::One(value) => {
                if style == Style::Odd {
                    replaced(message, field, rng, &mut stream);
                }
                one(field, value, style, rng, &mut stream);
            }
        }
        streams.push(stream);
    }
    if style == Style::Odd {
        streams.extend(explicit_defaults(message, rng));
    }
    let unknown = message.unknown.iter().map(|(number, value)| {
        let mut record = Vec::new();
        tag(*number, 0, style, rng, &mut record);
        prost::encoding::encode_varint(*value, &mut record);
        record
    });
    streams.push(unknown.collect());
    if style == Style::Plain {
        return streams.concat();
    }
    interleave(streams, rng)
}

fn interleave(streams: Vec<Vec<Vec<u8>>>, rng: &mut StdRng) -> Vec<Vec<u8>> {
    let mut turns: Vec<_> =
        streams.iter().enumerate().flat_map(|(index, stream)| std::iter::repeat_n(index, stream.len())).collect();
    turns.shuffle(rng);
    let mut streams: Vec<_> = streams.into_iter().map(Vec::into_iter).collect();
    turns.into_iter().filter_map(|index| streams[index].next()).collect()
}

/// Writes values that a later value of the same field or the same oneof replaces.
fn replaced(message: &Message, field: &Field, rng: &mut StdRng, stream: &mut Vec<Vec<u8>>) {
    let scalar = field.kind.as_message().is_none();
    if scalar && rng.random_bool(0.5) {
        let value = random::value(field, 0, rng);
        one(field, &value, Style::Odd, rng, stream);
    }
    if field.oneof.is_some() && rng.random_bool(0.5) {
        let others = random::fields(&message.descriptor);
        let mut others = others.iter().filter(|other| other.oneof == field.oneof && other.number != field.number);
        if let Some(other) = others.next() {
            let value = random::value(other, 0, rng);
            one(other, &value, Style::Odd, rng, stream);
        }
    }
}

/// Returns unset fields with implicit presence, explicitly written as their default.
fn explicit_defaults(message: &Message, rng: &mut StdRng) -> Vec<Vec<Vec<u8>>> {
    let mut streams = Vec::new();
    for field in random::fields(&message.descriptor) {
        let unset = message.fields.iter().all(|(set, _)| set.number != field.number);
        let implicit = !field.presence && !field.list && field.kind.as_message().is_none();
        if unset && implicit && rng.random_bool(0.3) {
            let default = match field.kind {
                Kind::Bytes | Kind::String => Value::Bytes(Vec::new()),
                _ => Value::Number(0),
            };
            let mut stream = Vec::new();
            one(&field, &default, Style::Odd, rng, &mut stream);
            streams.push(stream);
        }
    }
    streams
}

fn one(field: &Field, value: &Value, style: Style, rng: &mut StdRng, stream: &mut Vec<Vec<u8>>) {
    let Value::Message(message) = value else {
        let mut record = Vec::new();
        tag(field.number, wire(&field.kind), style, rng, &mut record);
        scalar(&field.kind, value, style, rng, &mut record);
        stream.push(record);
        return;
    };
    let records = records(message, style, rng);
    let cut = if style == Style::Odd && rng.random_bool(0.5) { rng.random_range(0..=records.len()) } else { 0 };
    let (first, second) = records.split_at(cut);
    if cut > 0 {
        stream.push(wrapped(field, &first.concat(), style, rng));
    }
    stream.push(wrapped(field, &second.concat(), style, rng));
}

fn wrapped(field: &Field, content: &[u8], style: Style, rng: &mut StdRng) -> Vec<u8> {
    let mut record = Vec::new();
    if field.group {
        tag(field.number, 3, style, rng, &mut record);
        record.extend_from_slice(content);
        tag(field.number, 4, style, rng, &mut record);
    } else {
        tag(field.number, 2, style, rng, &mut record);
        varint(content.len() as u64, style, rng, &mut record);
        record.extend_from_slice(content);
    }
    record
}

fn list(field: &Field, values: &[Value], style: Style, rng: &mut StdRng, stream: &mut Vec<Vec<u8>>) {
    let packable = wire(&field.kind) != 2;
    let mut rest = values;
    while let Some((first, after)) = rest.split_first() {
        if packable && style == Style::Odd && rng.random_bool(0.5) {
            let (chunk, after) = rest.split_at(rng.random_range(0..=rest.len()));
            let mut content = Vec::new();
            chunk.iter().for_each(|value| scalar(&field.kind, value, style, rng, &mut content));
            stream.push(wrapped(&Field { group: false, ..field.clone() }, &content, style, rng));
            rest = after;
            continue;
        }
        match first {
            Value::Message(message) => {
                let content = encode(message, style, rng);
                stream.push(wrapped(field, &content, style, rng));
            }
            scalar => one(field, scalar, style, rng, stream),
        }
        rest = after;
    }
}

fn map(field: &Field, entries: &[(Value, Value)], style: Style, rng: &mut StdRng, stream: &mut Vec<Vec<u8>>) {
    let Some((key_field, value_field)) = map_entry(field) else { return };
    let entry = |key: &Value, value: &Value, rng: &mut StdRng| {
        let (mut key_records, mut value_records) = (Vec::new(), Vec::new());
        one(&key_field, key, style, rng, &mut key_records);
        one(&value_field, value, style, rng, &mut value_records);
        let content = match style {
            Style::Odd => interleave(vec![key_records, value_records], rng),
            Style::Plain => [key_records, value_records].concat(),
        };
        wrapped(field, &content.concat(), style, rng)
    };
    let mut records = Vec::new();
    for (key, value) in entries {
        let mut same_key = Vec::new();
        if style == Style::Odd && rng.random_bool(0.3) {
            let replaced = random::value(&value_field, 0, rng);
            same_key.push(entry(key, &replaced, rng));
        }
        same_key.push(entry(key, value, rng));
        records.push(same_key);
    }
    stream.extend(if style == Style::Odd { interleave(records, rng) } else { records.concat() });
}

fn scalar(kind: &Kind, value: &Value, style: Style, rng: &mut StdRng, record: &mut Vec<u8>) {
    match (wire(kind), value) {
        (0, Value::Number(number)) => varint(*number, style, rng, record),
        (1, Value::Number(number)) => record.extend_from_slice(&number.to_le_bytes()),
        (5, Value::Number(number)) => record.extend_from_slice(&(*number as u32).to_le_bytes()),
        (_, Value::Bytes(bytes)) => {
            varint(bytes.len() as u64, style, rng, record);
            record.extend_from_slice(bytes);
        }
        (wire, value) => panic!("{value:?} with wire type {wire}"),
    }
}

fn wire(kind: &Kind) -> u32 {
    match kind {
        Kind::Bytes | Kind::Message(_) | Kind::String => 2,
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => 1,
        Kind::Fixed32 | Kind::Float | Kind::Sfixed32 => 5,
        _ => 0,
    }
}

fn tag(number: u32, wire: u32, style: Style, rng: &mut StdRng, record: &mut Vec<u8>) {
    varint(u64::from(number << 3 | wire), style, rng, record);
}

fn varint(value: u64, style: Style, rng: &mut StdRng, record: &mut Vec<u8>) {
    let start = record.len();
    prost::encoding::encode_varint(value, record);
    let length = record.len() - start;
    if style == Style::Odd && length < 10 && rng.random_bool(0.3) {
        let padded = rng.random_range(length + 1..=10);
        if let Some(last) = record.last_mut() {
            *last |= 0x80;
        }
        record.resize(start + padded - 1, 0x80);
        record.push(0);
    }
}
