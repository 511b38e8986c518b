//! The key of a call.

use http::request::Parts;
use uuid::Uuid;

use crate::{
    ARRIVED,
    fault::{Fault, Faults},
    refusal::Refusal,
};

/// The longest key, in characters.
const LONGEST: usize = 255;

/// Returns what a call's records are found by; `None` if it has no key.
pub(crate) fn of(call: &Parts, faults: Faults) -> Result<Option<String>, Refusal> {
    let arrived = call.headers.get(ARRIVED).and_then(|content| content.to_str().ok()).unwrap_or_default();
    let is_unkeyed = match faults.0 {
        Some(Fault::KnowsNoKeys) => true,
        Some(Fault::UnkeyedOverWeb) => arrived.starts_with("application/grpc-web"),
        Some(Fault::UnkeyedOverConnect) => arrived == "application/proto",
        Some(Fault::UnkeyedOverJson) => arrived == "application/json",
        _ => false,
    };
    let text =
        |name: &str| call.headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect::<Vec<_>>();
    let written = text("idempotency-key");
    if is_unkeyed || written.is_empty() {
        return Ok(None);
    }
    let mut keys = match faults.0 {
        Some(Fault::JoinsKeys) => vec![key(&written.join(", "), faults)?],
        Some(Fault::FirstOfKeys) => vec![key(written[0], faults)?],
        _ => written.iter().map(|text| key(text, faults)).collect::<Result<Vec<_>, _>>()?,
    };
    keys.dedup();
    let [key] = keys.as_slice() else { return Err(Refusal::KeyInvalid) };
    let user = if faults.has(Fault::NoUser) { String::new() } else { text("x-user").concat() };
    Ok(Some(format!("{user} {key}")))
}

/// Returns a key in its one form.
fn key(text: &str, faults: Faults) -> Result<String, Refusal> {
    if faults.has(Fault::KeyAsText) {
        return Ok(text.to_owned());
    }
    let bare = text.trim_matches('"');
    if bare.is_empty() && !faults.has(Fault::EmptyIsAKey) {
        return Err(Refusal::KeyInvalid);
    }
    if bare.len() > LONGEST && !faults.has(Fault::TruncatesKeys) {
        return Err(Refusal::KeyInvalid);
    }
    let key = Uuid::parse_str(bare).map_or_else(|_| bare.chars().take(LONGEST).collect(), |uuid| uuid.to_string());
    if faults.has(Fault::RefusesForms) && key != text {
        return Err(Refusal::KeyInvalid);
    }
    Ok(key)
}
