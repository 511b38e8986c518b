//! Finds a field by its dotted path.

use prost_reflect::{FieldDescriptor, MessageDescriptor};

use super::ProcedureError;

/// Returns the fields along a dotted path from a message, a procedure's request or response; the last one is the field that
/// the path names. A path through a map goes on in its values.
pub(super) fn find(
    procedure: &str,
    message: &MessageDescriptor,
    path: &str,
) -> Result<Vec<FieldDescriptor>, ProcedureError> {
    let mut fields: Vec<FieldDescriptor> = Vec::new();
    for name in path.split('.') {
        let parent = match fields.last() {
            None => Some(message.clone()),
            Some(field) => inside(field),
        };
        let field = parent.as_ref().and_then(|parent| parent.get_field_by_name(name));
        fields.push(field.ok_or_else(|| ProcedureError::MissingField {
            procedure: procedure.to_owned(),
            field: path.to_owned(),
            message: match (parent, fields.last()) {
                (Some(parent), _) => parent.full_name().to_owned(),
                (None, Some(field)) => field.full_name().to_owned(),
                (None, None) => message.full_name().to_owned(),
            },
        })?);
    }
    Ok(fields)
}

/// Returns the type of the messages in a field; `None` if it holds none.
fn inside(field: &FieldDescriptor) -> Option<MessageDescriptor> {
    let kind = field.kind();
    let message = kind.as_message()?;
    match message.is_map_entry() {
        true => message.map_entry_value_field().kind().as_message().cloned(),
        false => Some(message.clone()),
    }
}
