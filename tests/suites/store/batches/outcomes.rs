//! Each call is answered as by itself, or not at all, and then its row is as it was.

use tonic_idempotency::store::StoredMessage;

use super::statements::{self, Outcome, texts};
use crate::prelude::*;

/// The states of a row, in an order in which they are next to others.
const STATES: [&str; 13] = [
    "absent",
    "completed",
    "reserved",
    "expired record",
    "unknown",
    "failed",
    "taken over",
    "foreign",
    "abandoned",
    "not stored",
    "expired reservation",
    "fenced",
    "sealed",
];

/// Makes a row in this state. Returns the claim that holds it, or would.
async fn make(database: &Database, store: &PostgresStore, state: &str) -> Claim {
    let claim = new_claim();
    let with = |response| Completion { response, ..completion("done") };
    match state {
        "absent" => {}
        "reserved" => acquire(store, &claim).await,
        "completed" | "expired record" => complete(store, &claim, &completion("first")).await,
        "not stored" => complete(store, &claim, &with(StoredResponse::NotStored)).await,
        "sealed" => complete(store, &claim, &with(StoredResponse::Sealed(b"\0sealed".as_slice().into()))).await,
        "failed" => complete(store, &claim, &with(StoredResponse::Error(b"failed".as_slice().into()))).await,
        "abandoned" => acquire(store, &Claim { lease: Duration::ZERO, ..claim.clone() }).await,
        "unknown" => {
            acquire(store, &claim).await;
            abandon(store, &claim).await;
        }
        "taken over" | "fenced" => {
            let first = Claim { lease: Duration::ZERO, ..again(&claim) };
            acquire(store, &first).await;
            take_over(store, &claim).await;
            if state == "fenced" {
                return Claim { lease: HOUR, ..first };
            }
        }
        "expired reservation" => acquire(store, &claim).await,
        "foreign" => insert(&database.owner().await, &claim, None).await,
        other => panic!("no state {other}"),
    }
    if state.starts_with("expired") {
        let key = claim.reservation.key.as_uuid();
        let expire = format!("UPDATE tenant.idempotency_keys SET expires = now() WHERE idempotency_key = '{key}'");
        execute(&database.owner().await, &expire).await;
    }
    claim
}

/// Summarises a row without its ids, and with its times in units of ten minutes from now.
async fn summary(database: &Database, claim: &Claim) -> Option<String> {
    let select = "SELECT format('%s %s %s %s %s %s %s %s %s %s %s', procedure, attempts, outcome_unknown, response_not_stored,
                                response_bytes, response_metadata, error_bytes, project_id,
                                CASE WHEN lease_expires > 'epoch' THEN round(extract(epoch FROM lease_expires - now()) / 600)::text
                                     ELSE lease_expires::text END,
                                round(extract(epoch FROM expires - now()) / 600), completed IS NOT NULL)
                  FROM tenant.idempotency_keys WHERE user_id = $1 AND idempotency_key = $2";
    let Reservation { owner, key, .. } = claim.reservation;
    let parameters: Parameters<'_> = &[(owner.as_uuid(), Type::UUID), (key.as_uuid(), Type::UUID)];
    let rows = database.owner().await.query_typed(select, parameters).await.expect("the row");
    rows.first().map(|row| row.get(0))
}

/// Rows in all states, twice: for a statement of all together, and for single ones.
struct World {
    database: Database,
    store: PostgresStore,
    together: Vec<Claim>,
    alone: Vec<Claim>,
    before: Vec<Option<String>>,
}

impl World {
    async fn new() -> Self {
        let (database, store) = Database::with_store().await;
        let (mut together, mut alone, mut before) = (Vec::new(), Vec::new(), Vec::new());
        for state in STATES {
            let claim = make(&database, &store, state).await;
            before.push(statements::row(&database, &claim).await);
            together.push(claim);
            alone.push(make(&database, &store, state).await);
        }
        Self { database, store, together, alone, before }
    }

