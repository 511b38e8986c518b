//! [`Extend`].

use std::time::Duration;

use super::{
    super::{
        driver::{Connection, DriverError, Value},
        sql::Sql,
    },
    kind::{Kind, Until},
    reservations::{BYTES, Reservations},
};
use crate::store::Reservation;

/// Renews leases. A reservation that is not held goes alone.
pub(in crate::store::sql) struct Extend;

/// A lease that is to be renewed.
#[derive(Debug)]
pub(in crate::store::sql) struct Renewal {
    pub(in crate::store::sql) reservation: Reservation,
    pub(in crate::store::sql) lease: Duration,
}

impl Kind for Extend {
    const WRITES: bool = true;

    type Item = Renewal;
    type Answer = ();

    fn may_share(_: &Renewal, _: &Renewal) -> bool {
        true
    }

    fn reservation(renewal: &Renewal) -> &Reservation {
        &renewal.reservation
    }

    fn bytes(_: &Renewal) -> usize {
        BYTES + size_of::<f64>()
    }

    async fn run<C: Connection>(
        connection: &mut C,
        sql: &Sql,
        _: Until<'_>,
        renewals: &[&Renewal],
    ) -> Result<Vec<Option<()>>, DriverError> {
        let reservations: Reservations = renewals.iter().map(|it| &it.reservation).collect();
        let leases: Vec<_> = renewals.iter().map(|it| it.lease.as_secs_f64()).collect();
        let parameters = [
            Value::Uuids(&reservations.owners),
            Value::Uuids(&reservations.keys),
            Value::Uuids(&reservations.tokens),
            Value::Doubles(&leases),
        ];
        reservations.change(connection, &sql.extend_many, &parameters).await
    }
}
