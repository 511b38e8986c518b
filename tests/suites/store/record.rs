//! Claims and completions for the tests outside the conformance suite.

use tonic_idempotency::{
    KeyId,
    policy::{EffectPolicy, ForeignPolicy},
};
use tonic_idempotency_tests::with_max_batch;

use crate::prelude::*;

/// Parameters with their types.
pub(crate) type Parameters<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

pub(crate) const HOUR: Duration = Duration::from_secs(3600);
pub(crate) const PROCEDURE: &str = "/organization.v1.ProjectService/CreateProject";
pub(crate) const HASH: [u8; 32] = [7; 32];

/// A store on this pool, with timeouts that are long enough for a busy machine.
pub(crate) fn patient(pool: Pool) -> PostgresStore {
    with_max_batch(PostgresStore::new(pool, organization::resource_types()))
        .timeout(Duration::from_secs(30))
        .status_timeout(Duration::from_secs(30))
}

pub(crate) fn claim(user: Uuid, key: Uuid) -> Claim {
    Claim {
        reservation: Reservation::new(OwnerId::new(user), KeyId::new(key)),
        session: CallSession { user: Some(user), settings: None },
        procedure: PROCEDURE.to_owned(),
        request: RequestHash::from(HASH).into(),
        lease: HOUR,
        retention: HOUR,
        on_lease_ended: LeasePolicy::Rerun,
        on_foreign_reservation: ForeignPolicy::InProgress,
        effect: EffectPolicy::Anywhere,
        resource_type: Some("project".to_owned()),
    }
}

/// A claim of a new user with a new key.
pub(crate) fn new_claim() -> Claim {
    claim(Uuid::new_v4(), Uuid::new_v4())
}

pub(crate) fn again(claim: &Claim) -> Claim {
    let Reservation { owner, key, .. } = claim.reservation;
    Claim { reservation: Reservation::new(owner, key), ..claim.clone() }
}

pub(crate) fn completion(message: &'static str) -> Completion {
    Completion { response: StoredResponse::message(message), resource: None, retention: HOUR }
}

pub(crate) async fn acquire(store: &impl Store, claim: &Claim) {
    let outcome = store.claim(claim).await.expect("the store answers");
    assert!(matches!(outcome, ClaimOutcome::Acquired), "{outcome:?}");
}

pub(crate) async fn take_over(store: &impl Store, claim: &Claim) {
    let outcome = store.claim(claim).await.expect("the store answers");
    assert!(matches!(outcome, ClaimOutcome::TakenOver), "{outcome:?}");
}

/// Makes a completed record.
pub(crate) async fn complete(store: &impl Store, claim: &Claim, completion: &Completion) {
    acquire(store, claim).await;
    let outcome = store.complete(&claim.reservation, completion).await.expect("the store answers");
    assert_eq!(outcome, CompleteOutcome::Completed);
}

/// Tries to record an outcome of a reservation.
pub(crate) async fn completed(store: &impl Store, claim: &Claim, message: &'static str) -> CompleteOutcome {
    store.complete(&claim.reservation, &completion(message)).await.expect("the store answers")
}

/// Records the outcome of a call that holds its key.
pub(crate) async fn record(store: &impl Store, claim: &Claim, message: &'static str) {
    assert_eq!(completed(store, claim, message).await, CompleteOutcome::Completed);
}

pub(crate) async fn release(store: &impl Store, claim: &Claim) {
    let outcome = store.release(&claim.reservation).await.expect("the store answers");
    assert_eq!(outcome, ReleaseOutcome::Released);
}

pub(crate) async fn extend(store: &impl Store, claim: &Claim, lease: Duration) {
    let outcome = store.extend(&claim.reservation, lease).await.expect("the store answers");
    assert_eq!(outcome, ExtendOutcome::Extended);
}

pub(crate) async fn abandon(store: &impl Store, claim: &Claim) {
    let outcome = store.abandon(&claim.reservation).await.expect("the store answers");
    assert_eq!(outcome, AbandonOutcome::Abandoned);
}

pub(crate) fn replayed(outcome: ClaimOutcome) -> Replay {
    match outcome {
        ClaimOutcome::Replay(replay) => replay,
        other => panic!("expected a replay, got {other:?}"),
    }
}

