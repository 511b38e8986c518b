//! Converts rows into values. A value that this version does not know is an error, never a default.

use std::time::Duration;

use protobuf_canonical::{RequestHash, RequestHashes};

use crate::{
    caller::OwnerId,
    key::KeyId,
    status::{OutboxStatus, ResourceId},
    store::{
        AbandonedKey, Claim, ClaimOutcome, Replay, StatusError, StoreError, StoreErrorKind, StoredMessage,
        StoredResponse,
        sql::driver::{Connection, ConnectionPool, DriverError, FromValue, Row},
    },
};

/// A row of a driver.
pub(in crate::store::sql) type RowOf<D> = <<D as ConnectionPool>::Connection as Connection>::Row;

/// Returns the only row of a statement. Any other number of rows is another statement's answer, from a pooler that mixes answers up. The
/// statement's own answer is lost then: it would be taken for that of the next.
pub(in crate::store::sql) fn only_row<R>(rows: Vec<R>) -> Result<R, DriverError> {
    match <[R; 1]>::try_from(rows) {
        Ok([row]) => Ok(row),
        Err(rows) => {
            Err(DriverError::unanswered(format!("the answer to another statement: it has {} rows", rows.len())))
        }
    }
}

/// Converts the row of `tenant.idempotency_claim` or `tenant.idempotency_begin` into the outcome of the claim.
/// `with_status` says whether the status was asked for.
pub(in crate::store::sql) fn claim_outcome(
    claim: &Claim,
    row: &impl Row,
    with_status: bool,
) -> Result<ClaimOutcome, StoreError> {
    let state: &str = column(row, "state")?;
    match state {
        "acquired" => return Ok(ClaimOutcome::Acquired),
        "running" => return in_flight(row),
        "taken_over" => return Ok(ClaimOutcome::TakenOver),
        _ => {}
    }
    let recorded = request_hashes(row, "recorded_hash", "recorded_arrival")?;
    if let Some(mismatch) = claim.mismatch(column(row, "recorded_procedure")?, recorded.as_ref()) {
        return Ok(ClaimOutcome::Mismatch(mismatch));
    }
    match state {
        "abandoned" | "unknown" => Ok(ClaimOutcome::OutcomeUnknown),
        "completed" => {
            let message: &[u8] = column(row, "response")?;
            let metadata: Option<&[u8]> = column(row, "metadata")?;
            let metadata = metadata.map(|metadata| metadata.to_vec().into());
            let response = StoredResponse::Message(StoredMessage { message: message.to_vec().into(), metadata });
            success(claim, row, response, with_status)
        }
        "failed" => {
            let error: &[u8] = column(row, "error")?;
            replay(row, StoredResponse::Error(error.to_vec().into())).map(ClaimOutcome::Replay)
        }
        "reserved" => in_flight(row),
        "not_stored" => {
            let envelope: Option<&[u8]> = column(row, "metadata")?;
            let sealed = |envelope: &[u8]| StoredResponse::Sealed(envelope.to_vec().into());
            success(claim, row, envelope.map_or(StoredResponse::NotStored, sealed), with_status)
        }
        other => Err(corrupt(format!("unknown state of a record: {other:?}"))),
    }
}

fn in_flight(row: &impl Row) -> Result<ClaimOutcome, StoreError> {
    Ok(ClaimOutcome::InFlight { lease_left: milliseconds(column(row, "lease_left_ms")?) })
}

/// The replay of a call that succeeded: with the status of what it has created, if that was asked for.
fn success(
    claim: &Claim,
    row: &impl Row,
    response: StoredResponse,
    with_status: bool,
) -> Result<ClaimOutcome, StoreError> {
    let mut replay = replay(row, response)?;
    if claim.resource_type.is_some() && replay.resource.is_some() && !with_status {
        replay.status = Err(StatusError::TimedOut);
    }
    Ok(ClaimOutcome::Replay(replay))
}

fn replay(row: &impl Row, response: StoredResponse) -> Result<Replay, StoreError> {
    let status = StatusColumns::read(row)?.parse();
    let expires_in = milliseconds(column(row, "expires_in_ms")?);
    let resource = column::<Option<&str>>(row, "resource")?.map(ResourceId::from_text).transpose().map_err(corrupt)?;
    Ok(Replay { response, resource, status, expires_in })
}

/// The columns with the status of the created resource.
pub(in crate::store::sql) struct StatusColumns<'a> {
    status: Option<&'a str>,
    /// The code of the error that kept the database from it.
    error: Option<&'a str>,
}

impl<'a> StatusColumns<'a> {
    pub(in crate::store::sql) fn read(row: &'a impl Row) -> Result<Self, StoreError> {
        Ok(Self { status: column(row, "status")?, error: column(row, "status_error")? })
    }

    pub(in crate::store::sql) fn parse(self) -> Result<Option<OutboxStatus>, StatusError> {
        match self.error {
            Some(code) => Err(StatusError::Lookup(code.to_owned())),
            None => self.status.map(parse_status).transpose(),
        }
    }
}

pub(in crate::store::sql) fn abandoned_key(row: &impl Row) -> Result<AbandonedKey, StoreError> {
    let request = request_hashes(row, "request_hash", "arrival_hash")?;
    Ok(AbandonedKey {
        owner: OwnerId::new(column(row, "user_id")?),
        key: KeyId::new(column(row, "idempotency_key")?),
        procedure: column::<&str>(row, "procedure")?.to_owned(),
        request: request.ok_or_else(|| corrupt("a request hash is not of 32 bytes"))?,
    })
}

/// Returns the hashes of a recorded request; `None` if another system made them in another way.
fn request_hashes(row: &impl Row, canonical: &str, as_arrived: &str) -> Result<Option<RequestHashes>, StoreError> {
    let (canonical, as_arrived): (&[u8], Option<&[u8]>) = (column(row, canonical)?, column(row, as_arrived)?);
    let Ok(canonical) = RequestHash::try_from(canonical) else { return Ok(None) };
    let as_arrived = as_arrived.map(RequestHash::try_from).transpose().map_err(corrupt)?;
    Ok(Some(RequestHashes::new(canonical, as_arrived)))
}

/// Converts the time left; zero if it is over.
fn milliseconds(left: i64) -> Duration {
    Duration::from_millis(left.max(0).unsigned_abs())
}

pub(in crate::store::sql) fn parse_status(status: &str) -> Result<OutboxStatus, StatusError> {
    status.parse().map_err(StatusError::Unknown)
}

pub(in crate::store::sql) fn column<'a, T: FromValue<'a>>(row: &'a impl Row, name: &str) -> Result<T, StoreError> {
    let value = row.value(name).map_err(corrupt)?;
    T::from_value(value).ok_or_else(|| corrupt(format!("the column {name} is not as expected: {value:?}")))
}

pub(in crate::store::sql) fn corrupt(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, error)
}
