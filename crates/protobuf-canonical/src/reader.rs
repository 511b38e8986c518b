//! The reader of the protobuf wire format.

use super::{CanonicalError, CanonicalErrorKind as Kind, depth::deeper};

/// Reads the protobuf wire format from untrusted bytes: every read is bounds-checked.
#[derive(Clone)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns the bytes not read yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(super) fn tag(&mut self) -> Result<Tag, CanonicalError> {
        self.tag_up_to(MAX_FIELD_NUMBER)
    }

    fn tag_up_to(&mut self, max_number: u64) -> Result<Tag, CanonicalError> {
        let varint = self.varint()?;
        let number = varint.value >> 3;
        if number == 0 || number > max_number {
            return Err(Kind::InvalidFieldNumber.into());
        }
        Ok(Tag { encoded: varint.value, wire: WireType::from_tag(varint.value)?, minimal: varint.minimal })
    }

    /// Skips the next tag if it is `encoded` in its minimal form; returns whether it was.
    #[inline]
    pub(super) fn eat_tag(&mut self, encoded: u64) -> bool {
        let Some(&byte) = self.rest.first() else { return false };
        if encoded < 0x80 {
            if u64::from(byte) != encoded {
                return false;
            }
            self.rest = &self.rest[1..];
            return true;
        }
        let mut ahead = self.clone();
        let found = ahead.varint().is_ok_and(|varint| varint.minimal && varint.value == encoded);
        if found {
            *self = ahead;
        }
        found
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<Varint, CanonicalError> {
        match self.rest {
            [byte @ 0..=0x7f, rest @ ..] => {
                self.rest = rest;
                Ok(Varint { value: u64::from(*byte), minimal: true })
            }
            [low, high @ 1..=0x7f, rest @ ..] => {
                self.rest = rest;
                Ok(Varint { value: u64::from(low & 0x7f) | u64::from(*high) << 7, minimal: true })
            }
            _ => self.long_varint(),
        }
    }

    #[inline(never)]
    fn long_varint(&mut self) -> Result<Varint, CanonicalError> {
        let mut value = 0;
        for (index, &byte) in self.rest.iter().take(MAX_VARINT_LEN).enumerate() {
            if index == MAX_VARINT_LEN - 1 && byte > 1 {
                return Err(Kind::VarintOverflow.into());
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.rest = &self.rest[index + 1..];
                return Ok(Varint { value, minimal: byte != 0 || index == 0 });
            }
        }
        Err(Kind::Truncated.into())
    }

    #[inline]
    pub(super) fn fixed32(&mut self) -> Result<u32, CanonicalError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(Kind::Truncated)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*bytes))
    }

    #[inline]
    pub(super) fn fixed64(&mut self) -> Result<u64, CanonicalError> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(Kind::Truncated)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    /// Reads the content of a length-delimited field.
    #[inline]
    pub(super) fn bytes(&mut self) -> Result<Bytes<'a>, CanonicalError> {
        let length = self.varint()?;
        let split = usize::try_from(length.value).ok().and_then(|length| self.rest.split_at_checked(length));
        let (content, rest) = split.ok_or(Kind::Truncated)?;
        self.rest = rest;
        Ok(Bytes { content, minimal: length.minimal })
    }

    /// Reads the bits of a number.
    pub(super) fn number(&mut self, wire: WireType) -> Result<u64, CanonicalError> {
        match wire {
            WireType::Fixed32 => self.fixed32().map(u64::from),
            WireType::Fixed64 => self.fixed64(),
            _ => self.varint().map(|varint| varint.value),
        }
    }

    /// Reads a group up to and including its end tag. Returns the content without the end tag.
    pub(super) fn group(&mut self, number: u32, depth: u32) -> Result<&'a [u8], CanonicalError> {
        let start = self.rest;
        loop {
            if self.is_empty() {
                return Err(Kind::GroupMismatch.into());
            }
            let before = self.rest.len();
            let tag = self.tag_up_to(MAX_FIELD_NUMBER_IN_GROUP)?;
            if tag.wire == WireType::EndGroup {
                if tag.number() != number {
                    return Err(Kind::GroupMismatch.into());
                }
                return Ok(&start[..start.len() - before]);
            }
            self.skip(tag, depth)?;
        }
    }

    /// Skips the value of a field and checks that it is well formed. `depth` is the depth of the message around it.
    pub(super) fn skip(&mut self, tag: Tag, depth: u32) -> Result<(), CanonicalError> {
        match tag.wire {
            WireType::Varint => self.varint().map(drop),
            WireType::Fixed64 => self.fixed64().map(drop),
            WireType::Bytes => self.bytes().map(drop),
            WireType::StartGroup => self.group(tag.number(), deeper(depth)?).map(drop),
            WireType::EndGroup => Err(Kind::GroupMismatch.into()),
            WireType::Fixed32 => self.fixed32().map(drop),
        }
    }
}

const MAX_FIELD_NUMBER: u64 = (1 << 29) - 1;
/// The largest field number inside a skipped group. protobuf-go accepts larger numbers there than elsewhere. A group that
/// is a known field is read again, with the strict limit.
const MAX_FIELD_NUMBER_IN_GROUP: u64 = (1 << 31) - 1;
pub(super) const MAX_VARINT_LEN: usize = 10;

#[derive(Clone, Copy)]
pub(super) struct Tag {
    encoded: u64,
    pub(super) wire: WireType,
    pub(super) minimal: bool,
}

impl Tag {
    #[inline]
    pub(super) fn new(number: u32, wire: WireType) -> Self {
        Self { encoded: u64::from(number) << 3 | wire as u64, wire, minimal: true }
    }

    /// Returns the tag as written on the wire: field number and wire type in one number.
    #[inline]
    pub(super) fn encoded(self) -> u64 {
        self.encoded
    }

    #[inline]
    pub(super) fn number(self) -> u32 {
        (self.encoded >> 3) as u32
    }
}

#[derive(Clone, Copy)]
pub(super) struct Varint {
    pub(super) value: u64,
    /// Whether the varint has its shortest encoding.
    pub(super) minimal: bool,
}

#[derive(Clone, Copy)]
pub(super) struct Bytes<'a> {
    pub(super) content: &'a [u8],
    /// Whether the length has its shortest encoding.
    pub(super) minimal: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    StartGroup = 3,
    EndGroup = 4,
    Fixed32 = 5,
}

impl WireType {
    fn from_tag(tag: u64) -> Result<Self, CanonicalError> {
        Ok(match tag & 7 {
            0 => Self::Varint,
            1 => Self::Fixed64,
            2 => Self::Bytes,
            3 => Self::StartGroup,
            4 => Self::EndGroup,
            5 => Self::Fixed32,
            _ => return Err(Kind::InvalidWireType.into()),
        })
    }
}
