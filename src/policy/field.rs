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

/// Returns the fields along each of the dotted paths of a setting. No path may repeat another, or lead into its field.
pub(super) fn find_all(
    procedure: &str,
    setting: &'static str,
    message: &MessageDescriptor,
    paths: &[String],
) -> Result<Vec<Vec<FieldDescriptor>>, ProcedureError> {
    let found = paths.iter().map(|path| find(procedure, message, path)).collect::<Result<Vec<_>, _>>()?;
    for (index, fields) in found.iter().enumerate() {
        let crossing = found.iter().enumerate().find(|(other, others)| *other != index && fields.starts_with(others));
        if let Some((other, _)) = crossing {
            return Err(ProcedureError::CrossingFields {
                procedure: procedure.to_owned(),
                setting,
                field: paths[index].clone(),
                other: paths[other].clone(),
            });
        }
    }
    Ok(found)
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