/// Opens all connections of a pool.
pub(crate) async fn open_all(pool: &Pool) {
    let mut connections = Vec::new();
    for _ in 0..pool.status().max_size {
        connections.push(pool.get().await.expect("a connection"));
    }
}

/// The replay that a retry of the call gets.
pub(crate) async fn replay_of(store: &impl Store, claim: &Claim) -> Replay {
    replayed(store.claim(&again(claim)).await.expect("the store answers"))
}

/// Asserts that a retry finds the call in flight.
pub(crate) async fn assert_in_flight(store: &impl Store, claim: &Claim) {
    let outcome = store.claim(&again(claim)).await.expect("the store answers");
    assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{outcome:?}");
}

pub(crate) async fn assert_unknown(store: &impl Store, claim: &Claim) {
    let outcome = store.claim(claim).await.expect("the store answers");
    assert!(matches!(outcome, ClaimOutcome::OutcomeUnknown), "{outcome:?}");
}

/// Looks a key up, with the status of its resource.
pub(crate) async fn look_up(store: &impl Store, claim: &Claim) -> KeyRecord {
    store.look_up(&question(claim, true)).await.expect("the store answers")
}

pub(crate) fn question(claim: &Claim, with_status: bool) -> LookUp {
    let (Reservation { owner, key, .. }, session) = (claim.reservation, claim.session.clone());
    LookUp { owner, key, session, with_status }
}

/// The transaction of a call whose key is free.
pub(crate) async fn open_transaction(store: &impl Store, claim: &Claim) -> Box<dyn StoreTransaction> {
    match store.begin(claim, TransactionOptions::default()).await.expect("the store answers") {
        BeginOutcome::Open { transaction, .. } => transaction,
        other => panic!("expected a transaction, got {other:?}"),
    }
}

/// A search for all abandoned reservations.
pub(crate) fn search() -> AbandonedQuery {
    AbandonedQuery { procedures: vec![PROCEDURE.to_owned()], lookback: None, max_attempts: 10, batch: 1_000 }
}

/// The handler's handle of a transaction.
pub(crate) fn handle_of(transaction: &dyn StoreTransaction) -> Transaction {
    let mut extensions = http::Extensions::new();
    transaction.hand_out(&mut extensions);
    Transaction::from_extensions(&extensions).expect("a transaction")
}

