//! The parser of any JSON, into `Value`, `Struct` and `ListValue`.

use prost_reflect::Kind;

use super::{binary::field_of, integer, seen::Seen, text::Text, well_known_type::NULL};
use crate::MAX_DEPTH;

/// Parses the text into the binary encoding of a `Value`. `depth` is that of the message.
pub(super) fn value(json: &str, depth: u32) -> Result<Vec<u8>, String> {
    read_value(&mut Text::new(json), depth)
}

/// Parses the text of an object into the binary encoding of a `Struct`.
pub(super) fn object(json: &str, depth: u32) -> Result<Vec<u8>, String> {
    read_object(&mut Text::new(json), depth)
}

/// Parses the text of a list into the binary encoding of a `ListValue`.
pub(super) fn list(json: &str, depth: u32) -> Result<Vec<u8>, String> {
    read_list(&mut Text::new(json), depth)
}

fn read_value(text: &mut Text<'_>, depth: u32) -> Result<Vec<u8>, String> {
    check(depth)?;
    Ok(match text.peek() {
        // Inside a `Value`, an object or a list is a message of its own.
        Some(b'{') => field_of(5, &Kind::Bytes, &read_object(text, depth + 1)?),
        Some(b'[') => field_of(6, &Kind::Bytes, &read_list(text, depth + 1)?),
        Some(b'"') => field_of(3, &Kind::String, text.string()?.as_bytes()),
        _ => match text.word() {
            "null" => NULL.to_vec(),
            "false" => field_of(4, &Kind::Bool, &[0]),
            "true" => field_of(4, &Kind::Bool, &[1]),
            number => field_of(2, &Kind::Double, &double(number)?.to_le_bytes()),
        },
    })
}

fn double(number: &str) -> Result<f64, String> {
    let value = integer::checked(number)?.parse().ok().filter(|value: &f64| value.is_finite());
    value.ok_or_else(|| format!("{number} is out of range"))
}

fn read_object(text: &mut Text<'_>, depth: u32) -> Result<Vec<u8>, String> {
    check(depth)?;
    if !text.eat(b'{') {
        return Err("expected an object".to_owned());
    }
    let (mut fields, mut seen) = (Vec::new(), Seen::default());
    while !text.eat(b'}') {
        let name = text.string()?;
        text.eat(b':');
        let mut entry = field_of(1, &Kind::String, name.as_bytes());
        entry.extend(field_of(2, &Kind::Bytes, &read_value(text, depth + 1)?));
        fields.extend(field_of(1, &Kind::Bytes, &entry));
        if !seen.insert(&*name) {
            return Err(format!("duplicate field {name:?}"));
        }
        text.eat(b',');
    }
    Ok(fields)
}

fn read_list(text: &mut Text<'_>, depth: u32) -> Result<Vec<u8>, String> {
    check(depth)?;
    if !text.eat(b'[') {
        return Err("expected a list".to_owned());
    }
    let mut values = Vec::new();
    while !text.eat(b']') {
        values.extend(field_of(1, &Kind::Bytes, &read_value(text, depth + 1)?));
        text.eat(b',');
    }
    Ok(values)
}

fn check(depth: u32) -> Result<(), String> {
    if depth > MAX_DEPTH { Err("nested more than 100 levels deep".to_owned()) } else { Ok(()) }
}
