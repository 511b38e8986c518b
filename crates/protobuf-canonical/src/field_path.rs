//! Finds a field in an encoded message.

use prost_reflect::{FieldDescriptor, Kind};

use super::{
    CanonicalError,
    depth::deeper,
    reader::{Reader, Tag, WireType},
};

/// A singular string, bytes or integer field of a message, or of a message inside of it.
///
/// Finds the field's value in an encoded message as a decoder would, without decoding the rest: the last value wins, the
/// pieces of a submessage are merged, and another member of a oneof clears the field.
///
/// ```
/// use prost_reflect::DescriptorPool;
/// use protobuf_canonical::FieldPath;
///
/// let any = DescriptorPool::global().get_message_by_name("google.protobuf.Any").unwrap();
/// let type_url = FieldPath::new(&[any.get_field_by_name("type_url").unwrap()]).unwrap();
/// assert_eq!(type_url.find(b"\x0a\x01a\x12\x01b\x0a\x01c").unwrap(), Some(b"c".as_slice()));
/// assert_eq!(type_url.find(b"\x12\x01b").unwrap(), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPath {
    /// From the outermost message on; never empty.
    steps: Vec<Step>,
}

/// A field, and the fields that clear it. Each is a tag: field number and wire type in one number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    tag: u64,
    /// The other members of its oneof.
    others: Vec<u64>,
}

impl FieldPath {
    /// Creates the path along these fields: the first is a field of the outermost message, each other a field of the message
    /// in the one before. Returns `None` unless all are singular, the last is a string, bytes or an integer, and the others are messages.
    pub fn new(fields: &[FieldDescriptor]) -> Option<Self> {
        let last = fields.last()?;
        let contained = fields
            .windows(2)
            .all(|pair| pair[0].kind().as_message().is_some_and(|message| message == pair[1].parent_message()));
        let is_singular = |field: &FieldDescriptor| !field.is_list() && !field.is_map();
        let is_valid = holds_value(&last.kind()) && contained && fields.iter().all(is_singular);
        is_valid.then(|| Self { steps: fields.iter().map(Step::new).collect() })
    }

    /// Returns the field's value in an encoded message; `None` if it is not set, or is an integer. A field without presence may be set
    /// to its default.
    ///
    /// # Errors
    ///
    /// [`CanonicalError`] if a message on the path is not well formed. Submessages that are not on it are not checked.
    pub fn find<'a>(&self, wire: &'a [u8]) -> Result<Option<&'a [u8]>, CanonicalError> {
        Ok(match self.value(wire)? {
            Some(Found::Content(content)) => Some(content),
            Some(Found::Number(_)) | None => None,
        })
    }

    /// As [`find`](Self::find), of an integer: the bits of its varint, or of its four or eight bytes.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find).
    pub fn find_number(&self, wire: &[u8]) -> Result<Option<u64>, CanonicalError> {
        Ok(match self.value(wire)? {
            Some(Found::Number(bits)) => Some(bits),
            Some(Found::Content(_)) | None => None,
        })
    }

    fn value<'a>(&self, wire: &'a [u8]) -> Result<Option<Found<'a>>, CanonicalError> {
        let mut found = None;
        walk(&self.steps, wire, 0, &mut found)?;
        Ok(found)
    }
}

impl Step {
    fn new(field: &FieldDescriptor) -> Self {
        let oneof = field.containing_oneof().into_iter().flat_map(|oneof| oneof.fields().collect::<Vec<_>>());
        Self { tag: tag(field), others: oneof.filter(|other| other != field).map(|other| tag(&other)).collect() }
    }
}

/// A value as it is encoded.
enum Found<'a> {
    Content(&'a [u8]),
    Number(u64),
}

fn walk<'a>(steps: &[Step], wire: &'a [u8], depth: u32, found: &mut Option<Found<'a>>) -> Result<(), CanonicalError> {
    let Some((step, inner)) = steps.split_first() else {
        *found = Some(Found::Content(wire));
        return Ok(());
    };
    let mut reader = Reader::new(wire);
    while !reader.is_empty() {
        let tag = reader.tag()?;
        if tag.encoded() != step.tag {
            if step.others.contains(&tag.encoded()) {
                *found = None;
            }
            reader.skip(tag, depth)?;
            continue;
        }
        let deeper = deeper(depth)?;
        let content = match tag.wire {
            WireType::StartGroup => reader.group(tag.number(), deeper)?,
            WireType::Bytes => reader.bytes()?.content,
            _ => {
                *found = Some(Found::Number(reader.number(tag.wire)?));
                continue;
            }
        };
        walk(inner, content, deeper, found)?;
    }
    Ok(())
}

fn holds_value(kind: &Kind) -> bool {
    !matches!(kind, Kind::Bool | Kind::Double | Kind::Enum(_) | Kind::Float | Kind::Message(_))
}

/// Returns the tag of a singular field.
fn tag(field: &FieldDescriptor) -> u64 {
    let wire = match field.kind() {
        Kind::Message(_) if field.is_group() => WireType::StartGroup,
        Kind::Bytes | Kind::Message(_) | Kind::String => WireType::Bytes,
        Kind::Double | Kind::Fixed64 | Kind::Sfixed64 => WireType::Fixed64,
        Kind::Fixed32 | Kind::Float | Kind::Sfixed32 => WireType::Fixed32,
        _ => WireType::Varint,
    };
    Tag::new(field.number(), wire).encoded()
}
