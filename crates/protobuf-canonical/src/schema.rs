//! Message descriptors, compiled for the canonical encoding.

use std::collections::HashMap;

use prost_reflect::{DynamicMessage, ExtensionDescriptor, FieldDescriptor, Kind, MessageDescriptor, Syntax};

use super::{
    features::{has_presence, verifies_utf8},
    ignore_mask::{IgnoreMask, Part},
    reader::{Tag, WireType},
};

/// A message descriptor and all messages that it refers to, compiled for the canonical encoding.
pub(super) struct Schema {
    messages: Vec<MessagePlan>,
}

impl Schema {
    pub(super) fn compile(root: &MessageDescriptor, ignored: &IgnoreMask) -> Self {
        let mut compiler = Compiler::default();
        compiler.message(root, Some(ignored).filter(|ignored| !ignored.is_empty()));
        // The queue grows during the loop: each message adds the messages that it is the first to refer to.
        let mut next = 0;
        while let Some((descriptor, ignored)) = compiler.queue.get(next).cloned() {
            let plan = compiler.plan(&descriptor, ignored);
            compiler.messages.push(plan);
            next += 1;
        }
        Self { messages: compiler.messages }
    }

    pub(super) fn root(&self) -> &MessagePlan {
        self.message(MessageId(0))
    }

    pub(super) fn message(&self, id: MessageId) -> &MessagePlan {
        &self.messages[id.0]
    }
}

/// The index of a message in its schema. Only the compiler creates them, so each is in range.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct MessageId(usize);

pub(super) struct MessagePlan {
    /// The fields, sorted by number.
    fields: Vec<FieldPlan>,
    /// Whether field n is at `fields[n - 1]`. True for most messages, and avoids the search.
    dense: bool,
    /// Of each low number, the index of its field, plus one; 0 for a number without a field.
    low: Vec<u8>,
    /// Whether a field of this message, or of a message inside it, is ignored.
    pub(super) is_around_ignored: bool,
}

/// The numbers in [`MessagePlan::low`] are below this one. All indexes fit into a byte.
const LOW: u32 = 128;

impl MessagePlan {
    #[inline]
    pub(super) fn field(&self, number: u32) -> Option<&FieldPlan> {
        if self.dense {
            return self.fields.get((number as usize).wrapping_sub(1));
        }
        if let Some(index) = self.low.get(number as usize) {
            return self.fields.get(usize::from(*index).wrapping_sub(1));
        }
        let found = self.fields.binary_search_by_key(&number, |field| field.number);
        found.ok().map(|index| &self.fields[index])
    }

    /// Returns the field with this tag, in either wire type that it may arrive with; `None` for an unknown field.
    #[inline]
    pub(super) fn known(&self, tag: Tag) -> Option<&FieldPlan> {
        self.field(tag.number()).filter(|field| field.takes(tag))
    }

    /// Returns the fields, sorted by number.
    #[cfg(feature = "reencode")]
    pub(super) fn fields(&self) -> &[FieldPlan] {
        &self.fields
    }
}

#[derive(Clone, Copy)]
pub(super) struct FieldPlan {
    pub(super) number: u32,
    /// The tag in the canonical encoding: field number and wire type in one number.
    pub(super) tag: u64,
    /// The position of the field in the canonical order. The members of a oneof share a rank, as only one of them is
    /// written.
    pub(super) rank: u32,
    pub(super) shape: Shape,
    pub(super) keep: Keep,
}

/// Whether a field is part of the encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    No { is_member: bool },
    Yes,
}

impl FieldPlan {
    fn new(number: u32, rank: u32, shape: Shape, keep: Keep) -> Self {
        Self { number, tag: Tag::new(number, shape.wire()).encoded(), rank, shape, keep }
    }

    /// Returns whether the field may arrive with this tag, which has its number.
    #[inline]
    pub(super) fn takes(&self, tag: Tag) -> bool {
        self.tag == tag.encoded() || self.other_wire() == Some(tag.wire)
    }

    /// Returns the second wire type that a packable list may arrive with: packed if the schema says unpacked, and vice
    /// versa.
    #[inline]
    pub(super) fn other_wire(&self) -> Option<WireType> {
        match self.shape {
            Shape::Repeated(Value::Scalar(scalar)) if scalar.wire() != WireType::Bytes => Some(WireType::Bytes),
            Shape::Packed(scalar) => Some(scalar.wire()),
            _ => None,
        }
    }
}

#[derive(Clone, Copy)]
pub(super) enum Shape {
    Map(MapPlan),
    Packed(Scalar),
    Repeated(Value),
    Singular(Value, Presence),
}

