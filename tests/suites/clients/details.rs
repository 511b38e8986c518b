//! Details of errors that a client hands over undecoded.

use prost_reflect::{DescriptorPool, DynamicMessage};

use crate::call::Detail;

/// The detail of type `name`, such as `google.rpc.ErrorInfo`, with this encoding.
pub(crate) fn decode(pool: &DescriptorPool, name: &str, encoded: &[u8]) -> Result<Detail, String> {
    let descriptor = pool.get_message_by_name(name).ok_or_else(|| format!("a detail of an unknown type {name}"))?;
    let message = DynamicMessage::decode(descriptor, encoded).map_err(|error| format!("{name}: {error}"))?;
    let value = serde_json::to_value(&message).map_err(|error| format!("{name}: {error}"))?;
    Ok(Detail { name: name.to_owned(), value })
}
