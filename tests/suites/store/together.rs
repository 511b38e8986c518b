//! Calls that go together in one statement: each has the outcome that it would have by itself.

use tcp_proxy::Direction;
use tokio::task::yield_now;

use crate::prelude::*;

/// More than one statement does, as the first call goes alone.
const CALLS: usize = 65;

/// A store whose calls go together, whatever the suite is run with.
fn together(pool: Pool) -> PostgresStore {
    patient(pool).max_batch(64)
}

/// Claims of as many users.
fn claims(count: usize) -> Vec<Claim> {
    (0..count).map(|_| new_claim()).collect()
}

/// A completion with a message of its own.
fn own(claim: &Claim) -> Completion {
    let message = claim.reservation.key.as_uuid().to_string();
    Completion { response: StoredResponse::message(message), ..completion("") }
}

/// Starts calls. When this returns, the first one is under way, and the others have queued behind it.
async fn start<T, F>(calls: impl IntoIterator<Item = F>) -> Vec<JoinHandle<T>>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let started: Vec<_> = calls.into_iter().map(tokio::spawn).collect();
    for _ in 0..4 {
        yield_now().await;
    }
    started
}

async fn ended<T>(started: Vec<JoinHandle<T>>) -> Vec<T> {
    join_all(started).await.into_iter().map(|call| call.expect("no panic")).collect()
}

/// Makes a call for each claim at once, and returns the outcomes, and in how many round trips they came.
async fn at_once<T, F>(proxy: &Proxy, claims: &[Claim], call: impl Fn(Claim) -> F) -> (Vec<T>, usize)
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let before = proxy.round_trips();
    proxy.hold();
    let started = start(claims.iter().map(|claim| call(claim.clone()))).await;
    proxy.release();
    (ended(started).await, proxy.round_trips() - before)
}

async fn claimed(store: PostgresStore, claim: Claim) -> ClaimOutcome {
    store.claim(&claim).await.expect("the store answers")
}

/// Starts a claim whose statement waits, until the transaction ends, for a row.
async fn start_behind_a_lock(database: &Database, store: &PostgresStore) -> Client {
    let (first, owner) = (new_claim(), database.owner().await);
    execute(&owner, "BEGIN").await;
    insert(&owner, &first, None).await;
    start([claimed(store.clone(), first)]).await;
    until("the first one waits", async || waiting(&owner).await > 0).await;
    owner
}

/// Starts claims.
async fn start_all(store: &PostgresStore, claims: &[Claim]) -> Vec<JoinHandle<ClaimOutcome>> {
    start(claims.iter().map(|claim| claimed(store.clone(), claim.clone())).collect::<Vec<_>>()).await
}

fn is_acquired(outcome: &ClaimOutcome) -> bool {
    matches!(outcome, ClaimOutcome::Acquired)
}

/// Whether each claim stands, once, for the token that it was acquired with.
async fn assert_stands_once(database: &Database, claims: &[Claim]) {
    let owner = database.owner().await;
    for Claim { reservation, .. } in claims {
        let select = "SELECT token, attempts FROM tenant.idempotency_keys WHERE idempotency_key = $1 AND user_id = $2";
        let row =
            owner.query_one(select, &[reservation.key.as_uuid(), reservation.owner.as_uuid()]).await.expect("a row");
        assert_eq!((row.get::<_, Uuid>(0), row.get::<_, i32>(1)), (reservation.token, 1));
    }
}

fn message(outcome: ClaimOutcome) -> String {
    let StoredResponse::Message(stored) = replayed(outcome).response else { panic!("expected a message") };
    String::from_utf8_lossy(&stored.message).into_owned()
}

/// Asserts that a call is answered with the message of its own.
fn assert_own(claim: &Claim, outcome: ClaimOutcome) {
    assert_eq!(message(outcome), claim.reservation.key.as_uuid().to_string());
}

/// A store on this many open connections through a proxy, and sixteen claims.
async fn sixteen(connections: usize) -> (Database, Proxy, PostgresStore, Vec<Claim>) {
    let database = Database::new().await;
    let (proxy, pool) = open_pool(&database, connections).await;
    (database, proxy, together(pool), claims(16))
}

