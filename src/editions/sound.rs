//! The checks for what prost-reflect would panic on. No compiler writes such descriptors.

use std::collections::HashSet;

use prost_reflect::{DescriptorPool, FieldDescriptor};

use super::{
    descriptor::{Field, FileDescriptorSet, Label, Message, Type, full_name},
    error::DescriptorsError,
};

/// The messages of `descriptor.proto` that prost-reflect decodes twice: by the descriptor in the set, and as they are in its own
/// version of the file.
const OPTIONS: [&str; 9] = [
    "google.protobuf.EnumOptions",
    "google.protobuf.EnumValueOptions",
    "google.protobuf.ExtensionRangeOptions",
    "google.protobuf.FieldOptions",
    "google.protobuf.FileOptions",
    "google.protobuf.MessageOptions",
    "google.protobuf.MethodOptions",
    "google.protobuf.OneofOptions",
    "google.protobuf.ServiceOptions",
];

/// The lowest number of an extension of [`OPTIONS`].
const FIRST_EXTENSION: i32 = 1000;

/// Checks a set before prost-reflect gets it.
pub(super) fn check(set: &FileDescriptorSet) -> Result<(), DescriptorsError> {
    for file in &set.file {
        let check = |result: Result<(), String>| result.map_err(|why| DescriptorsError::broken(file.name(), why));
        for message in &file.message_type {
            check(check_message(message, &full_name(file.package(), message.name())))?;
        }
        for extension in &file.extension {
            check(check_field(extension))?;
        }
    }
    Ok(())
}

/// Checks that no two extensions of a message have the same number.
pub(super) fn check_extensions(pool: &DescriptorPool) -> Result<(), DescriptorsError> {
    for message in pool.all_messages() {
        let mut numbers = HashSet::new();
        for extension in message.extensions() {
            if !numbers.insert(extension.number()) {
                let why =
                    format!("{}: {} has two extensions with this number", extension.full_name(), message.full_name());
                return Err(DescriptorsError::broken(extension.parent_file().name(), why));
            }
        }
    }
    Ok(())
}

/// Checks a message with the full name `scope`, and the messages in it.
fn check_message(message: &Message, scope: &str) -> Result<(), String> {
    if message.is_map_entry() && !is_sound_entry(message) {
        return Err(format!("{scope}: the entry of a map has exactly a key and a value"));
    }
    if OPTIONS.contains(&scope) {
        check_options(message, scope)?;
    }
    message.field.iter().chain(&message.extension).try_for_each(check_field)?;
    message.nested_type.iter().try_for_each(|nested| check_message(nested, &full_name(scope, nested.name())))
}

/// Returns whether a map entry has the two fields that prost-reflect relies on without checking.
fn is_sound_entry(entry: &Message) -> bool {
    let [key, value] = &entry.field[..] else { return false };
    let is_single = |field: &Field| field.label() == Label::Optional && field.oneof_index.is_none();
    let is_key = |field: &Field| {
        let is_text_or_integer = !matches!(
            field.r#type(),
            Type::Bytes | Type::Double | Type::Enum | Type::Float | Type::Group | Type::Message
        );
        field.number() == 1 && is_text_or_integer && field.type_name().is_empty()
    };
    is_single(key) && is_single(value) && is_key(key) && value.number() == 2
}

/// Checks that the options in the set have the types that prost-reflect knows for them.
fn check_options(options: &Message, name: &str) -> Result<(), String> {
    let known = DescriptorPool::global().get_message_by_name(name);
    let is_as_known = |field: &Field| {
        let number = field.number().unsigned_abs();
        let known = known.as_ref().and_then(|known| known.get_field(number));
        known.is_none_or(|known| has_type_of(field, &known))
    };
    match options.field.iter().find(|field| !is_as_known(field)) {
        None => Ok(()),
        Some(field) => Err(format!("{name}.{}: not of the type that it has in descriptor.proto", field.name())),
    }
}

fn has_type_of(field: &Field, known: &FieldDescriptor) -> bool {
    let known = known.field_descriptor_proto();
    field.label == known.label && field.r#type == known.r#type && field.type_name() == known.type_name()
}

fn check_field(field: &Field) -> Result<(), String> {
    if !is_sound_default(field) {
        return Err(format!("{}: the default value of bytes is malformed", field.name()));
    }
    let extendee = field.extendee();
    let extends_options = OPTIONS.iter().any(|name| match extendee.strip_prefix('.') {
        Some(full_name) => full_name == *name,
        None => extendee.rsplit('.').next() == name.rsplit('.').next(),
    });
    if extends_options && field.number() < FIRST_EXTENSION {
        return Err(format!("{}: {extendee} has no extensions with this number", field.name()));
    }
    Ok(())
}

/// Returns whether prost-reflect can parse the default value: it slices escape sequences without checking them.
fn is_sound_default(field: &Field) -> bool {
    if field.r#type() != Type::Bytes {
        return true;
    }
    let octal = |byte: &&u8| matches!(byte, b'0'..=b'7');
    let mut rest = field.default_value().as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if !first.is_ascii() {
            return false;
        }
        if *first == b'\\' {
            let digits = rest.iter().take(3).take_while(octal).count();
            if digits == 3 && rest[0] > b'3' {
                return false;
            }
            rest = rest.get(digits.max(1)..).unwrap_or_default();
        }
    }
    true
}
