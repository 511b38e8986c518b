//! The key of an operation, and its header.

use std::{fmt, str::FromStr};

use http::HeaderMap;
use thiserror::Error;
use uuid::Uuid;

use crate::grpc::headers;

/// The key of one operation. The client chooses it, and sends it with each attempt.
///
/// A key is a UUID of any version, bare or as an RFC 8941 string: in double quotes, as the [IETF draft] requires. Both
/// forms are the same key.
///
/// Handlers find the key in the request's extensions.
///
/// ```
/// use tonic_idempotency::IdempotencyKey;
///
/// let bare: IdempotencyKey = "8e03978e-40d5-43dd-bc93-6894a57f9324".parse().unwrap();
/// let quoted: IdempotencyKey = "\"8E03978E-40D5-43DD-BC93-6894A57F9324\"".parse().unwrap();
/// assert_eq!(bare, quoted);
/// assert!("order-17".parse::<IdempotencyKey>().is_err());
/// ```
///
/// [IETF draft]: https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IdempotencyKey(Uuid);

impl IdempotencyKey {
    /// The name of the request header.
    pub const HEADER: &'static str = headers::KEY;

    /// The maximum length of a header value, in bytes.
    pub const MAX_LEN: usize = 128;

    /// Returns the key of a request; `None` if the request has no such header.
    ///
    /// The header may be repeated, on separate lines or joined by commas as some proxies do, if all values are the same
    /// key.
    ///
    /// # Errors
    ///
    /// [`InvalidKey`] if the header is present and is not one key.
    pub fn from_headers(headers: &HeaderMap) -> Result<Option<Self>, InvalidKey> {
        Self::from_values(headers.get_all(Self::HEADER).iter().map(|value| value.as_bytes()))
    }

    pub(crate) fn from_values<'a>(values: impl Iterator<Item = &'a [u8]>) -> Result<Option<Self>, InvalidKey> {
        let mut found = None;
        for value in values {
            if value.len() > Self::MAX_LEN {
                return Err(InvalidKey::TooLong);
            }
            let value = str::from_utf8(value).map_err(|_| InvalidKey::NotAUuid)?;
            for part in value.split(',') {
                let key = part.parse()?;
                if *found.get_or_insert(key) != key {
                    return Err(InvalidKey::Repeated);
                }
            }
        }
        Ok(found)
    }

    /// Returns the key as it is stored.
    pub fn as_uuid(&self) -> &Uuid {
        &self.0
    }
}

impl FromStr for IdempotencyKey {
    type Err = InvalidKey;

    fn from_str(value: &str) -> Result<Self, InvalidKey> {
        let value = value.trim_matches([' ', '\t']);
        if value.is_empty() {
            return Err(InvalidKey::Empty);
        }
        if value.len() > Self::MAX_LEN {
            return Err(InvalidKey::TooLong);
        }
        let text = match value.strip_prefix('"') {
            Some(string) => unquote(string)?,
            None => value,
        };
        Uuid::try_parse(text).map(Self).map_err(|_| InvalidKey::NotAUuid)
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Uuid> for IdempotencyKey {
    fn from(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

/// An `Idempotency-Key` header that is not one key.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidKey {
    /// The header is empty.
    #[error("the idempotency-key header is empty; send a UUID, or omit the header")]
    Empty,
    /// The header is not a UUID.
    #[error("the idempotency-key header is not a UUID; send a UUID, bare or in double quotes")]
    NotAUuid,
    /// The header is repeated with different values.
    #[error("the idempotency-key header is repeated with different values; send it once")]
    Repeated,
    /// A value is longer than [`IdempotencyKey::MAX_LEN`].
    #[error("the idempotency-key header is longer than {} bytes; send a UUID", IdempotencyKey::MAX_LEN)]
    TooLong,
}

/// Returns the content of an RFC 8941 string without its opening quote. Ignores parameters, as none are defined.
/// Escapes need no care, as a UUID has none.
fn unquote(string: &str) -> Result<&str, InvalidKey> {
    match string.split_once('"') {
        Some(("", _)) => Err(InvalidKey::Empty),
        Some((content, rest)) if rest.is_empty() || rest.trim_start_matches(' ').starts_with(';') => Ok(content),
        _ => Err(InvalidKey::NotAUuid),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const KEY: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";
    const OTHER: &str = "019a0e7c-6a1f-7000-8000-000000000001";

    fn headers(values: &[&[u8]]) -> HeaderMap {
        let name = http::HeaderName::from_static(IdempotencyKey::HEADER);
        values.iter().map(|value| (name.clone(), HeaderValue::from_bytes(value).expect("a header value"))).collect()
    }

    fn parsed(values: &[&str]) -> Result<Option<String>, InvalidKey> {
        let values: Vec<_> = values.iter().map(|value| value.as_bytes()).collect();
        IdempotencyKey::from_headers(&headers(&values)).map(|key| key.map(|key| key.to_string()))
    }

    #[test]
    fn accepts_a_uuid_of_any_version_bare_or_as_a_string() {
        for value in [
            KEY.to_owned(),
            KEY.to_uppercase(),
            KEY.replace('-', ""),
            format!("\"{KEY}\""),
            format!("  \"{KEY}\"; v=1 "),
            format!("urn:uuid:{KEY}"),
        ] {
            assert_eq!(parsed(&[&value]), Ok(Some(KEY.to_owned())), "{value}");
        }
        assert_eq!(parsed(&[OTHER]), Ok(Some(OTHER.to_owned())));
    }

    #[test]
    fn finds_no_key_without_the_header() {
        assert_eq!(parsed(&[]), Ok(None));
    }

    #[test]
    fn accepts_a_repeated_header_with_equal_values() {
        assert_eq!(parsed(&[KEY, &format!("\"{KEY}\"")]), Ok(Some(KEY.to_owned())));
        assert_eq!(parsed(&[&format!("{KEY}, {KEY}")]), Ok(Some(KEY.to_owned())));
    }

    #[test]
    fn does_not_accept_a_header_that_is_not_one_key() {
        assert_eq!(parsed(&[""]), Err(InvalidKey::Empty));
        assert_eq!(parsed(&["  "]), Err(InvalidKey::Empty));
        assert_eq!(parsed(&["\"\""]), Err(InvalidKey::Empty));
        assert_eq!(parsed(&[KEY, ""]), Err(InvalidKey::Empty));
        assert_eq!(parsed(&[KEY, OTHER]), Err(InvalidKey::Repeated));
        assert_eq!(parsed(&[&format!("{KEY},{OTHER}")]), Err(InvalidKey::Repeated));
        assert_eq!(parsed(&["order-17"]), Err(InvalidKey::NotAUuid));
        assert_eq!(parsed(&[&format!("\"{KEY}")]), Err(InvalidKey::NotAUuid));
        assert_eq!(parsed(&[&format!("\"{KEY}\" x")]), Err(InvalidKey::NotAUuid));
        assert_eq!(parsed(&[&format!("{KEY}0")]), Err(InvalidKey::NotAUuid));
        assert_eq!(parsed(&[&"a".repeat(IdempotencyKey::MAX_LEN + 1)]), Err(InvalidKey::TooLong));
        assert_eq!(IdempotencyKey::from_headers(&headers(&[b"\xff"])), Err(InvalidKey::NotAUuid));
    }
}
