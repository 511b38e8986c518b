use std::collections::HashMap;

use prost_reflect::{DynamicMessage, ExtensionDescriptor, FieldDescriptor, Kind, MessageDescriptor, Syntax};

use super::reader::{Tag, WireType};

/// A message descriptor and all that it reaches, compiled to what the canonical encoding asks about.
pub(super) struct Schema {
    messages: Vec<MessagePlan>,
}

impl Schema {
    pub(super) fn compile(root: &MessageDescriptor) -> Self {
        let mut compiler = Compiler::default();
        compiler.message(root);
        // `messages` grows while it is walked: each message adds those that it reaches first.
        let mut next = 0;
        while let Some(descriptor) = compiler.queue.get(next).cloned() {
            let plan = compiler.plan(&descriptor);
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

/// The place of a message in its schema; the compiler alone makes them, so each is in range.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct MessageId(usize);

pub(super) struct MessagePlan {
    /// By field number.
    fields: Vec<FieldPlan>,
    /// Whether field n stands at `fields[n - 1]`: true of most messages, and saves the search.
    dense: bool,
}

impl MessagePlan {
    #[inline]
    pub(super) fn field(&self, number: u32) -> Option<&FieldPlan> {
        if self.dense {
            return self.fields.get((number as usize).wrapping_sub(1));
        }
        let found = self.fields.binary_search_by_key(&number, |field| field.number);
        found.ok().map(|index| &self.fields[index])
    }
}

pub(super) struct FieldPlan {
    pub(super) number: u32,
    /// The tag that the canonical encoding writes: number and wire type in one.
    pub(super) tag: u64,
    /// The field's place in the canonical order. The members of one oneof share a rank: only one of them is written.
    pub(super) rank: u32,
    pub(super) shape: Shape,
}

impl FieldPlan {
    fn new(number: u32, rank: u32, shape: Shape) -> Self {
        Self { number, tag: Tag::new(number, shape.wire()).encoded(), rank, shape }
    }

    /// The other wire type in which the field may arrive: a packable list, packed or not as the schema does not say.
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
    /// The wire type in which the canonical encoding writes the field.
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
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    /// Written when set.
    Explicit,
    /// Written when it is not the default.
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

/// A scalar type, as far as its encoding tells it from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Bool,
    /// bytes, and the strings of proto2, which protobuf-go takes as they are.
    Bytes,
    /// fixed32, float
    Fixed32,
    /// fixed64, double
    Fixed64,
    /// int32, enums
    Int32,
    Int64,
    /// float in a map or an extension, where protobuf-go makes a signalling NaN a quiet one.
    QuietFloat,
    Sfixed32,
    Sfixed64,
    Sint32,
    Sint64,
    /// The strings of proto3.
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

    /// What protobuf-go would write after it read this number: narrower types drop the bits that they do not have.
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

    /// A number that sorts as the map key does whose encoding (varint, or fixed) is `raw`.
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
struct Compiler {
    ids: HashMap<String, MessageId>,
    queue: Vec<MessageDescriptor>,
    messages: Vec<MessagePlan>,
}

impl Compiler {
    fn message(&mut self, descriptor: &MessageDescriptor) -> MessageId {
        let next = MessageId(self.queue.len());
        let id = *self.ids.entry(descriptor.full_name().to_owned()).or_insert(next);
        if id == next {
            self.queue.push(descriptor.clone());
        }
        id
    }

    fn plan(&mut self, descriptor: &MessageDescriptor) -> MessagePlan {
        let mut extensions: Vec<_> = descriptor.extensions().collect();
        extensions.sort_by_key(ExtensionDescriptor::number);
        let mut ordinary: Vec<_> = descriptor.fields().filter(|field| !in_real_oneof(field)).collect();
        ordinary.sort_by_key(FieldDescriptor::number);
        let oneofs = descriptor.oneofs().filter(|oneof| !oneof.is_synthetic());

        let mut fields = Vec::new();
        let mut rank = 0;
        for extension in &extensions {
            let shape = self.extension_shape(extension);
            fields.push(FieldPlan::new(extension.number(), rank, shape));
            rank += 1;
        }
        for field in &ordinary {
            let shape = self.shape(field);
            fields.push(FieldPlan::new(field.number(), rank, shape));
            rank += 1;
        }
        for oneof in oneofs {
            for field in oneof.fields() {
                let shape = self.shape(&field);
                fields.push(FieldPlan::new(field.number(), rank, shape));
            }
            rank += 1;
        }

        fields.sort_by_key(|field| field.number);
        let dense = fields.iter().zip(1..).all(|(field, number)| field.number == number);
        MessagePlan { fields, dense }
    }

    fn shape(&mut self, field: &FieldDescriptor) -> Shape {
        if let Kind::Message(entry) = field.kind()
            && field.is_map()
        {
            let key = entry.map_entry_key_field();
            let value = entry.map_entry_value_field();
            return Shape::Map(MapPlan {
                key: scalar(&key.kind(), key.parent_file().syntax()),
                value: quiet(&value.kind(), self.value(&value.kind(), false, value.parent_file().syntax())),
            });
        }
        let value = self.value(&field.kind(), field.is_group(), field.parent_file().syntax());
        if !field.is_list() {
            return Shape::Singular(value, presence(field.supports_presence()));
        }
        list(value, packed(&field.options(), field.is_packed()))
    }

    fn extension_shape(&mut self, extension: &ExtensionDescriptor) -> Shape {
        let kind = extension.kind();
        let value = quiet(&kind, self.value(&kind, extension.is_group(), extension.parent_file().syntax()));
        if !extension.is_list() {
            return Shape::Singular(value, presence(extension.supports_presence()));
        }
        list(value, packed(&extension.options(), extension.is_packed()))
    }

    fn value(&mut self, kind: &Kind, group: bool, syntax: Syntax) -> Value {
        match kind {
            Kind::Message(message) if group => Value::Group(self.message(message)),
            Kind::Message(message) => Value::Message(self.message(message)),
            kind => Value::Scalar(scalar(kind, syntax)),
        }
    }
}

fn in_real_oneof(field: &FieldDescriptor) -> bool {
    field.containing_oneof().is_some_and(|oneof| !oneof.is_synthetic())
}

fn list(value: Value, packed: bool) -> Shape {
    match value {
        Value::Scalar(scalar) if packed => Shape::Packed(scalar),
        value => Shape::Repeated(value),
    }
}

/// Whether a list is packed. A pool that protox compiled knows so only from the option itself.
fn packed(options: &DynamicMessage, default: bool) -> bool {
    match options.get_field_by_name("packed") {
        Some(packed) if options.has_field_by_name("packed") => packed.as_bool().unwrap_or(default),
        _ => default,
    }
}

/// The value as it is in a map or an extension.
fn quiet(kind: &Kind, value: Value) -> Value {
    if *kind == Kind::Float { Value::Scalar(Scalar::QuietFloat) } else { value }
}

fn presence(explicit: bool) -> Presence {
    if explicit { Presence::Explicit } else { Presence::Implicit }
}

fn scalar(kind: &Kind, syntax: Syntax) -> Scalar {
    match kind {
        Kind::Bool => Scalar::Bool,
        // A map's key is never a message, and nothing else asks for the scalar of one.
        Kind::Bytes | Kind::Message(_) => Scalar::Bytes,
        Kind::Double | Kind::Fixed64 => Scalar::Fixed64,
        Kind::Enum(_) | Kind::Int32 => Scalar::Int32,
        Kind::Fixed32 | Kind::Float => Scalar::Fixed32,
        Kind::Int64 => Scalar::Int64,
        Kind::Sfixed32 => Scalar::Sfixed32,
        Kind::Sfixed64 => Scalar::Sfixed64,
        Kind::Sint32 => Scalar::Sint32,
        Kind::Sint64 => Scalar::Sint64,
        Kind::String if syntax == Syntax::Proto2 => Scalar::Bytes,
        Kind::String => Scalar::String,
        Kind::Uint32 => Scalar::Uint32,
        Kind::Uint64 => Scalar::Uint64,
    }
}