impl Shape {
    /// Returns the wire type of the field in the canonical encoding.
    fn wire(self) -> WireType {
        match self {
            Self::Map(_) | Self::Packed(_) => WireType::Bytes,
            Self::Repeated(value) | Self::Singular(value, _) => value.wire(),
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct MapPlan {
    pub(super) key: Scalar,
    pub(super) value: Value,
}

impl MapPlan {
    #[inline]
    pub(super) fn key_tag(self) -> u64 {
        Tag::new(1, self.key.wire()).encoded()
    }

    #[inline]
    pub(super) fn value_tag(self) -> u64 {
        Tag::new(2, self.value.wire()).encoded()
    }

    /// Returns the fields of an entry: the key and the value.
    #[cfg(feature = "reencode")]
    pub(super) fn fields(self) -> [FieldPlan; 2] {
        let key = Shape::Singular(Value::Scalar(self.key), Presence::Implicit);
        let value = Shape::Singular(self.value, Presence::Implicit);
        [FieldPlan::new(1, 0, key, Keep::Yes), FieldPlan::new(2, 1, value, Keep::Yes)]
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    /// The field is written if it is set.
    Explicit,
    /// The field is written if its value is not the default.
    Implicit,
}

#[derive(Clone, Copy)]
pub(super) enum Value {
    Group(MessageId),
    Message(MessageId),
    Scalar(Scalar),
}

impl Value {
    #[inline]
    pub(super) fn wire(self) -> WireType {
        match self {
            Self::Group(_) => WireType::StartGroup,
            Self::Message(_) => WireType::Bytes,
            Self::Scalar(scalar) => scalar.wire(),
        }
    }
}

/// A scalar type. Types that are encoded alike share a variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Bool,
    /// bytes, and the strings that protobuf-go does not check for UTF-8: those of proto2, and by a feature.
    Bytes,
    /// fixed32, float
    Fixed32,
    /// fixed64, double
    Fixed64,
    /// int32, enums
    Int32,
    Int64,
    /// float in a map or an extension, where protobuf-go turns a signalling NaN into a quiet one.
    QuietFloat,
    Sfixed32,
    Sfixed64,
    Sint32,
    Sint64,
    /// The strings of proto3, and of editions.
    String,
    Uint32,
    Uint64,
}

impl Scalar {
    #[inline]
    pub(super) fn wire(self) -> WireType {
        match self {
            Self::Fixed32 | Self::QuietFloat | Self::Sfixed32 => WireType::Fixed32,
            Self::Fixed64 | Self::Sfixed64 => WireType::Fixed64,
            Self::Bytes | Self::String => WireType::Bytes,
            _ => WireType::Varint,
        }
    }

    /// Returns the number that protobuf-go would write after reading `raw`: narrow types drop excess bits.
    #[inline]
    pub(super) fn normalize(self, raw: u64) -> u64 {
        const QUIET: u32 = 1 << 22;
        match self {
            Self::Bool => u64::from(raw != 0),
            Self::Int32 => i64::from(raw as i32) as u64,
            Self::QuietFloat if f32::from_bits(raw as u32).is_nan() => raw | u64::from(QUIET),
            Self::Sint32 | Self::Uint32 => u64::from(raw as u32),
            _ => raw,
        }
    }

    /// Returns a number that sorts like the map key with the encoding (varint or fixed) `raw`.
    #[inline]
    pub(super) fn sort_key(self, raw: u64) -> u64 {
        const SIGN: u64 = 1 << 63;
        let unzigzag = (raw >> 1) as i64 ^ -((raw & 1) as i64);
        match self {
            Self::Int32 | Self::Int64 | Self::Sfixed64 => raw ^ SIGN,
            Self::Sfixed32 => i64::from(raw as i32) as u64 ^ SIGN,
            Self::Sint32 | Self::Sint64 => unzigzag as u64 ^ SIGN,
            _ => raw,
        }
    }
}

#[derive(Default)]
struct Compiler<'a> {
    /// The ids of messages without ignored fields. Messages with ignored fields are compiled once for each place.
    ids: HashMap<String, MessageId>,
    queue: Vec<(MessageDescriptor, Option<&'a IgnoreMask>)>,
    messages: Vec<MessagePlan>,
}

impl<'a> Compiler<'a> {
    fn message(&mut self, descriptor: &MessageDescriptor, ignored: Option<&'a IgnoreMask>) -> MessageId {
        let next = MessageId(self.queue.len());
        let id = match ignored {
            Some(_) => next,
            None => *self.ids.entry(descriptor.full_name().to_owned()).or_insert(next),
        };
        if id == next {
            self.queue.push((descriptor.clone(), ignored));
        }
        id
    }

    fn plan(&mut self, descriptor: &MessageDescriptor, ignored: Option<&'a IgnoreMask>) -> MessagePlan {
        let keep = |number, is_member| match ignored.and_then(|ignored| ignored.get(number)) {
            Some(Part::All) => Keep::No { is_member },
            Some(Part::Inside(_)) | None => Keep::Yes,
        };
        let inside = |number| ignored.and_then(|ignored| ignored.inside(number));
        let mut extensions: Vec<_> = descriptor.extensions().collect();
        extensions.sort_by_key(ExtensionDescriptor::number);
        let mut ordinary: Vec<_> = descriptor.fields().filter(|field| !in_real_oneof(field)).collect();
        ordinary.sort_by_key(FieldDescriptor::number);
        let oneofs = descriptor.oneofs().filter(|oneof| !oneof.is_synthetic());

        let mut fields = Vec::new();
        let mut rank = 0;
        for extension in &extensions {
            let shape = self.extension_shape(extension);
            fields.push(FieldPlan::new(extension.number(), rank, shape, Keep::Yes));
            rank += 1;
        }
        for field in &ordinary {
            let (number, shape) = (field.number(), self.shape(field, inside(field.number())));
            fields.push(FieldPlan::new(number, rank, shape, keep(number, false)));
            rank += 1;
        }
        for oneof in oneofs {
            for field in oneof.fields() {
                let (number, shape) = (field.number(), self.shape(&field, inside(field.number())));
                fields.push(FieldPlan::new(number, rank, shape, keep(number, true)));
            }
            rank += 1;
        }

        fields.sort_by_key(|field| field.number);
        let dense = fields.iter().zip(1..).all(|(field, number)| field.number == number);
        let mut low = vec![0; if dense { 0 } else { LOW as usize }];
        for (field, index) in fields.iter().zip(1..).take_while(|(field, _)| field.number < LOW) {
            if let Some(low) = low.get_mut(field.number as usize) {
                *low = index;
            }
        }
        MessagePlan { fields, dense, low, is_around_ignored: ignored.is_some() }
    }

    fn shape(&mut self, field: &FieldDescriptor, ignored: Option<&'a IgnoreMask>) -> Shape {
        if let Kind::Message(entry) = field.kind()
            && field.is_map()
        {
            let [key, value] = [entry.map_entry_key_field(), entry.map_entry_value_field()];
            return Shape::Map(MapPlan {
                key: scalar(&key.kind(), verifies_utf8(&key)),
                value: quiet(&value.kind(), self.value(&value.kind(), false, verifies_utf8(&value), ignored)),
            });
        }
        let value = self.value(&field.kind(), field.is_group(), verifies_utf8(field), ignored);
        if !field.is_list() {
            return Shape::Singular(value, presence(has_presence(field)));
        }
        list(value, packed(&field.options(), field.is_packed()))
    }

    fn extension_shape(&mut self, extension: &ExtensionDescriptor) -> Shape {
        let (kind, options) = (extension.kind(), extension.options());
        // Whatever its features: protobuf-go does not verify the strings of an edition's extensions.
        let utf8 = extension.parent_file().syntax() == Syntax::Proto3;
        let value = quiet(&kind, self.value(&kind, extension.is_group(), utf8, None));
        if !extension.is_list() {
            return Shape::Singular(value, presence(extension.supports_presence()));
        }
        list(value, packed(&options, extension.is_packed()))
    }

    fn value(&mut self, kind: &Kind, group: bool, utf8: bool, ignored: Option<&'a IgnoreMask>) -> Value {
        match kind {
            Kind::Message(message) if group => Value::Group(self.message(message, ignored)),
            Kind::Message(message) => Value::Message(self.message(message, ignored)),
            kind => Value::Scalar(scalar(kind, utf8)),
        }
    }
}

fn in_real_oneof(field: &FieldDescriptor) -> bool {
    field.containing_oneof().is_some_and(|oneof| !oneof.is_synthetic())
}

fn list(value: Value, packed: bool) -> Shape {
    match value {
        Value::Scalar(scalar) if packed && scalar.wire() != WireType::Bytes => Shape::Packed(scalar),
        value => Shape::Repeated(value),
    }
}

/// Returns whether a list is packed. Reads the option itself: in a pool compiled by protox, nothing else holds it.
fn packed(options: &DynamicMessage, default: bool) -> bool {
    match options.get_field_by_name("packed") {
        Some(packed) if options.has_field_by_name("packed") => packed.as_bool().unwrap_or(default),
        _ => default,
    }
}

/// Returns the value type for a map or an extension: `float` becomes [`Scalar::QuietFloat`].
fn quiet(kind: &Kind, value: Value) -> Value {
    if *kind == Kind::Float { Value::Scalar(Scalar::QuietFloat) } else { value }
}

fn presence(explicit: bool) -> Presence {
    if explicit { Presence::Explicit } else { Presence::Implicit }
}

/// `utf8` is whether a string must be UTF-8.
fn scalar(kind: &Kind, utf8: bool) -> Scalar {
    match kind {
        Kind::Bool => Scalar::Bool,
        // No caller passes a message: a map key is never one, and `Compiler::value` handles them itself.
        Kind::Bytes | Kind::Message(_) => Scalar::Bytes,
        Kind::Double | Kind::Fixed64 => Scalar::Fixed64,
        Kind::Enum(_) | Kind::Int32 => Scalar::Int32,
        Kind::Fixed32 | Kind::Float => Scalar::Fixed32,
        Kind::Int64 => Scalar::Int64,
        Kind::Sfixed32 => Scalar::Sfixed32,
        Kind::Sfixed64 => Scalar::Sfixed64,
        Kind::Sint32 => Scalar::Sint32,
        Kind::Sint64 => Scalar::Sint64,
        Kind::String if utf8 => Scalar::String,
        Kind::String => Scalar::Bytes,
        Kind::Uint32 => Scalar::Uint32,
        Kind::Uint64 => Scalar::Uint64,
    }
}
