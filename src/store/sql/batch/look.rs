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

/// Fails in a transaction that was left open on the connection.
const IN_NO_TRANSACTION: &str = "DO $$ BEGIN COMMIT; END $$";

/// Looks up what a claim would find, and changes nothing. It answers only if the claim, whatever its policy, would leave the row as it is:
/// an outcome, a reservation with its lease, another request. Everything else is sent alone, as is a row that cannot be read.
pub(in crate::store::sql) struct Look;

/// A claim whose key is looked at.
#[derive(Debug)]
pub(in crate::store::sql) struct LookAt {
    pub(in crate::store::sql) claim: Arc<Claim>,
    /// Whether to ask for the status of the created resource.
    pub(in crate::store::sql) with_status: bool,
}

impl LookAt {
    fn resource_type(&self) -> Option<&str> {
        self.claim.resource_type.as_deref().filter(|_| self.with_status)
    }
}

impl Kind for Look {
    const WRITES: bool = false;

    type Item = LookAt;
    type Answer = ClaimOutcome;

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
    ) -> Result<Vec<Option<ClaimOutcome>>, DriverError> {
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
        if age > AGE {
            connection.execute(IN_NO_TRANSACTION).await?;
        }
        Ok(answers)
    }
}

/// Returns the outcome that a row gives a claim, if the claim itself would have the same and change nothing.
fn conclusive(look: &LookAt, row: &impl Row) -> Option<ClaimOutcome> {
    let state: &str = column(row, "state").ok()?;
    if matches!(state, "acquired" | "expired" | "taken_over") {
        return None;
    }
    claim_outcome(&look.claim, row, look.with_status).ok().filter(|it| !matches!(it, ClaimOutcome::OutcomeUnknown))
}
