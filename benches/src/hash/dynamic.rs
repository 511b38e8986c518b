//! Encodes a `DynamicMessage` in a fixed order, which its own encoding lacks because its maps are hash maps.

use prost::encoding::{WireType, encode_key, encode_varint};
use prost_reflect::{DynamicMessage, MapKey, Value};

use crate::error::Error;

/// Writes the set fields by number, and the entries of maps by key.
pub(crate) fn encode_sorted(message: &DynamicMessage, out: &mut Vec<u8>) -> Result<(), Error> {
    for (field, value) in message.fields() {
        match value {
            Value::List(values) => values.iter().try_for_each(|value| encode(field.number(), value, out))?,
            Value::Map(entries) => {
                let mut entries: Vec<_> = entries.iter().collect();
                entries.sort_unstable_by_key(|(key, _)| *key);
                let mut entry = Vec::new();
                for (key, value) in entries {
                    entry.clear();
                    encode_map_key(key, &mut entry)?;
                    encode(2, value, &mut entry)?;
                    encode_bytes(field.number(), &entry, out);
                }
            }
            value => encode(field.number(), value, out)?,
        }
    }
    Ok(())
}

/// Writes one value of a kind that the benchmark's messages use.
fn encode(number: u32, value: &Value, out: &mut Vec<u8>) -> Result<(), Error> {
    match value {
        Value::I64(value) => {
            encode_key(number, WireType::Varint, out);
            encode_varint(*value as u64, out);
        }
        Value::Message(message) => {
            let mut content = Vec::new();
            encode_sorted(message, &mut content)?;
            encode_bytes(number, &content, out);
        }
        Value::String(text) => encode_bytes(number, text.as_bytes(), out),
        value => return Err(format!("a kind that the benchmark does not use: {value:?}").into()),
    }
    Ok(())
}

fn encode_map_key(key: &MapKey, out: &mut Vec<u8>) -> Result<(), Error> {
    let MapKey::String(key) = key else {
        return Err(format!("a kind that the benchmark does not use: {key:?}").into());
    };
    encode_bytes(1, key.as_bytes(), out);
    Ok(())
}

fn encode_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}
