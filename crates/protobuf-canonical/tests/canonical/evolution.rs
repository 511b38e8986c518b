//! Random schemas, and changes of a schema that keep its messages readable: those that buf's category WIRE allows.

use prost_reflect::{DescriptorPool, MessageDescriptor};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto, FieldOptions,
    FileDescriptorProto, FileDescriptorSet, MessageOptions, OneofDescriptorProto,
    field_descriptor_proto::{Label, Type},
};
use rand::{RngExt as _, rngs::StdRng, seq::IndexedRandom as _, seq::SliceRandom as _};

/// The types that a field may change between, group by group. A string may become bytes, but not the other way round.
const COMPATIBLE: [&[Type]; 4] = [
    &[Type::Bool, Type::Enum, Type::Int32, Type::Int64, Type::Uint32, Type::Uint64],
    &[Type::Sint32, Type::Sint64],
    &[Type::Fixed32, Type::Sfixed32],
    &[Type::Fixed64, Type::Sfixed64],
];
const OTHERS: [Type; 4] = [Type::Bytes, Type::Double, Type::Float, Type::String];
const KEYS: [Type; 6] = [Type::Bool, Type::Int32, Type::Sint64, Type::Sfixed32, Type::String, Type::Uint64];

/// The largest number of a field.
const NUMBERS: i32 = 24;

/// A schema: its messages, which refer to one another by their indexes. The first is the request.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    messages: Vec<Message>,
}

#[derive(Clone, Debug, Default)]
struct Message {
    /// In order of declaration.
    fields: Vec<Field>,
    /// The ids of the oneofs, in order of declaration.
    oneofs: Vec<u32>,
    /// The numbers of removed fields.
    reserved: Vec<i32>,
}

#[derive(Clone, Debug)]
struct Field {
    number: i32,
    renamed: bool,
    kind: Kind,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Message(usize),
    Scalar(Type),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Explicit,
    Implicit,
    /// A map, or a list of its entries.
    Map {
        key: Type,
        as_list: bool,
    },
    OneofMember(u32),
    Repeated {
        packed: bool,
    },
}

impl Schema {
    pub(crate) fn random(rng: &mut StdRng) -> Self {
        let mut schema = Self { messages: vec![Message::default(); rng.random_range(1..4)] };
        for index in 0..schema.messages.len() {
            for _ in 0..rng.random_range(1..7) {
                schema.add_field(index, rng);
            }
        }
        schema
    }

    /// Returns the schema after one to three changes.
    pub(crate) fn changed(&self, rng: &mut StdRng) -> Self {
        let mut schema = self.clone();
        for _ in 0..rng.random_range(1..4) {
            let index = rng.random_range(0..schema.messages.len());
            schema.change(index, rng);
        }
        schema
    }

    fn change(&mut self, index: usize, rng: &mut StdRng) {
        let fields = self.messages[index].fields.len();
        let any = rng.random_range(0..fields.max(1));
        match rng.random_range(0..10) {
            0..4 => self.add_field(index, rng),
            4 if fields > 1 => {
                let removed = self.messages[index].fields.remove(any);
                self.messages[index].reserved.push(removed.number);
            }
            5 => {
                self.messages[index].fields.shuffle(rng);
                self.messages[index].oneofs.shuffle(rng);
            }
            6 => {
                // A new message, in a new field.
                self.messages.push(Message::default());
                let new = self.messages.len() - 1;
                self.add_field(new, rng);
                if let Some(number) = self.free_number(index, rng) {
                    let field = Field { number, renamed: false, kind: Kind::Message(new), form: Form::Explicit };
                    self.messages[index].fields.push(field);
                }
            }
            _ if fields > 0 => self.messages[index].fields[any].change(rng),
            _ => {}
        }
    }

    fn add_field(&mut self, index: usize, rng: &mut StdRng) {
        let Some(number) = self.free_number(index, rng) else { return };
        let kind = match rng.random_range(0..4) {
            0 => Kind::Message(rng.random_range(0..self.messages.len())),
            1 => Kind::Scalar(*OTHERS.choose(rng).expect("types")),
            _ => Kind::Scalar(*COMPATIBLE.concat().choose(rng).expect("types")),
        };
        let form = match rng.random_range(0..7) {
            0 => Form::Map { key: *KEYS.choose(rng).expect("types"), as_list: false },
            1 => Form::Repeated { packed: rng.random() },
            2..4 => Form::OneofMember(self.oneof(index, rng)),
            4 if matches!(kind, Kind::Scalar(_)) => Form::Implicit,
            _ => Form::Explicit,
        };
        let at = rng.random_range(0..=self.messages[index].fields.len());
        self.messages[index].fields.insert(at, Field { number, renamed: false, kind, form });
    }

    fn free_number(&self, index: usize, rng: &mut StdRng) -> Option<i32> {
        let (number, message) = (rng.random_range(1..=NUMBERS), &self.messages[index]);
        let is_used = message.fields.iter().any(|field| field.number == number) || message.reserved.contains(&number);
        (!is_used).then_some(number)
    }

    /// Returns one of the oneofs, or a new one.
    fn oneof(&mut self, index: usize, rng: &mut StdRng) -> u32 {
        let oneofs = &mut self.messages[index].oneofs;
        if let Some(known) = oneofs.choose(rng)
            && rng.random_bool(0.7)
        {
            return *known;
        }
        let new = oneofs.iter().max().map_or(0, |last| last + 1);
        oneofs.push(new);
        new
    }

