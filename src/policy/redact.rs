//! Removes redacted fields from responses.

use bytes::Bytes;
use prost::Message as _;
use prost_reflect::{DynamicMessage, Value};

use super::{Procedure, ResponseError};

impl Procedure {
    /// Returns the encoded response without its redacted fields, as it is stored.
    ///
    /// # Errors
    ///
    /// [`ResponseError::Unreadable`] if the response cannot be decoded.
    pub fn redacted(&self, response: Bytes) -> Result<Bytes, ResponseError> {
        if self.redact.is_empty() {
            return Ok(response);
        }
        let mut message =
            DynamicMessage::decode(self.method.output(), response).map_err(|_| ResponseError::Unreadable)?;
        for path in &self.redact {
            clear(&mut message, path);
        }
        Ok(message.encode_to_vec().into())
    }
}

fn clear(message: &mut DynamicMessage, path: &str) {
    let Some((name, rest)) = path.split_once('.') else {
        return message.clear_field_by_name(path);
    };
    if !message.has_field_by_name(name) {
        return;
    }
    match message.get_field_by_name_mut(name) {
        Some(Value::Message(inner)) => clear(inner, rest),
        Some(Value::List(items)) => {
            items.iter_mut().filter_map(Value::as_message_mut).for_each(|inner| clear(inner, rest));
        }
        _ => {}
    }
}
