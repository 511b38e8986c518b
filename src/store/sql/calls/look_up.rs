//! The look-up of a key.

use std::time::{Duration, SystemTime};

use crate::{
    status::{Resource, ResourceId},
    store::{
        KeyRecord, KeyState, LookUp, ResourceTypes, StatusError, StoreError,
        sql::{
            connections::Connections,
            driver::{ConnectionPool, Row, Statement},
            operation::{AttemptPlan, StoreOperation},
            statements::{StatusColumns, column, corrupt, settings},
        },
    },
};

/// Asks what became of the call with a key.
pub(in crate::store::sql) async fn look_up<D: ConnectionPool>(
    connections: &Connections<D>,
    types: &ResourceTypes,
    look_up: &LookUp,
) -> Result<KeyRecord, StoreError> {
    let tracked: Vec<_> = types.iter().filter(|it| it.is_tracked()).map(|it| it.name().to_owned()).collect();
    let wanted = look_up.with_status && !tracked.is_empty();
    let operation = &StoreOperation::new(connections).with_status(wanted).leaving_nothing();
    let tracked = tracked.as_slice();
    let ask = |attempt: AttemptPlan| async move {
        let parameters = &[
            (*look_up.owner.as_uuid()).into(),
            (*look_up.key.as_uuid()).into(),
            attempt.with_status.then_some(tracked).into(),
            look_up.session.user.into(),
            settings(&look_up.session).into(),
        ];
        Ok((operation.query_one(attempt, Statement { sql: &connections.sql().look_up, parameters }).await?, attempt))
    };
    let (row, attempt) = operation.run(ask, |_| true).await?;
    let mut record = record(&row)?;
    let is_tracked = record.resource.as_ref().is_some_and(|it| tracked.contains(&it.resource_type));
    if wanted && is_tracked && !attempt.with_status {
        record.status = Err(StatusError::TimedOut);
    }
    Ok(record)
}

/// Converts the row of `tenant.idempotency_look_up`.
fn record(row: &impl Row) -> Result<KeyRecord, StoreError> {
    let resource = match (column::<Option<&str>>(row, "resource_type")?, column::<Option<&str>>(row, "resource")?) {
        (Some(name), Some(id)) => {
            Some(Resource { resource_type: name.to_owned(), id: ResourceId::from_text(id).map_err(corrupt)? })
        }
        _ => None,
    };
    Ok(KeyRecord {
        state: state(column(row, "state")?)?,
        procedure: column::<Option<&str>>(row, "procedure")?.map(str::to_owned),
        created: time(row, "created")?,
        completed: time(row, "completed")?,
        expires: time(row, "expires")?,
        resource,
        status: StatusColumns::read(row)?.parse(),
    })
}

fn state(name: &str) -> Result<KeyState, StoreError> {
    use KeyState::{Absent, Completed, Expired, Failed, Running, Unknown};
    [Absent, Running, Completed, Failed, Unknown, Expired]
        .into_iter()
        .find(|state| state.as_str() == name)
        .ok_or_else(|| corrupt(format!("unknown state of a key: {name:?}")))
}

/// Reads a time in microseconds.
fn time(row: &impl Row, name: &str) -> Result<Option<SystemTime>, StoreError> {
    let since: Option<i64> = column(row, name)?;
    let since = since.map(u64::try_from).transpose().map_err(corrupt)?;
    Ok(since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(since))))
}
