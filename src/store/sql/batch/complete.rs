//! Converts the outcomes of a batch into parameters.

use super::reservations::{BYTES, Reservations};
use crate::store::{
    Completion, Reservation, ResourceTypes,
    sql::{
        driver::Value,
        statements::{Columns, resource_column},
    },
};

/// An outcome that is to be recorded.
#[derive(Debug)]
pub(in crate::store::sql) struct UnrecordedOutcome {
    pub(super) reservation: Reservation,
    completion: Completion,
    /// The column of the created resource, and its id.
    resource: Option<(String, String)>,
}

impl UnrecordedOutcome {
    pub(in crate::store::sql) fn new(types: &ResourceTypes, reservation: Reservation, completion: Completion) -> Self {
        let resource = resource_column(types, &completion).map(|(column, id)| (column.to_owned(), id.into_owned()));
        Self { reservation, completion, resource }
    }

    /// The bytes of its parameters.
    pub(super) fn bytes(&self) -> usize {
        let columns = Columns::of(&self.completion.response);
        let bytes = [columns.response, columns.error, columns.metadata].into_iter().flatten().map(<[u8]>::len);
        let resource = self.resource.as_ref().map_or(0, |(column, id)| column.len() + id.len());
        BYTES + bytes.sum::<usize>() + resource + size_of::<f64>()
    }
}

/// Outcomes that are to be recorded, as the parameters of a statement. A reservation that is not held, or has an outcome, is sent alone, as
/// is a resource of a type that the database does not know.
pub(super) struct CompletionParameters<'a> {
    pub(super) reservations: Reservations,
    responses: Vec<Option<&'a [u8]>>,
    not_stored: Vec<bool>,
    errors: Vec<Option<&'a [u8]>>,
    metadata: Vec<Option<&'a [u8]>>,
    retentions: Vec<f64>,
    resource_columns: Vec<Option<&'a str>>,
    resources: Vec<Option<&'a str>>,
}

impl<'a> CompletionParameters<'a> {
    pub(super) fn new(recordings: &[&'a UnrecordedOutcome]) -> Self {
        let columns: Vec<_> = recordings.iter().map(|it| Columns::of(&it.completion.response)).collect();
        let resources = recordings.iter().map(|it| it.resource.as_ref());
        Self {
            reservations: recordings.iter().map(|it| &it.reservation).collect(),
            responses: columns.iter().map(|it| it.response).collect(),
            not_stored: columns.iter().map(|it| it.not_stored).collect(),
            errors: columns.iter().map(|it| it.error).collect(),
            metadata: columns.iter().map(|it| it.metadata).collect(),
            retentions: recordings.iter().map(|it| it.completion.retention.as_secs_f64()).collect(),
            resource_columns: resources.clone().map(|it| it.map(|(column, _)| column.as_str())).collect(),
            resources: resources.map(|it| it.map(|(_, id)| id.as_str())).collect(),
        }
    }

    pub(super) fn parameters(&self) -> [Value<'_>; 10] {
        let Reservations { owners, keys, tokens } = &self.reservations;
        [
            Value::Uuids(owners),
            Value::Uuids(keys),
            Value::Uuids(tokens),
            Value::OptionalBytes(&self.responses),
            Value::Bools(&self.not_stored),
            Value::OptionalBytes(&self.errors),
            Value::OptionalBytes(&self.metadata),
            Value::Doubles(&self.retentions),
            Value::OptionalTexts(&self.resource_columns),
            Value::OptionalTexts(&self.resources),
        ]
    }
}
