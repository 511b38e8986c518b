//! [`Release`].

use super::{
    super::{
        driver::{Connection, DriverError, Value},
        sql::Sql,
    },
    kind::{Kind, Until},
    reservations::{BYTES, Reservations},
};
use crate::store::Reservation;

/// Deletes reservations. One that is not held, was taken over or is unknown goes alone: it is not deleted.
pub(in crate::store::sql) struct Release;

impl Kind for Release {
    const WRITES: bool = true;

    type Item = Reservation;
    type Answer = ();

    fn may_share(_: &Reservation, _: &Reservation) -> bool {
        true
    }

    fn reservation(reservation: &Reservation) -> &Reservation {
        reservation
    }

    fn bytes(_: &Reservation) -> usize {
        BYTES
    }

    async fn run<C: Connection>(
        connection: &mut C,
        sql: &Sql,
        _: Until<'_>,
        reservations: &[&Reservation],
    ) -> Result<Vec<Option<()>>, DriverError> {
        let reservations: Reservations = reservations.iter().copied().collect();
        let parameters =
            [Value::Uuids(&reservations.owners), Value::Uuids(&reservations.keys), Value::Uuids(&reservations.tokens)];
        reservations.change(connection, &sql.release_many, &parameters).await
    }
}
