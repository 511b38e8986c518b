//! Batches the looks at records that claims would find.

use std::sync::Arc;

use uuid::Uuid;

use super::{
    kind::{Kind, Until},
    reservations::{Reservations, claim_bytes, have_equal_settings, settings},
};
use crate::store::{
    Claim, ClaimOutcome, Reservation,
    sql::{
        driver::{Connection, DriverError, Row, Statement, Value},
        statements::{Sql, claim_outcome, column},
    },
};

/// The age in seconds above which a transaction has probably run more than its only statement, even one that waited for a processor.
const AGE: f64 = 0.05;

/// The same, for a call that relies on it that its key has no row: a record that was made since must not be missed. It costs at most a round trip.
const AGE_OF_ABSENCE: f64 = 0.005;

/// Fails in a transaction that was left open on the connection.
const IN_NO_TRANSACTION: &str = "DO $$ BEGIN COMMIT; END $$";

/// Looks up what a claim would find, and changes nothing. It answers only if the claim, whatever its policy, would leave the row as it is:
/// an outcome, a reservation with its lease, another request; or if there is no row. Everything else is sent alone, as is a row that cannot be
/// read.
pub(in crate::store::sql) struct Look;

/// The finding of a look.
#[derive(Debug)]
pub(in crate::store::sql) enum Found {
    /// The key has no row.
    NoRow,
    /// The claim itself would have this outcome, and change nothing.
    Outcome(ClaimOutcome),
}

impl Found {
    pub(in crate::store::sql) fn outcome(self) -> Option<ClaimOutcome> {
        match self {
            Self::NoRow => None,
            Self::Outcome(outcome) => Some(outcome),
        }
    }
}

/// A claim whose key is looked at.
#[derive(Debug)]
pub(in crate::store::sql) struct LookAt {
    pub(in crate::store::sql) claim: Arc<Claim>,
    /// Whether to ask for the status of the created resource.
    pub(in crate::store::sql) with_status: bool,
    /// Whether the call runs its handler if there is no row, without a claim that looks again.
    pub(in crate::store::sql) relies_on_absence: bool,
}

impl LookAt {
    fn resource_type(&self) -> Option<&str> {
        self.claim.resource_type.as_deref().filter(|_| self.with_status)
    }
}

impl Kind for Look {
    const WRITES: bool = false;

    type Item = LookAt;
    type Answer = Found;

    fn may_share(one: &LookAt, other: &LookAt) -> bool {
        have_equal_settings(&one.claim, &other.claim)
    }

    fn reservation(look: &LookAt) -> &Reservation {
        &look.claim.reservation
    }

    fn bytes(look: &LookAt) -> usize {
        claim_bytes(&look.claim) + look.resource_type().map_or(0, str::len)
    }

    async fn run<C: Connection>(
        connection: &mut C,
        sql: &Sql,
        _: Until<'_>,
        looks: &[&LookAt],
    ) -> Result<Vec<Option<Found>>, DriverError> {
        let claims = looks.iter().map(|look| &*look.claim);
        let reservations: Reservations = claims.clone().map(|claim| &claim.reservation).collect();
        let types: Vec<_> = looks.iter().map(|look| look.resource_type()).collect();
        let users: Vec<_> = claims.clone().map(|claim| claim.session.user).collect();
        let settings = settings(claims);
        let parameters = &[
            Value::Uuids(&reservations.owners),
            Value::Uuids(&reservations.keys),
            Value::Uuids(&reservations.tokens),
            Value::OptionalTexts(&types),
            Value::OptionalUuids(&users),
            settings.as_deref().map_or(Value::Texts(None), Value::OptionalTexts),
        ];
        let rows = connection.query(Statement { sql: &sql.look, parameters }).await?;
        let mut answers: Vec<_> = looks.iter().map(|_| None).collect();
        let mut age: f64 = 0.0;
        for row in &rows {
            age = age.max(column(row, "age").map_err(DriverError::unanswered)?);
            let item: i64 = column(row, "item").map_err(DriverError::unanswered)?;
            let token: Uuid = column(row, "token").map_err(DriverError::unanswered)?;
            let place =
                usize::try_from(item - 1).ok().and_then(|index| Some((looks.get(index)?, answers.get_mut(index)?)));
            match place {
                Some((look, answer)) if look.claim.reservation.token == token => *answer = conclusive(look, row),
                _ => return Err(DriverError::unanswered("the answer to another statement: it has another call's row")),
            }
        }
        let relies = |(look, answer): (&&LookAt, _)| look.relies_on_absence && matches!(answer, &Some(Found::NoRow));
        let relies_on_absence = looks.iter().zip(&answers).any(relies);
        if age > if relies_on_absence { AGE_OF_ABSENCE } else { AGE } {
            connection.execute(IN_NO_TRANSACTION).await?;
        }
        Ok(answers)
    }
}

/// Returns what a row says of a claim's key, if the claim itself would find the same and change nothing.
fn conclusive(look: &LookAt, row: &impl Row) -> Option<Found> {
    match column(row, "state").ok()? {
        "absent" => Some(Found::NoRow),
        "acquired" | "expired" | "taken_over" => None,
        _ => {
            let outcome = claim_outcome(&look.claim, row, look.with_status).ok();
            outcome.filter(|it| !matches!(it, ClaimOutcome::OutcomeUnknown)).map(Found::Outcome)
        }
    }
}
