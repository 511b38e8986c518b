//! Finds a field by its dotted path.

use prost_reflect::{FieldDescriptor, MessageDescriptor, MethodDescriptor};

use super::ProcedureError;

/// Returns the fields along a dotted path from the response message; the last one is the field that the path names. A path
/// through a map goes on in its values.
pub(super) fn find(
    procedure: &str,
    method: &MethodDescriptor,
    path: &str,
) -> Result<Vec<FieldDescriptor>, ProcedureError> {
    let mut fields: Vec<FieldDescriptor> = Vec::new();
    for name in path.split('.') {
        let parent = match fields.last() {
            None => Some(method.output()),
            Some(field) => inside(field),
        };
        let field = parent.as_ref().and_then(|parent| parent.get_field_by_name(name));
        fields.push(field.ok_or_else(|| ProcedureError::MissingField {
            procedure: procedure.to_owned(),
            field: path.to_owned(),
            message: match (parent, fields.last()) {
                (Some(parent), _) => parent.full_name().to_owned(),
                (None, Some(field)) => field.full_name().to_owned(),
                (None, None) => method.output().full_name().to_owned(),
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