    fn reservations(&self) -> Vec<Reservation> {
        self.together.iter().map(|claim| claim.reservation).collect()
    }

    /// Asserts that the statement has answered these states, which are then as `single` leaves them, and left the others.
    async fn answers(
        &self,
        answered: &[bool],
        expected: &[&str],
        single: impl AsyncFn(&PostgresStore, &Claim) -> bool,
    ) {
        for (index, state) in STATES.iter().enumerate() {
            assert_eq!(answered[index], expected.contains(state), "{state}");
            if answered[index] {
                assert!(single(&self.store, &self.alone[index]).await, "{state}: alone");
                let [together, alone] = [&self.together[index], &self.alone[index]];
                assert_eq!(summary(&self.database, together).await, summary(&self.database, alone).await, "{state}");
            } else {
                let after = statements::row(&self.database, &self.together[index]).await;
                assert_eq!(after, self.before[index], "{state}: left alone");
            }
        }
    }
}

#[tokio::test]
async fn reserves_what_is_absent_and_leaves_every_row_as_it_is() {
    let world = World::new().await;
    let claims: Vec<_> = world.together.iter().collect();
    let reserved = statements::reserve(&world.database.api().await, &claims).await.expect("a reservation");
    let single = async |store: &PostgresStore, claim: &Claim| {
        acquire(store, claim).await;
        true
    };
    world.answers(&reserved, &["absent"], single).await;
}

#[tokio::test]
async fn records_for_every_token_that_holds_its_key() {
    let world = World::new().await;
    let project = world.database.project(Some(OutboxStatus::Pending)).await;
    let id = uuid_of(&project).to_string();
    let outcome = Outcome { metadata: Some(b"metadata"), resource: Some(("project_id", &id)), ..Outcome::DONE };
    let outcomes = [outcome; STATES.len()];
    let api = world.database.api().await;
    let recorded = statements::complete(&api, &world.reservations(), &outcomes).await.expect("a completion");
    let message = StoredMessage { message: b"done".as_slice().into(), metadata: Some(b"metadata".as_slice().into()) };
    let response = StoredResponse::Message(message);
    let completion = Completion { response, resource: Some(project), retention: HOUR };
    let single = async |store: &PostgresStore, claim: &Claim| {
        store.complete(&claim.reservation, &completion).await.expect("an outcome") == CompleteOutcome::Completed
    };
    let held = ["reserved", "unknown", "taken over", "abandoned", "expired reservation"];
    world.answers(&recorded, &held, single).await;
}

/// Every kind of outcome in one statement, each in its own row; a type that the database does not know is left to the single
/// statement, which says so.
#[tokio::test]
async fn records_each_outcome_in_its_own_row() {
    let (database, store) = Database::with_store().await;
    let project = uuid_of(&database.project(None).await).to_string();
    let outcomes = [
        (Outcome::DONE, "done f   ", true),
        (Outcome { response: Some(b""), not_stored: true, ..Outcome::DONE }, " t   ", true),
        (Outcome { response: None, error: Some(b"error"), ..Outcome::DONE }, " f  error ", true),
        (Outcome { resource: Some(("nobody_id", &project)), ..Outcome::DONE }, " f   ", false),
        (Outcome { metadata: Some(b"m"), ..Outcome::DONE }, "done f m  ", true),
        (Outcome { resource: Some(("project_id", &project)), ..Outcome::DONE }, &format!("done f   {project}"), true),
    ];
    let claims = outcomes.map(|_| new_claim());
    for claim in &claims {
        acquire(&store, claim).await;
    }
    let api = database.api().await;
    let reservations = claims.each_ref().map(|claim| claim.reservation);
    let recorded = statements::complete(&api, &reservations, &outcomes.each_ref().map(|it| it.0)).await;
    assert_eq!(recorded.expect("a completion"), outcomes.each_ref().map(|it| it.2));
    let select = "SELECT format('%s %s %s %s %s', encode(response_bytes, 'escape'), response_not_stored,
                                encode(response_metadata, 'escape'), encode(error_bytes, 'escape'), project_id)
                  FROM tenant.idempotency_keys WHERE token = $1";
    let owner = database.owner().await;
    for (claim, (_, expected, _)) in claims.iter().zip(&outcomes) {
        let row = owner.query_typed_one(select, &[(&claim.reservation.token, Type::UUID)]).await.expect("the row");
        assert_eq!(row.get::<_, &str>(0), *expected);
    }
}

