//! The check whether a message is canonical already. It does not allocate.

use super::{
    CanonicalError, CanonicalErrorKind as Kind,
    depth::deeper,
    reader::{Reader, WireType},
    schema::{FieldPlan, Keep, MapPlan, MessagePlan, Presence, Scalar, Schema, Shape, Value},
    sort_key::SortKey,
    utf8::is_utf8,
};

/// Returns whether `wire` is the canonical encoding of its message.
///
/// Stops at the first byte that is not canonical: after `false`, the rest of `wire` may still be invalid.
pub(super) fn is_canonical(schema: &Schema, wire: &[u8]) -> Result<bool, CanonicalError> {
    match Check::new(schema, wire).message(schema.root(), None, 0) {
        Ok(()) => Ok(true),
        Err(Stop::Invalid(error)) => Err(error),
        Err(Stop::NotCanonical) => Ok(false),
    }
}

/// Returns the key of a map entry if the entry is canonical and its value is a scalar. `entry` is the entry's content.
#[inline]
pub(super) fn canonical_entry<'a>(schema: &'a Schema, map: MapPlan, entry: &'a [u8]) -> Option<SortKey<'a>> {
    let mut check = Check::new(schema, entry);
    let Value::Scalar(value) = map.value else { return None };
    let key = check.entry_key(map).ok()?;
    check.expect_tag(map.value_tag()).ok()?;
    check.scalar(value).ok()?;
    check.reader.is_empty().then_some(key)
}

/// The reason why the check ends early.
enum Stop {
    Invalid(CanonicalError),
    NotCanonical,
}

impl From<CanonicalError> for Stop {
    fn from(error: CanonicalError) -> Self {
        Self::Invalid(error)
    }
}

type Checked<T> = Result<T, Stop>;

fn ensure(canonical: bool) -> Checked<()> {
    if canonical { Ok(()) } else { Err(Stop::NotCanonical) }
}

struct Check<'a> {
    schema: &'a Schema,
    reader: Reader<'a>,
}

impl<'a> Check<'a> {
    #[inline]
    fn new(schema: &'a Schema, bytes: &'a [u8]) -> Self {
        Self { schema, reader: Reader::new(bytes) }
    }

    /// Reads one message: to the end of the bytes, or to the end tag of the group with number `group`.
    fn message(&mut self, plan: &MessagePlan, group: Option<u32>, depth: u32) -> Checked<()> {
        // A field of a lower rank is out of order. After an unknown field, every known field is.
        let mut lowest_rank = 0;
        while !self.reader.is_empty() {
            let tag = self.reader.tag()?;
            ensure(tag.minimal)?;
            match plan.field(tag.number()) {
                Some(field) if field.tag == tag.encoded() => {
                    ensure(field.rank >= lowest_rank && field.keep == Keep::Yes)?;
                    // A list or map is read as a whole, so it must not occur again either.
                    lowest_rank = field.rank + 1;
                    self.field(field, depth)?;
                }
                _ if tag.wire == WireType::EndGroup => {
                    return if group == Some(tag.number()) { Ok(()) } else { Err(mismatch()) };
                }
                field => {
                    ensure(field.and_then(FieldPlan::other_wire) != Some(tag.wire))?;
                    self.reader.skip(tag, depth)?;
                    lowest_rank = u32::MAX;
                }
            }
        }
        if group.is_none() { Ok(()) } else { Err(mismatch()) }
    }

    /// Reads a field after its first tag. Of a list or a map, reads all consecutive elements.
    #[inline]
    fn field(&mut self, field: &FieldPlan, depth: u32) -> Checked<()> {
        match field.shape {
            Shape::Map(map) => self.map(field.tag, map, depth),
            Shape::Packed(scalar) => self.packed(scalar),
            Shape::Repeated(value) => loop {
                self.value(value, field.number, depth)?;
                if !self.reader.eat_tag(field.tag) {
                    return Ok(());
                }
            },
            Shape::Singular(value, presence) => {
                let is_default = self.value(value, field.number, depth)?;
                ensure(!is_default || presence == Presence::Explicit)
            }
        }
    }