/// Makes each kind of call at once for many users, and returns the round trips of each.
async fn every_kind(proxy: &Proxy, store: &PostgresStore) -> [(&'static str, usize); 3] {
    let (all, store) = (claims(CALLS), || store.clone());
    let (outcomes, claiming) = at_once(proxy, &all, |claim| claimed(store(), claim)).await;
    assert!(outcomes.iter().all(is_acquired), "{outcomes:?}");
    let complete =
        |store: PostgresStore, claim: Claim| async move { store.complete(&claim.reservation, &own(&claim)).await };
    let (outcomes, completing) = at_once(proxy, &all, |claim| complete(store(), claim)).await;
    assert!(outcomes.iter().all(|it| matches!(it, Ok(CompleteOutcome::Completed))), "{outcomes:?}");
    let (outcomes, replaying) = at_once(proxy, &all, |claim| claimed(store(), again(&claim))).await;
    for (claim, outcome) in all.iter().zip(outcomes) {
        assert_own(claim, outcome);
    }
    [("claims", claiming), ("completions", completing), ("replays", replaying)]
}

/// One statement for the first call, one for the others, and replays are looked for after the reservation; on a slow machine more of
/// them are under way at a time.
#[tokio::test]
async fn calls_of_one_kind_go_together_with_the_next_statement_unless_it_may_do_only_one() {
    let database = Database::new().await;
    let (proxy, pool) = open_pool(&database, 4).await;
    let parsed = together(pool.clone()).prepared_statements(PreparedStatements::Never);
    for (what, store, expected) in [
        ("prepared", together(pool.clone()), 0..=20),
        ("parsed each time", parsed, 0..=20),
        ("one call for each statement", patient(pool).max_batch(1), CALLS..=usize::MAX),
    ] {
        for (kind, trips) in every_kind(&proxy, &store).await {
            assert!(expected.contains(&trips), "{what}, {kind}: {trips} round trips for {CALLS} calls");
        }
    }
}

#[tokio::test]
async fn claims_and_outcomes_go_together_and_each_has_its_own() {
    let database = Database::new().await;
    let (proxy, pool) = open_pool(&database, 4).await;
    let store = together(pool);
    let [held, fenced, fresh] = [(); 3].map(|()| claims(8));
    join_all(held.iter().chain(&fenced).map(|claim| acquire(&store, claim))).await;
    for claim in &fenced {
        store.release(&claim.reservation).await.expect("the store answers");
    }
    let recorded: Vec<_> = held.iter().chain(&fenced).map(|claim| claim.reservation.key).collect();
    // In turns.
    let all: Vec<_> = (0..8).flat_map(|n| [&held[n], &fresh[n], &fenced[n]]).cloned().collect();
    let (outcomes, trips) = at_once(&proxy, &all, |claim| {
        let (store, records) = (store.clone(), recorded.contains(&claim.reservation.key));
        async move {
            if records {
                format!("{:?}", store.complete(&claim.reservation, &own(&claim)).await.expect("the store answers"))
            } else {
                format!("{:?}", claimed(store, claim).await)
            }
        }
    })
    .await;
    assert_eq!(outcomes, ["Completed", "Acquired", "Fenced"].repeat(8));
    // One for the first call, one for the others, and one for each that was not as nearly all are; they are prepared; and on a slow machine
    // up to three more are under way.
    assert!(trips <= 2 + 8 + 6 + 3, "{trips} round trips for 24 calls");
    assert_stands_once(&database, &fresh).await;
    for claim in &held {
        assert_own(claim, claimed(store.clone(), again(claim)).await);
    }
}

#[tokio::test]
async fn calls_go_together_behind_pgbouncer() {
    if let Some(why) = PgBouncer::missing() {
        return skip("pgbouncer", why);
    }
    let database = Database::new().await;
    let bouncer = database.behind_bouncer(&[]).await;
    let (proxy, pool) = database.pool_through_proxy_and_bouncer(&bouncer, 4).await;
    open_all(&pool).await;
    for (kind, trips) in every_kind(&proxy, &together(pool)).await {
        // A connection of a PgBouncer that tracks is probed, and its statements are prepared, in trips of their own.
        assert!(trips <= 20, "{kind}: {trips} round trips for {CALLS} calls");
    }
}

/// Each transaction has one of the keys, and has not ended.
#[tokio::test]
async fn a_claim_that_waits_for_another_transaction_does_not_hold_up_the_others() {
    let (database, _proxy, store, all) = sixteen(8).await;
    let blocker = database.owner().await;
    let first = start_behind_a_lock(&database, &store).await;
    execute(&blocker, "BEGIN").await;
    insert(&blocker, &all[7], None).await;
    let mut started = start_all(&store, &all).await;
    let blocked = started.remove(7);
    assert!(ended(started).await.iter().all(is_acquired));
    assert!(!blocked.is_finished());
    execute(&blocker, "ROLLBACK").await;
    assert!(is_acquired(&blocked.await.expect("no panic")));
    execute(&first, "ROLLBACK").await;
}

#[tokio::test]
async fn a_row_that_is_corrupt_fails_only_its_own_call() {
    let (database, proxy, store, all) = sixteen(4).await;
    for claim in &all {
        complete(&store, claim, &own(claim)).await;
    }
    let owner = database.owner().await;
    let corrupt = "UPDATE tenant.idempotency_keys SET arrival_hash = '\\x00' WHERE idempotency_key = $1";
    owner.execute(corrupt, &[all[7].reservation.key.as_uuid()]).await.expect("it is corrupt");
    let claim = |store: PostgresStore, claim: Claim| async move { store.claim(&again(&claim)).await };
    for _ in 0..2 {
        let (outcomes, _) = at_once(&proxy, &all, |it| claim(store.clone(), it)).await;
        for (n, (claim, outcome)) in all.iter().zip(outcomes).enumerate() {
            match outcome {
                Err(error) => assert_eq!((n, error.kind()), (7, StoreErrorKind::Corrupt)),
                Ok(outcome) => assert_own(claim, outcome),
            }
        }
    }
}

/// One completion refers to a project that does not exist: the reference is left out, for that one.
#[tokio::test]
async fn a_completion_that_violates_a_constraint_fails_no_other() {
    let (database, proxy, store, all) = sixteen(4).await;
    let (project, gone) = (database.project(None).await, all[7].reservation.key);
    join_all(all.iter().map(|claim| acquire(&store, claim))).await;
    let (outcomes, _) = at_once(&proxy, &all, |claim| {
        let (store, mut resource) = (store.clone(), project.clone());
        if claim.reservation.key == gone {
            resource.id = Uuid::new_v4().into();
        }
        async move { store.complete(&claim.reservation, &Completion { resource: Some(resource), ..own(&claim) }).await }
    })
    .await;
    assert!(outcomes.iter().all(|it| matches!(it, Ok(CompleteOutcome::Completed))), "{outcomes:?}");
    let owner = database.owner().await;
    let table = "tenant.idempotency_keys";
    let referring = count(&owner, &format!("{table} WHERE project_id IS NOT NULL")).await;
    assert_eq!((referring, count(&owner, table).await), (15, 16));
}

/// As the answer to another statement, which a pooler may give.
#[tokio::test]
async fn a_row_in_the_place_of_another_calls_is_not_that_calls() {
    let (database, proxy, store, all) = sixteen(4).await;
    for claim in &all {
        complete(&store, claim, &own(claim)).await;
    }
    let others = "ALTER FUNCTION tenant.idempotency_look RENAME TO look_of_before;
                  CREATE FUNCTION tenant.idempotency_look(
                      p_users uuid[], p_keys uuid[], p_tokens uuid[], p_types text[], p_app_users uuid[], p_settings text[]
                  ) RETURNS TABLE (
                      item bigint, token uuid, state text, recorded_procedure text, recorded_hash bytea, recorded_arrival bytea,
                      response bytea, metadata bytea, error bytea, resource text, status text, status_error text,
                      lease_left_ms bigint, expires_in_ms bigint
                  ) LANGUAGE sql AS $$
                      SELECT cardinality(p_keys) + 1 - l.item, l.token, l.state, l.recorded_procedure, l.recorded_hash, l.recorded_arrival,
                             l.response, l.metadata, l.error, l.resource, l.status, l.status_error, l.lease_left_ms, l.expires_in_ms
                      FROM tenant.look_of_before(p_users, p_keys, p_tokens, p_types, p_app_users, p_settings) l $$";
    database.owner().await.batch_execute(others).await.expect("the function is replaced");
    let (outcomes, _) = at_once(&proxy, &all, |claim| claimed(store.clone(), again(&claim))).await;
    for (claim, outcome) in all.iter().zip(outcomes) {
        assert_own(claim, outcome);
    }
}

/// The statement that looks at records is planned without a user, and an application's policy may need one.
#[tokio::test]
async fn a_statement_that_always_fails_is_soon_tried_rarely() {
    let database = Database::new().await;
    let (proxy, pool) = open_pool(&database, 4).await;
    let (store, owner) = (together(pool), database.owner().await);
    let needs_user = "CREATE OR REPLACE FUNCTION authn.current_user_id() RETURNS uuid LANGUAGE plpgsql STABLE AS $$ BEGIN
                          IF coalesce(current_setting('app.current_user_id', true), '') = '' THEN
                              RAISE EXCEPTION 'no user';
                          END IF;
                          RETURN current_setting('app.current_user_id')::uuid;
                      END $$;
                      CREATE POLICY of_application ON tenant.idempotency_keys USING (user_id = authn.current_user_id())";
    owner.batch_execute(needs_user).await.expect("the policy");
    let all = claims(16);
    for claim in &all {
        complete(&store, claim, &completion("done")).await;
    }
    let replays = async |count: usize| {
        let before = proxy.round_trips();
        for claim in all.iter().cycle().take(count) {
            assert_eq!(message(claimed(store.clone(), again(claim)).await), "done");
        }
        proxy.round_trips() - before
    };
    replays(20).await;
    let trips = replays(128).await;
    assert!(trips < 160, "{trips} round trips for 128 replays");

    execute(&owner, "DROP POLICY of_application ON tenant.idempotency_keys").await;
    until("replays go together again", async || {
        let (outcomes, trips) = at_once(&proxy, &all, |it| claimed(store.clone(), again(&it))).await;
        outcomes.into_iter().for_each(|outcome| assert_eq!(message(outcome), "done"));
        trips < 10
    })
    .await;
}

/// The server has carried all claims out, and the answer is lost; or nothing has arrived.
#[tokio::test]
async fn claims_stand_once_if_their_connection_is_lost_after_or_before_they_were_carried_out() {
    for direction in [Direction::Answers, Direction::Requests] {
        let (database, proxy, store, all) = sixteen(8).await;
        let first = start_behind_a_lock(&database, &store).await;
        let (cut, was_cut) = std::sync::mpsc::channel();
        proxy.cut_later(Cut { all: false, moment: Moment::Bytes { direction, left: 0 } }, move || {
            cut.send(()).expect("the test waits");
        });
        let outcomes = ended(start_all(&store, &all).await).await;
        assert!(outcomes.iter().all(is_acquired), "{direction:?}: {outcomes:?}");
        was_cut.try_recv().expect("the connection was cut");
        assert_stands_once(&database, &all).await;
        for claim in &all {
            assert_in_flight(&store, claim).await;
        }
        execute(&first, "ROLLBACK").await;
    }
}

#[tokio::test]
async fn a_lost_answer_is_told_to_each_call_of_the_statement_if_nothing_can_be_asked_then() {
    let database = Database::new().await;
    let (proxy, pool) = open_pool(&database, 8).await;
    // The first answer is that of the statement, not of its preparation.
    let store = together(pool).timeout(Duration::from_secs(2)).prepared_statements(PreparedStatements::Never);
    let all = claims(16);
    let proxy = std::sync::Arc::new(proxy);
    let (owner, gone) = (database.owner().await, std::sync::Arc::clone(&proxy));
    let first = new_claim();
    execute(&owner, "BEGIN").await;
    insert(&owner, &first, None).await;
    let claiming = |store: PostgresStore, claim: Claim| async move { store.claim(&claim).await };
    let started = start([&first].into_iter().chain(&all).map(|it| claiming(store.clone(), it.clone()))).await;
    until("the first one waits", async || waiting(&owner).await == 1).await;
    let cut = Cut { all: true, moment: Moment::Bytes { direction: Direction::Answers, left: 0 } };
    proxy.cut_later(cut, move || gone.cut());
    for outcome in ended(started).await {
        let error = outcome.expect_err("no connection");
        assert_eq!((error.kind(), error.may_have_happened()), (StoreErrorKind::Interrupted, true));
    }
    proxy.mend();
    assert_stands_once(&database, &all).await;
    execute(&owner, "ROLLBACK").await;
}

#[tokio::test]
async fn claims_are_made_on_other_connections_if_those_of_their_statements_are_silent() {
    let database = Database::new().await;
    let (proxy, pool) = open_pool(&database, 8).await;
    let (store, all) = (together(pool).timeout(Duration::from_secs(8)), claims(16));
    proxy.silence_connections();
    let started = start(all.iter().map(|claim| claimed(store.clone(), claim.clone()))).await;
    assert!(ended(started).await.iter().all(is_acquired));
    assert_stands_once(&database, &all).await;
}

/// A proxy, and a pool whose connections through it are all open.
async fn open_pool(database: &Database, size: usize) -> (Proxy, Pool) {
    let (proxy, pool) = database.pool_through_proxy(size).await;
    open_all(&pool).await;
    (proxy, pool)
}
