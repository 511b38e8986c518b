//! The fields of a request that are not compared.

use prost_reflect::{FieldDescriptor, MessageDescriptor};

use super::{ProcedureError, field};

/// The fields of a request that are not compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct IgnoredFields {
    paths: Vec<String>,
    /// The numbers of the fields along each path.
    numbers: Vec<Vec<u32>>,
}

impl IgnoredFields {
    pub(super) fn resolve(
        procedure: &str,
        request: &MessageDescriptor,
        paths: Vec<String>,
    ) -> Result<Self, ProcedureError> {
        let fields = field::find_all(procedure, "ignore", request, &paths)?;
        let numbers: Vec<Vec<_>> =
            fields.iter().map(|path| path.iter().map(FieldDescriptor::number).collect()).collect();
        if !paths.is_empty() && is_ignored(request, &numbers.iter().map(Vec::as_slice).collect::<Vec<_>>()) {
            return Err(ProcedureError::AllIgnored { procedure: procedure.to_owned() });
        }
        Ok(Self { paths, numbers })
    }

    pub(super) fn paths(&self) -> &[String] {
        &self.paths
    }

    pub(super) fn numbers(&self) -> &[Vec<u32>] {
        &self.numbers
    }
}

/// Returns whether nothing of a message is left to compare without the fields at these paths, which do not cross each other.
/// The presence of a submessage counts as nothing; the elements of a list and the keys of a map count as something.
fn is_ignored(message: &MessageDescriptor, paths: &[&[u32]]) -> bool {
    message.fields().all(|field| {
        let inside: Vec<_> = paths.iter().filter_map(|path| path.strip_prefix(&[field.number()])).collect();
        let kind = field.kind();
        match kind.as_message() {
            _ if inside.contains(&[].as_slice()) => true,
            Some(message) if !inside.is_empty() => !field.is_list() && !field.is_map() && is_ignored(message, &inside),
            _ => false,
        }
    })
}
