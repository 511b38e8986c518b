//! Batches the claims and the records of calls.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    complete::{CompletionParameters, UnrecordedOutcome},
    kind::{Kind, Until},
    reservations::have_equal_settings,
    reserve::{self, ReservationParameters},
};
use crate::store::{
    Claim, Reservation,
    sql::{
        connections::clock,
        driver::{Connection, DriverError, Statement, Value},
        statements::{Sql, only_row},
    },
};

/// Reserves keys that have no row, and records outcomes: the first and the last write of nearly every call. One statement and one COMMIT
/// for both cost less than one for each.
pub(in crate::store::sql) struct Write;

/// The write of a call.
#[derive(Debug)]
pub(in crate::store::sql) enum WriteRequest {
    Claim(Arc<Claim>),
    Outcome(Box<UnrecordedOutcome>),
}

impl Kind for Write {
    const WRITES: bool = true;

    type Item = WriteRequest;
    type Answer = ();

    fn may_share(one: &WriteRequest, other: &WriteRequest) -> bool {
        match (one, other) {
            (WriteRequest::Claim(one), WriteRequest::Claim(other)) => have_equal_settings(one, other),
            _ => true,
        }
    }

    fn reservation(writing: &WriteRequest) -> &Reservation {
        match writing {
            WriteRequest::Claim(claim) => &claim.reservation,
            WriteRequest::Outcome(recording) => &recording.reservation,
        }
    }

    fn bytes(writing: &WriteRequest) -> usize {
        match writing {
            WriteRequest::Claim(claim) => reserve::bytes(claim),
            WriteRequest::Outcome(recording) => recording.bytes(),
        }
    }

    async fn run<C: Connection>(
        connection: &mut C,
        sql: &Sql,
        (server_clock, until): Until<'_>,
        writings: &[&WriteRequest],
    ) -> Result<Vec<Option<()>>, DriverError> {
        let (mut claims, mut recordings) = (Vec::new(), Vec::new());
        for writing in writings {
            match writing {
                WriteRequest::Claim(claim) => claims.push(&**claim),
                WriteRequest::Outcome(recording) => recordings.push(&**recording),
            }
        }
        let (reserving, completing) = (ReservationParameters::new(&claims), CompletionParameters::new(&recordings));
        let until = clock::shows_at(server_clock, until, connection).await?;
        let parameters: Vec<Value<'_>> =
            [&reserving.parameters()[..], &[until.into()], &completing.parameters()].concat();
        let sent = Instant::now();
        let statement = Statement { sql: &sql.write_many, parameters: &parameters };
        let row = connection.query(statement).await.and_then(only_row)?;
        clock::read(server_clock, sent, &row, "clock");
        let mut reserved = reserving.reservations.changed(&row, "reserved")?.into_iter();
        let mut completed = completing.reservations.changed(&row, "completed")?.into_iter();
        let written = writings.iter().map(|writing| match writing {
            WriteRequest::Claim(_) => reserved.next().flatten(),
            WriteRequest::Outcome(_) => completed.next().flatten(),
        });
        Ok(written.collect())
    }
}