    /// Reads one value and returns whether it is the default.
    #[inline(always)]
    fn value(&mut self, value: Value, number: u32, depth: u32) -> Checked<bool> {
        match value {
            Value::Group(id) => {
                self.message(self.schema.message(id), Some(number), deeper(depth)?)?;
                Ok(false)
            }
            Value::Message(id) => {
                let content = self.bytes()?;
                Check::new(self.schema, content).message(self.schema.message(id), None, deeper(depth)?)?;
                Ok(false)
            }
            Value::Scalar(scalar) => Ok(self.scalar(scalar)?.is_default()),
        }
    }

    #[inline(always)]
    fn scalar(&mut self, scalar: Scalar) -> Checked<Content<'a>> {
        match scalar.wire() {
            WireType::Varint => {
                let varint = self.reader.varint()?;
                ensure(varint.minimal && scalar.normalize(varint.value) == varint.value)?;
                Ok(Content::Number(varint.value))
            }
            WireType::Fixed32 => {
                let raw = self.reader.fixed32()?.into();
                ensure(scalar.normalize(raw) == raw)?;
                Ok(Content::Number(raw))
            }
            WireType::Fixed64 => Ok(Content::Number(self.reader.fixed64()?)),
            _ => {
                let bytes = self.reader.bytes()?;
                if scalar == Scalar::String && !is_utf8(bytes.content) {
                    return Err(CanonicalError::from(Kind::InvalidUtf8).into());
                }
                ensure(bytes.minimal)?;
                Ok(Content::Text(bytes.content))
            }
        }
    }

    fn packed(&mut self, scalar: Scalar) -> Checked<()> {
        let content = self.bytes()?;
        ensure(!content.is_empty())?;
        let mut inner = Check::new(self.schema, content);
        while !inner.reader.is_empty() {
            inner.scalar(scalar)?;
        }
        Ok(())
    }

    /// Reads the entries of a map. Their keys must ascend.
    fn map(&mut self, tag: u64, map: MapPlan, depth: u32) -> Checked<()> {
        let mut previous = None;
        // A copy that nothing else refers to stays in registers.
        let mut entries = Check { schema: self.schema, reader: self.reader.clone() };
        loop {
            let mut entry = Check::new(self.schema, entries.bytes()?);
            let key = entry.entry_key(map)?;
            ensure(previous.is_none_or(|previous| previous < key))?;
            previous = Some(key);
            entry.expect_tag(map.value_tag())?;
            entry.value(map.value, 2, depth)?;
            ensure(entry.reader.is_empty())?;
            if !entries.reader.eat_tag(tag) {
                self.reader = entries.reader;
                return Ok(());
            }
        }
    }

    #[inline(always)]
    fn entry_key(&mut self, map: MapPlan) -> Checked<SortKey<'a>> {
        self.expect_tag(map.key_tag())?;
        Ok(match self.scalar(map.key)? {
            Content::Number(raw) => SortKey::of_number(map.key, raw),
            Content::Text(text) => SortKey::of_text(text),
        })
    }

    #[inline]
    fn bytes(&mut self) -> Checked<&'a [u8]> {
        let bytes = self.reader.bytes()?;
        ensure(bytes.minimal)?;
        Ok(bytes.content)
    }

    /// Reads a tag that must be `encoded`.
    #[inline]
    fn expect_tag(&mut self, encoded: u64) -> Checked<()> {
        if self.reader.eat_tag(encoded) {
            return Ok(());
        }
        if !self.reader.is_empty() {
            self.reader.tag()?;
        }
        Err(Stop::NotCanonical)
    }
}

fn mismatch() -> Stop {
    CanonicalError::from(Kind::GroupMismatch).into()
}

/// A scalar as read from the wire.
enum Content<'a> {
    Number(u64),
    Text(&'a [u8]),
}

impl Content<'_> {
    #[inline]
    fn is_default(&self) -> bool {
        match self {
            Self::Number(raw) => *raw == 0,
            Self::Text(text) => text.is_empty(),
        }
    }
}
