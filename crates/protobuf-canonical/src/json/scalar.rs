//! The parser of scalars: a JSON value to its bytes.

use std::borrow::Cow;

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use prost_reflect::Kind;

use super::{binary::varint, integer};

/// The full name of the enum whose only value is `null`.
pub(super) const NULL_VALUE: &str = "google.protobuf.NullValue";

/// Accepts any value of the unused trailing bits, as Go does.
const CONFIG: GeneralPurposeConfig = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
const PADDED: GeneralPurposeConfig = CONFIG.with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
const UNPADDED: GeneralPurposeConfig = CONFIG.with_decode_padding_mode(DecodePaddingMode::RequireNone);

/// Parses a map key. In JSON, keys of every kind are strings.
pub(super) fn key(kind: &Kind, name: &str) -> Result<Vec<u8>, String> {
    match (kind, name) {
        (Kind::String, name) => Ok(name.as_bytes().to_vec()),
        (Kind::Bool, "false") => Ok(vec![0]),
        (Kind::Bool, "true") => Ok(vec![1]),
        (Kind::Bool, _) => Err(format!("{name:?} is not a boolean: expected \"true\" or \"false\"")),
        (Kind::Fixed32 | Kind::Fixed64 | Kind::Uint32 | Kind::Uint64, name) if name.starts_with(['+', '-']) => {
            Err(format!("{name:?} has a sign, but the key is unsigned"))
        }
        // Keys are parsed unlike numbers: 01 and +1 are valid keys, 1.0 is not.
        _ => {
            let value = name.parse().ok().and_then(|value| integer(kind, value));
            value.ok_or_else(|| format!("{name:?} is not an integer or is out of range"))
        }
    }
}

/// Parses a value that is not a message; `None` for an unknown enum value if those are ignored.
pub(super) fn value(kind: &Kind, json: &str, ignore_unknown: bool) -> Result<Option<Vec<u8>>, String> {
    match kind {
        Kind::Bool => match json {
            "false" => Ok(Some(vec![0])),
            "true" => Ok(Some(vec![1])),
            _ => Err(format!("{json} is not a boolean: expected true or false")),
        },
        Kind::Bytes => bytes(&string(json)?).map(Some),
        Kind::Enum(values) if json == "null" && values.full_name() == NULL_VALUE => Ok(Some(vec![0])),
        Kind::Enum(values) => match string(json) {
            Ok(name) => match values.get_value_by_name(&name) {
                Some(value) => Ok(Some(varint(i64::from(value.number()) as u64))),
                None if ignore_unknown => Ok(None),
                None => Err(format!("unknown value {name:?} of enum {}", values.full_name())),
            },
            Err(_) => number(&Kind::Int32, json).map(Some),
        },
        Kind::Message(_) => Err("a message is not a scalar".to_owned()),
        Kind::String => Ok(Some(string(json)?.into_owned().into_bytes())),
        _ if json.starts_with('"') => number(kind, &string(json)?).map(Some),
        _ => number(kind, json).map(Some),
    }
}

/// Parses a number from its digits, or from the content of a JSON string.
fn number(kind: &Kind, text: &str) -> Result<Vec<u8>, String> {
    let narrow = || format!("{text} is out of range");
    let not_finite = match text {
        "-Infinity" => Some(f32::NEG_INFINITY),
        "Infinity" => Some(f32::INFINITY),
        "NaN" => Some(f32::NAN),
        _ => None,
    };
    let bytes = match kind {
        // Each kind is rounded once, directly from the text.
        Kind::Double => match not_finite {
            Some(value) => f64::from(value).to_le_bytes().to_vec(),
            None => {
                let value: f64 = integer::checked(text)?.parse().map_err(|_| narrow())?;
                value.is_finite().then(|| value.to_le_bytes().to_vec()).ok_or_else(narrow)?
            }
        },
        Kind::Float => match not_finite {
            Some(value) => value.to_le_bytes().to_vec(),
            None => {
                let value: f32 = integer::checked(text)?.parse().map_err(|_| narrow())?;
                value.is_finite().then(|| value.to_le_bytes().to_vec()).ok_or_else(narrow)?
            }
        },
        kind => integer(kind, integer::exact(text)?).ok_or_else(narrow)?,
    };
    Ok(bytes)
}

/// Encodes an integer; `None` if it is out of the range of its kind.
fn integer(kind: &Kind, value: i128) -> Option<Vec<u8>> {
    let [narrow, wide] = [i32::try_from(value).ok().map(i64::from), i64::try_from(value).ok()];
    Some(match kind {
        Kind::Int32 => varint(narrow? as u64),
        Kind::Int64 => varint(wide? as u64),
        Kind::Sint32 => varint(zigzag(narrow?)),
        Kind::Sint64 => varint(zigzag(wide?)),
        Kind::Sfixed32 => i32::try_from(value).ok()?.to_le_bytes().to_vec(),
        Kind::Sfixed64 => wide?.to_le_bytes().to_vec(),
        Kind::Uint32 => varint(u32::try_from(value).ok()?.into()),
        Kind::Uint64 => varint(u64::try_from(value).ok()?),
        Kind::Fixed32 => u32::try_from(value).ok()?.to_le_bytes().to_vec(),
        Kind::Fixed64 => u64::try_from(value).ok()?.to_le_bytes().to_vec(),
        _ => return None,
    })
}

pub(super) fn string(json: &str) -> Result<Cow<'_, str>, String> {
    if !json.starts_with('"') {
        return Err(format!("{json} is not a string"));
    }
    serde_json::from_str::<String>(json).map(Cow::Owned).map_err(|error| error.to_string())
}

/// Parses Base64: padded if the length is a multiple of four, unpadded otherwise. Line breaks may stand anywhere. They
/// count for that length, and are otherwise ignored.
fn bytes(text: &str) -> Result<Vec<u8>, String> {
    let alphabet = if text.contains(['-', '_']) { &alphabet::URL_SAFE } else { &alphabet::STANDARD };
    let config = if text.len().is_multiple_of(4) { PADDED } else { UNPADDED };
    let line: Cow<'_, str> =
        if text.contains(['\n', '\r']) { text.replace(['\n', '\r'], "").into() } else { text.into() };
    GeneralPurpose::new(alphabet, config)
        .decode(&*line)
        .map_err(|error| format!("{text:?} is not valid base64: {error}"))
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}