#[tokio::test]
async fn looks_at_every_state_and_changes_nothing() {
    let world = World::new().await;
    let [others, own] = [false, true].map(|own| {
        let claims = world.together.iter();
        claims.map(|claim| if own { claim.clone() } else { again(claim) }).collect::<Vec<_>>()
    });
    let api = world.database.api().await;
    for (claims, [reserved, abandoned, taken_over]) in [
        (&others, ["reserved", "abandoned", "reserved"].map(Some)),
        (&own, ["acquired", "acquired", "taken_over"].map(Some)),
    ] {
        let found = statements::look(&api, &claims.iter().collect::<Vec<_>>()).await.expect("a look");
        let states = texts(&found, "state");
        let expected = [
            ("absent", None),
            ("completed", Some("completed")),
            ("reserved", reserved),
            ("expired record", Some("expired")),
            ("unknown", Some("unknown")),
            ("failed", Some("failed")),
            ("taken over", taken_over),
            ("foreign", Some("abandoned")),
            ("abandoned", abandoned),
            ("not stored", Some("not_stored")),
            ("expired reservation", Some("expired")),
            ("fenced", Some("reserved")),
        ];
        for ((state, expected), found) in expected.into_iter().zip(states) {
            assert_eq!(found.as_deref(), expected, "{state}");
        }
        for row in found.iter().flatten() {
            assert_eq!(row.get::<_, &str>("recorded_procedure"), PROCEDURE);
            assert_eq!(row.get::<_, &[u8]>("recorded_hash"), HASH);
            assert_eq!(row.get::<_, Option<&str>>("status_error"), None);
        }
        let row = |state| found[STATES.iter().position(|it| *it == state).expect("a state")].as_ref().expect("a row");
        assert_eq!(row("completed").get::<_, &[u8]>("response"), b"first");
        assert_eq!(row("failed").get::<_, &[u8]>("error"), b"failed");
        assert!((3_500_000..=3_600_000).contains(&row("completed").get::<_, i64>("expires_in_ms")));
        assert!((3_500_000..=3_600_000).contains(&row("reserved").get::<_, i64>("lease_left_ms")));
    }
    for (claim, before) in world.together.iter().zip(&world.before) {
        assert_eq!(&statements::row(&world.database, claim).await, before);
    }
}

/// The first of equal keys in the order of the statement has it; the others are left to the single statement.
#[tokio::test]
async fn gives_one_of_equal_keys_the_reservation() {
    let database = Database::new().await;
    let first = new_claim();
    let (second, other) = (again(&first), new_claim());
    let api = database.api().await;
    let reserved = statements::reserve(&api, &[&first, &other, &second]).await.expect("a reservation");
    assert_eq!(reserved.iter().filter(|it| **it).count(), 2, "{reserved:?}");
    assert!(reserved[1] && reserved[0] != reserved[2], "{reserved:?}");
    let holder = if reserved[0] { &first } else { &second };
    let reservations = [first.reservation, second.reservation, holder.reservation];
    let recorded = statements::complete(&api, &reservations, &[Outcome::DONE; 3]).await.expect("a completion");
    assert_eq!(recorded, [reserved[0], reserved[2], true]);
    let found = statements::look(&api, &[&first, &second]).await.expect("a look");
    assert_eq!(texts(&found, "state"), ["completed", "completed"].map(|state| Some(state.to_owned())));
}
