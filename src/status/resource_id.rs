//! The id of a created resource: a UUID, an integer or a text.

use std::{borrow::Cow, fmt, sync::Arc};

use uuid::{Uuid, fmt::Hyphenated};

/// The longest text, in bytes.
const LONGEST: usize = 255;

/// The id of a resource: a UUID, an integer, or a text of 1 to 255 bytes. Cloning it allocates nothing.
///
/// Two ids are the same if their texts are: the usual form of a UUID, in lower case and with hyphens, is that UUID, and decimal
/// digits are that integer.
///
/// ```
/// use tonic_idempotency::status::{InvalidResourceId, ResourceId};
///
/// let order = ResourceId::from_text("ord_17")?;
/// assert_eq!((order.as_uuid(), order.as_integer(), &*order.to_text()), (None, None, "ord_17"));
///
/// assert_eq!(ResourceId::from_text("17")?, ResourceId::from(17));
/// assert_eq!(ResourceId::from(17).as_integer(), Some(17));
///
/// let id = uuid::Uuid::from_u128(7);
/// assert_eq!(ResourceId::from_text(&id.to_string())?, ResourceId::from(id));
/// # Ok::<(), InvalidResourceId>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ResourceId(Id);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Id {
    Integer(i64),
    /// A text that has the form of neither a UUID nor an integer.
    Text(Arc<str>),
    Uuid(Uuid),
}

impl ResourceId {
    /// Makes the id that has this text.
    ///
    /// # Errors
    ///
    /// [`InvalidResourceId`] if the text is empty, longer than 255 bytes, or contains the character NUL, which PostgreSQL cannot
    /// store.
    pub fn from_text(text: &str) -> Result<Self, InvalidResourceId> {
        if text.is_empty() || text.len() > LONGEST || text.contains('\0') {
            return Err(InvalidResourceId(()));
        }
        let id = match (decimal(text), usual_form(text)) {
            (Some(number), _) => Id::Integer(number),
            (None, Some(id)) => Id::Uuid(id),
            (None, None) => Id::Text(text.into()),
        };
        Ok(Self(id))
    }

    /// Returns the id if it is a UUID.
    pub fn as_uuid(&self) -> Option<&Uuid> {
        match &self.0 {
            Id::Uuid(id) => Some(id),
            Id::Integer(_) | Id::Text(_) => None,
        }
    }

    /// Returns the id if it is an integer.
    pub fn as_integer(&self) -> Option<i64> {
        match self.0 {
            Id::Integer(id) => Some(id),
            Id::Text(_) | Id::Uuid(_) => None,
        }
    }

    /// Returns the id as a text.
    pub fn to_text(&self) -> Cow<'_, str> {
        match &self.0 {
            Id::Integer(id) => Cow::Owned(id.to_string()),
            Id::Text(text) => Cow::Borrowed(text),
            Id::Uuid(id) => Cow::Owned(id.to_string()),
        }
    }
}

impl From<Uuid> for ResourceId {
    fn from(id: Uuid) -> Self {
        Self(Id::Uuid(id))
    }
}

impl From<i64> for ResourceId {
    fn from(id: i64) -> Self {
        Self(Id::Integer(id))
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Id::Integer(id) => id.fmt(f),
            Id::Text(text) => text.fmt(f),
            Id::Uuid(id) => id.fmt(f),
        }
    }
}

impl fmt::Debug for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResourceId({self})")
    }
}

/// The kind of the ids of a resource type. It is that of the key of the resource's table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdKind {
    /// An integer of up to 64 bits, with a sign.
    Integer,
    /// A text of 1 to 255 bytes.
    Text,
    /// A UUID. The default.
    #[default]
    Uuid,
}

impl fmt::Display for IdKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Integer => "an integer",
            Self::Text => "a text",
            Self::Uuid => "a UUID",
        })
    }
}

/// A text that cannot be the id of a resource: it is empty, longer than 255 bytes, or contains the character NUL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the id of a resource has from 1 to 255 bytes, none of them zero")]
pub struct InvalidResourceId(());

/// Returns the integer whose usual form this is: no leading zeros, and no plus sign.
fn decimal(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_usual = text == "0" || (digits.starts_with(|digit| digit != '0') && !digits.starts_with('+'));
    text.parse().ok().filter(|_| is_usual)
}

/// Returns the UUID whose usual form (RFC 9562, section 4) this is: lower case, with hyphens.
fn usual_form(text: &str) -> Option<Uuid> {
    let id = Uuid::try_parse(text).ok()?;
    let mut buffer = [0; Hyphenated::LENGTH];
    (*id.as_hyphenated().encode_lower(&mut buffer) == *text).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store returns the text that it was given.
    #[test]
    fn has_the_text_that_it_was_made_from() {
        for text in [
            "ord_17",
            "0",
            "17",
            "-17",
            "9223372036854775807",
            "-9223372036854775808",
            "9223372036854775808",
            "017",
            "+17",
            "-0",
            "--1",
            "-",
            "0198c0de-0000-7000-8000-00000000000a",
            "0198C0DE-0000-7000-8000-00000000000A",
            "0198c0de00007000800000000000000a",
            "{0198c0de-0000-7000-8000-00000000000a}",
            " ",
            "ü",
        ] {
            let id = ResourceId::from_text(text).expect(text);
            assert_eq!((&*id.to_text(), id.to_string().as_str()), (text, text));
        }
    }

    #[test]
    fn is_an_integer_or_a_uuid_in_its_usual_form_and_in_no_other() {
        for (text, number) in [("0", Some(0)), ("-17", Some(-17)), ("017", None), ("+17", None), ("-0", None)] {
            assert_eq!(ResourceId::from_text(text).expect(text).as_integer(), number, "{text}");
        }
        for (text, is_uuid) in [
            ("0198c0de-0000-7000-8000-00000000000a", true),
            ("0198C0DE-0000-7000-8000-00000000000A", false),
            ("0198c0de00007000800000000000000a", false),
        ] {
            assert_eq!(ResourceId::from_text(text).expect(text).as_uuid().is_some(), is_uuid, "{text}");
        }
    }

    #[test]
    fn is_a_text_of_1_to_255_bytes_without_nul() {
        assert!(ResourceId::from_text(&"x".repeat(255)).is_ok());
        for text in ["", "a\0", &"x".repeat(256)] {
            assert_eq!(ResourceId::from_text(text), Err(InvalidResourceId(())), "{text:?}");
        }
    }
}