/// Why no transaction begins.
pub(crate) async fn refusal(store: &impl Store, claim: &Claim) -> ClaimOutcome {
    match store.begin(claim, TransactionOptions::default()).await.expect("the store answers") {
        BeginOutcome::Refused(outcome) => outcome,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// Makes a completed record in a transaction.
pub(crate) async fn commit(store: &impl Store, claim: &Claim, completion: Completion) {
    committed(open_transaction(store, claim).await, completion).await;
}

/// Commits a transaction, with its outcome.
pub(crate) async fn committed(transaction: Box<dyn StoreTransaction>, completion: Completion) {
    assert_eq!(ended(transaction, completion).await, CommitOutcome::Committed);
}

/// Tries to commit a transaction.
pub(crate) async fn ended(transaction: Box<dyn StoreTransaction>, completion: Completion) -> CommitOutcome {
    transaction.commit(Some(completion)).await.expect("the store answers")
}

pub(crate) async fn roll_back(transaction: Box<dyn StoreTransaction>) {
    assert_eq!(transaction.roll_back().await, RollBackOutcome::RolledBack);
}

/// A claim of a new user with a new key, which creates nothing.
pub(crate) fn any() -> Claim {
    Claim { resource_type: None, ..new_claim() }
}

/// Inserts a row for the claim's key, as a server with the Go interceptor does: a reservation, or a record with this response.
pub(crate) async fn insert(client: &Client, claim: &Claim, response: Option<&str>) {
    insert_into(client, "tenant.idempotency_keys", claim, response).await;
}

pub(crate) async fn insert_into(client: &Client, table: &str, claim: &Claim, response: Option<&str>) {
    let Reservation { owner, key, .. } = &claim.reservation;
    let (hash, response) = (claim.request.canonical().as_bytes().as_slice(), response.map(str::as_bytes));
    let insert = format!(
        "INSERT INTO {table} (idempotency_key, user_id, procedure, request_hash, response_bytes, expires)
         VALUES ($1, $2, $3, $4, $5, now() + interval '1 hour')"
    );
    let row: [&(dyn ToSql + Sync); 5] = [key.as_uuid(), owner.as_uuid(), &claim.procedure, &hash, &response];
    client.execute(&insert, &row).await.expect("the row");
}

/// Makes a role that is no superuser and may make schemas, and a connection as this role.
pub(crate) async fn plain_owner(database: &Database) -> (String, Client) {
    let (role, client) = (format!("idempotency_tests_owner_{}", Uuid::new_v4().simple()), database.owner().await);
    let make = format!(
        "CREATE ROLE {role}; GRANT CREATE ON SCHEMA public TO {role};
         DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO {role}', current_database()); END $$;
         SET ROLE {role}"
    );
    execute(&client, &make).await;
    (role, client)
}

pub(crate) async fn drop_roles(superuser: &Client, roles: &[&str]) {
    for role in roles {
        execute(superuser, &format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}")).await;
    }
}

/// A database with only the core's migrations, granted to the API's role.
pub(crate) async fn core_alone() -> (Database, Client) {
    let (database, mut owner) = Database::empty_with_owner().await;
    migrate(&mut owner, &Schema::default()).await;
    migrations::grant(&owner, &Schema::default(), API_ROLE).await.expect("the grant");
    (database, owner)
}

/// The answer of the server behind an error of migrations.
pub(crate) fn of_server(error: &migrations::MigrationError) -> &DbError {
    let error = error.source().and_then(|source| source.downcast_ref::<Error>());
    error.and_then(Error::as_db_error).expect("an answer of the server")
}

/// The problems that the store finds in its database.
pub(crate) async fn problems(store: &PostgresStore) -> Vec<SetupProblem> {
    match store.verify().await {
        Ok(()) => Vec::new(),
        Err(VerifyError::Problems(problems)) => problems,
        Err(error) => panic!("{error}: {:?}", error.source()),
    }
}

/// Runs statements.
pub(crate) async fn execute(client: &Client, statements: &str) {
    client.batch_execute(statements).await.expect(statements);
}

/// The first column of a query's only row.
pub(crate) async fn value<T: FromSqlOwned>(client: &Client, query: &str) -> T {
    client.query_typed_one(query, &[]).await.expect(query).get(0)
}

/// The first column of all rows of a query.
pub(crate) async fn values<T: FromSqlOwned>(client: &Client, query: &str) -> Vec<T> {
    client.query_typed(query, &[]).await.expect(query).iter().map(|row| row.get(0)).collect()
}

/// The number of rows of a table, or of a table and a condition.
pub(crate) async fn count(client: &Client, from: &str) -> i64 {
    value(client, &format!("SELECT count(*) FROM {from}")).await
}

/// The store with a limit of the records that one user may have.
pub(crate) fn limited(store: PostgresStore, records: u64) -> PostgresStore {
    let limits = Limits { records: Some(records), ..Limits::default() };
    store.set_up(&StoreSettings { limits });
    store
}

/// The statement of PL/pgSQL at which a function is [held](hold_at).
pub(crate) const HOLD: &str = "PERFORM pg_advisory_xact_lock(42);";

/// Takes the lock for which a function waits, from now on, at this place in its text, where `with` stands instead.
pub(crate) async fn hold_at(owner: &Client, function: &str, place: &str, with: &str) {
    let replace = format!(
        "SELECT pg_advisory_lock(42);
         DO $do$ DECLARE v_function CONSTANT text := pg_get_functiondef('tenant.idempotency_{function}'::regproc); BEGIN
             ASSERT position($${place}$$ IN v_function) > 0;
             EXECUTE replace(v_function, $${place}$$, $${with}$$);
         END $do$"
    );
    owner.batch_execute(&replace).await.expect("the function is replaced");
}

/// The number of this database's statements that wait for a lock. Inside of a transaction it does not change.
pub(crate) async fn waiting(observer: &Client) -> i64 {
    count(observer, "pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").await
}

pub(crate) async fn until_held(observer: &Client) {
    until("a statement waits for a lock", async || waiting(observer).await > 0).await;
}

pub(crate) async fn let_go(owner: &Client) {
    owner.batch_execute("SELECT pg_advisory_unlock_all()").await.expect("it goes on");
}
