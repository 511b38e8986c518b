//! The record that a transaction writes before its COMMIT.

use std::{borrow::Cow, sync::Arc};

use uuid::{NoContext, Timestamp, Uuid};

use crate::store::{
    Claim, Completion, ResourceTypes,
    sql::{
        calls::AdmittedCall,
        driver::{Connection, DriverError, Statement, Value},
        statements::{
            Columns, Sql, arrival_hash, on_foreign_reservation, on_lease_ended, request_hash, resource_column,
        },
    },
};

/// The claim that the transaction holds, and the resource types for its record.
#[derive(Debug)]
pub(super) struct ClaimedKey {
    pub(super) claim: Claim,
    pub(super) resource_types: Arc<ResourceTypes>,
    /// Whether the key had no record, so that one can be inserted.
    pub(super) was_free: bool,
    /// The record counts as one in flight until the transaction has ended.
    pub(super) _admitted: AdmittedCall,
}

impl ClaimedKey {
    /// Returns the column of the resource that the procedure creates.
    fn resource_column(&self) -> Option<&str> {
        Some(self.resource_types.get(self.claim.resource_type.as_ref()?)?.column())
    }
}

/// The record of a claim's outcome.
pub(super) struct Record<'a> {
    claimed: &'a ClaimedKey,
    outcome: Columns<'a>,
    retention: f64,
    resource: Option<(&'a str, Cow<'a, str>)>,
    id: Uuid,
}

impl<'a> Record<'a> {
    pub(super) fn new(claimed: &'a ClaimedKey, completion: &'a Completion) -> Self {
        Self {
            claimed,
            outcome: Columns::of(&completion.response),
            retention: completion.retention.as_secs_f64(),
            resource: resource_column(&claimed.resource_types, completion),
            // Without the counter that all of a process share: the ids of a simulated run depend only on its seed.
            id: Uuid::new_v7(Timestamp::now(NoContext)),
        }
    }

    /// Writes it and commits, in one round trip if the driver can: with a plain INSERT if the key was free, and otherwise with
    /// `tenant.idempotency_commit`, which may replace the record that was found.
    pub(super) async fn commit<C: Connection>(
        &self,
        connection: &mut C,
        sql: &Sql,
        roll_back: Option<&str>,
    ) -> Result<(), DriverError> {
        let resource = self.resource.as_ref().map(|(_, id)| &**id);
        let Claim { reservation, procedure, request, lease, .. } = &self.claimed.claim;
        let (owner, key) = (*reservation.owner.as_uuid(), *reservation.key.as_uuid());
        let Columns { response, not_stored, error, metadata } = self.outcome;
        if self.claimed.was_free {
            // Also without a resource, so that a procedure has one statement.
            let column = self.resource.as_ref().map(|(column, _)| *column).or_else(|| self.claimed.resource_column());
            let parameters: &[Value<'_>] = &[
                self.id.into(),
                key.into(),
                owner.into(),
                reservation.token.into(),
                procedure.as_str().into(),
                request_hash(request).into(),
                arrival_hash(request).into(),
                response.into(),
                not_stored.into(),
                error.into(),
                metadata.into(),
                self.retention.into(),
                resource.into(),
            ];
            let parameters = if column.is_some() { parameters } else { &parameters[..parameters.len() - 1] };
            return connection.commit(roll_back, Some(Statement { sql: sql.record(column), parameters })).await;
        }
        let column = self.resource.as_ref().map(|(column, _)| *column);
        let parameters = &[
            owner.into(),
            key.into(),
            reservation.token.into(),
            procedure.as_str().into(),
            request_hash(request).into(),
            arrival_hash(request).into(),
            lease.as_secs_f64().into(),
            on_lease_ended(&self.claimed.claim).into(),
            on_foreign_reservation(&self.claimed.claim).into(),
            response.into(),
            not_stored.into(),
            error.into(),
            metadata.into(),
            self.retention.into(),
            column.into(),
            resource.into(),
            self.id.into(),
        ];
        connection.commit(roll_back, Some(Statement { sql: &sql.commit, parameters })).await
    }
}
