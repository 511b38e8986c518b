//! Batches the claims and the records of calls.

use std::sync::Arc;

use tokio::time::Instant;

use super::{
    super::{
        clock,
        driver::{Connection, DriverError, Statement, Value},
        row::only_row,
        sql::Sql,
    },
    complete::{Completing, Recording},
    kind::{Kind, Until},
    reservations::have_equal_settings,
    reserve::{self, Reserving},
};
use crate::store::{Claim, Reservation};

/// Reserves keys that have no row, and records outcomes: the first and the last write of nearly every call. One statement and one COMMIT
/// for both cost less than one for each.
pub(in crate::store::sql) struct Write;

/// The write of a call.
#[derive(Debug)]
pub(in crate::store::sql) enum Writing {
    Claim(Arc<Claim>),
    Recording(Box<Recording>),
}

impl Kind for Write {
    const WRITES: bool = true;

    type Item = Writing;
    type Answer = ();

    fn may_share(one: &Writing, other: &Writing) -> bool {
        match (one, other) {
            (Writing::Claim(one), Writing::Claim(other)) => have_equal_settings(one, other),
            _ => true,
        }
    }

    fn reservation(writing: &Writing) -> &Reservation {
        match writing {
            Writing::Claim(claim) => &claim.reservation,
            Writing::Recording(recording) => &recording.reservation,
        }
    }

    fn bytes(writing: &Writing) -> usize {
        match writing {
            Writing::Claim(claim) => reserve::bytes(claim),
            Writing::Recording(recording) => recording.bytes(),
        }
    }

    async fn run<C: Connection>(
        connection: &mut C,
        sql: &Sql,
        (server_clock, until): Until<'_>,
        writings: &[&Writing],
    ) -> Result<Vec<Option<()>>, DriverError> {
        let (mut claims, mut recordings) = (Vec::new(), Vec::new());
        for writing in writings {
            match writing {
                Writing::Claim(claim) => claims.push(&**claim),
                Writing::Recording(recording) => recordings.push(&**recording),
            }
        }
        let (reserving, completing) = (Reserving::new(&claims), Completing::new(&recordings));
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
            Writing::Claim(_) => reserved.next().flatten(),
            Writing::Recording(_) => completed.next().flatten(),
        });
        Ok(written.collect())
    }
}
