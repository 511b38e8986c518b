//! [`Write`].

use std::sync::Arc;

use super::{
    super::{
        driver::{Connection, DriverError, Statement, Value},
        query::only_row,
        sql::Sql,
    },
    complete::{Completing, Recording},
    kind::Kind,
    reservations::have_equal_settings,
    reserve::{self, Reserving},
};
use crate::store::{Claim, Reservation};

/// Reserves keys of which there is no row, and records outcomes: what nearly every call writes, first and last. One statement and one
/// COMMIT for both cost less than one for each.
pub(in crate::store::sql) struct Write;

/// What a call writes.
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
        let parameters: Vec<Value<'_>> = [&reserving.parameters()[..], &completing.parameters()].concat();
        let statement = Statement { sql: &sql.write_many, parameters: &parameters };
        let row = connection.query(statement).await.and_then(only_row)?;
        let mut reserved = reserving.reservations.changed(&row, "reserved")?.into_iter();
        let mut completed = completing.reservations.changed(&row, "completed")?.into_iter();
        let written = writings.iter().map(|writing| match writing {
            Writing::Claim(_) => reserved.next().flatten(),
            Writing::Recording(_) => completed.next().flatten(),
        });
        Ok(written.collect())
    }
}