    /// Returns the descriptor of the request.
    pub(crate) fn descriptor(&self) -> MessageDescriptor {
        let value = EnumValueDescriptorProto { name: Some("ZERO".to_owned()), number: Some(0), ..Default::default() };
        let file = FileDescriptorProto {
            name: Some("random.proto".to_owned()),
            package: Some("random".to_owned()),
            syntax: Some("proto3".to_owned()),
            message_type: self.messages.iter().enumerate().map(|(index, message)| message.proto(index)).collect(),
            enum_type: vec![EnumDescriptorProto {
                name: Some("Enum".to_owned()),
                value: vec![value],
                ..Default::default()
            }],
            ..Default::default()
        };
        let pool = DescriptorPool::from_file_descriptor_set(FileDescriptorSet { file: vec![file] });
        pool.expect("a valid schema").get_message_by_name("random.M0").expect("the request")
    }
}

impl Field {
    fn change(&mut self, rng: &mut StdRng) {
        match (self.form, rng.random_range(0..4)) {
            (_, 0) => self.renamed = !self.renamed,
            (Form::Explicit, 1) if matches!(self.kind, Kind::Scalar(_)) => self.form = Form::Implicit,
            (Form::Implicit, 1) => self.form = Form::Explicit,
            (Form::Map { key, as_list }, 1) => self.form = Form::Map { key, as_list: !as_list },
            (Form::Map { key, as_list }, 2) => {
                let key = if key == Type::String { key } else { compatible(key, rng) };
                self.form = Form::Map { key: if key == Type::Enum { Type::Int64 } else { key }, as_list };
            }
            (Form::Repeated { packed }, 1) => self.form = Form::Repeated { packed: !packed },
            _ => {
                if let Kind::Scalar(of) = self.kind {
                    self.kind = Kind::Scalar(compatible(of, rng));
                }
            }
        }
    }

    fn name(&self) -> String {
        format!("{}{}", if self.renamed { 'g' } else { 'f' }, self.number)
    }

    fn entry_name(&self) -> String {
        format!("{}{}Entry", if self.renamed { 'G' } else { 'F' }, self.number)
    }

    fn proto(&self, message: &mut DescriptorProto, of: usize) -> FieldDescriptorProto {
        let proto = proto(self.name(), self.number, self.kind);
        match self.form {
            Form::Explicit if matches!(self.kind, Kind::Message(_)) => proto,
            Form::Explicit => {
                let name = Some(format!("_{}", self.name()));
                message.oneof_decl.push(OneofDescriptorProto { name, ..Default::default() });
                let oneof_index = i32::try_from(message.oneof_decl.len() - 1).ok();
                FieldDescriptorProto { oneof_index, proto3_optional: Some(true), ..proto }
            }
            Form::Implicit | Form::OneofMember(_) => proto,
            Form::Map { key, as_list } => {
                message.nested_type.push(DescriptorProto {
                    name: Some(self.entry_name()),
                    field: vec![
                        self::proto("key".to_owned(), 1, Kind::Scalar(key)),
                        self::proto("value".to_owned(), 2, self.kind),
                    ],
                    options: Some(MessageOptions { map_entry: Some(!as_list), ..Default::default() }),
                    ..Default::default()
                });
                FieldDescriptorProto {
                    r#type: Some(Type::Message.into()),
                    type_name: Some(format!(".random.M{of}.{}", self.entry_name())),
                    label: Some(Label::Repeated.into()),
                    ..proto
                }
            }
            Form::Repeated { packed } => {
                let is_packable = matches!(self.kind, Kind::Scalar(of) if !matches!(of, Type::String | Type::Bytes));
                let options = is_packable.then(|| FieldOptions { packed: Some(packed), ..Default::default() });
                FieldDescriptorProto { label: Some(Label::Repeated.into()), options, ..proto }
            }
        }
    }
}

impl Message {
    fn proto(&self, index: usize) -> DescriptorProto {
        let used = |oneof: &&u32| self.fields.iter().any(|field| field.form == Form::OneofMember(**oneof));
        let oneofs: Vec<_> = self.oneofs.iter().filter(used).copied().collect();
        let mut message = DescriptorProto { name: Some(format!("M{index}")), ..Default::default() };
        message.oneof_decl = oneofs
            .iter()
            .map(|id| OneofDescriptorProto { name: Some(format!("oneof{id}")), ..Default::default() })
            .collect();
        for field in &self.fields {
            let mut proto = field.proto(&mut message, index);
            if let Form::OneofMember(id) = field.form {
                proto.oneof_index = oneofs.iter().position(|it| *it == id).and_then(|at| i32::try_from(at).ok());
            }
            message.field.push(proto);
        }
        message
    }
}

fn proto(name: String, number: i32, kind: Kind) -> FieldDescriptorProto {
    let (of, type_name) = match kind {
        Kind::Message(index) => (Type::Message, Some(format!(".random.M{index}"))),
        Kind::Scalar(Type::Enum) => (Type::Enum, Some(".random.Enum".to_owned())),
        Kind::Scalar(of) => (of, None),
    };
    FieldDescriptorProto {
        name: Some(name),
        number: Some(number),
        label: Some(Label::Optional.into()),
        r#type: Some(of.into()),
        type_name,
        ..Default::default()
    }
}

/// Returns a type that a field of this type may change to.
fn compatible(of: Type, rng: &mut StdRng) -> Type {
    match COMPATIBLE.iter().find(|group| group.contains(&of)) {
        Some(group) => *group.choose(rng).expect("types"),
        None if of == Type::String => Type::Bytes,
        None => of,
    }
}
