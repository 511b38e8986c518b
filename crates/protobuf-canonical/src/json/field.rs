//! The fields of a message by the names that they have in JSON.

use prost_reflect::{ExtensionDescriptor, FieldDescriptor, Kind, MessageDescriptor};

/// The properties of a field or an extension that the parser needs.
#[derive(Clone)]
pub(super) struct Field {
    pub(super) number: u32,
    pub(super) kind: Kind,
    pub(super) is_group: bool,
    pub(super) is_list: bool,
    pub(super) is_map: bool,
    pub(super) is_packed: bool,
    /// The index of its oneof in the message.
    pub(super) oneof: Option<usize>,
}

impl Field {
    pub(super) fn named(message: &MessageDescriptor, name: &str) -> Option<Self> {
        let field = message.get_field_by_json_name(name).or_else(|| message.get_field_by_name(name));
        let field = field.or_else(|| message.fields().find(|field| is_group_named(field, name)));
        let extension = || message.get_extension_by_json_name(name).map(Self::from);
        field.map(Self::from).or_else(extension)
    }
}

/// Returns whether a field is a group of that name: a group may also be named by its type. A delimited field of an edition counts
/// as one if it could have been declared as one.
fn is_group_named(field: &FieldDescriptor, name: &str) -> bool {
    let Kind::Message(group) = field.kind() else { return false };
    field.is_group()
        && group.name() == name
        && name.to_lowercase() == field.name()
        && group.parent_file() == field.parent_file()
        && group.parent_message().as_ref() == Some(field.parent_message())
}

impl From<FieldDescriptor> for Field {
    fn from(field: FieldDescriptor) -> Self {
        let oneof = field.containing_oneof();
        let siblings = |message: MessageDescriptor| message.oneofs().position(|it| Some(it) == oneof);
        Self {
            number: field.number(),
            kind: field.kind(),
            is_group: field.is_group(),
            is_list: field.is_list(),
            is_map: field.is_map(),
            is_packed: field.is_packed(),
            oneof: siblings(field.parent_message().clone()),
        }
    }
}

impl From<ExtensionDescriptor> for Field {
    fn from(extension: ExtensionDescriptor) -> Self {
        Self {
            number: extension.number(),
            kind: extension.kind(),
            is_group: extension.is_group(),
            is_list: extension.is_list(),
            is_map: extension.is_map(),
            is_packed: extension.is_packed(),
            oneof: None,
        }
    }
}
