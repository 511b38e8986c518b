//! The limit of the records of one user.

use crate::prelude::*;

/// The index that the records of a user are counted by.
const INDEX: &str = "CREATE INDEX my_index ON tenant.idempotency_keys (user_id, expires)";

/// A database with a partitioned table, whose users' records can be counted.
async fn partitioned() -> Database {
    let database = plain().await;
    let owner = database.owner().await;
    migrations::partition(&owner, &Schema::default(), 4).await.expect("the partitions");
    owner.batch_execute(INDEX).await.expect("the index");
    database
}

/// A database with a table that has no partitions.
async fn plain() -> Database {
    let (database, mut owner) = Database::empty_with_owner().await;
    migrations::run(&mut owner, &Schema::default()).await.expect("the migrations run");
    migrations::limits(&owner, &Schema::default()).await.expect("the limits");
    migrations::grant(&owner, &Schema::default(), API_ROLE).await.expect("the grant");
    database
}

fn store(database: &Database) -> PostgresStore {
    PostgresStore::new(database.pool(4), ResourceTypes::none()).timeout(Duration::from_secs(30))
}

fn of(user: Uuid) -> Claim {
    Claim { resource_type: None, ..claim(user, Uuid::new_v4()) }
}

/// Claims keys of a user until one is refused. Returns the claims.
async fn fill(store: &PostgresStore, user: Uuid, most: usize) -> Vec<Claim> {
    let mut made = Vec::new();
    while made.len() < most {
        let claim = of(user);
        match store.claim(&claim).await {
            Ok(ClaimOutcome::Acquired) => made.push(claim),
            Ok(other) => panic!("a new key: {other:?}"),
            Err(error) => {
                assert_eq!(error.kind(), StoreErrorKind::UserFull, "{error:?}");
                return made;
            }
        }
    }
    panic!("{most} records and no limit");
}

fn assert_full<T: std::fmt::Debug>(refused: Result<T, StoreError>) {
    assert_eq!(refused.expect_err("the user is full").kind(), StoreErrorKind::UserFull);
}

async fn begin(store: &PostgresStore, claim: &Claim) -> Result<BeginOutcome, StoreError> {
    store.begin(claim, TransactionOptions::default()).await
}

#[tokio::test]
async fn refuse_new_calls_of_a_user_alone_and_answer_retries() {
    let database = partitioned().await;
    let store = limited(store(&database), 10);
    let user = Uuid::new_v4();
    let made = fill(&store, user, 20).await;
    assert_eq!(made.len(), 10);
    assert_full(begin(&store, &of(user)).await);
    record(&store, &made[0], "done").await;
    replay_of(&store, &made[0]).await;
    replayed(refusal(&store, &again(&made[0])).await);
    assert_in_flight(&store, &made[1]).await;
    assert_eq!(fill(&store, Uuid::new_v4(), 20).await.len(), 10, "another user");
}

#[tokio::test]
async fn let_calls_run_again_when_records_have_expired() {
    let database = partitioned().await;
    let owner = database.owner().await;
    let store = limited(store(&database), 3);
    let user = Uuid::new_v4();
    assert_eq!(fill(&store, user, 10).await.len(), 3);
    // Not swept: an expired record counts as absent.
    execute(&owner, "UPDATE tenant.idempotency_keys SET expires = now() - interval '1 second'").await;
    let claim = of(user);
    until("the next count", async || store.claim(&claim).await.is_ok()).await;
}

/// It adds no record.
#[tokio::test]
async fn let_a_full_user_take_a_call_over() {
    let database = partitioned().await;
    let store = limited(store(&database), 1);
    let user = Uuid::new_v4();
    let abandoned = Claim { lease: Duration::ZERO, ..of(user) };
    acquire(&store, &abandoned).await;
    assert_full(store.claim(&of(user)).await);
    take_over(&store, &again(&abandoned)).await;
}

#[tokio::test]
async fn count_the_commits_whose_answer_was_lost() {
    let database = partitioned().await;
    let (proxy, pool) = database.pool_through_proxy(4).await;
    let store = PostgresStore::new(pool, ResourceTypes::none()).timeout(Duration::from_secs(30));
    let store = limited(store, 10);
    let user = Uuid::new_v4();
    for made in 0..20 {
        let transaction = match begin(&store, &of(user)).await {
            Ok(BeginOutcome::Open { transaction, .. }) => transaction,
            refused => {
                assert_full(refused);
                assert_eq!(made, 10);
                return;
            }
        };
        proxy.cut_later(Cut { all: false, moment: Moment::AfterCommit }, || ());
        committed(transaction, completion("done")).await;
    }
    panic!("no limit");
}

/// Ten servers with a pool each.
fn servers(database: &Database, limited: impl Fn(PostgresStore) -> PostgresStore) -> Vec<PostgresStore> {
    let server = || PostgresStore::new(database.pool(2), ResourceTypes::none()).timeout(Duration::from_secs(60));
    (0..10).map(|_| limited(server())).collect()
}

/// Calls servers at once, as a hostile user does. Returns the number of claims until each has refused one.
async fn claim_everywhere(servers: &[PostgresStore], user: Uuid) -> usize {
    let mut callers = JoinSet::new();
    for store in servers.iter().flat_map(|store| [store; 4]) {
        let store = store.clone();
        callers.spawn(async move { fill(&store, user, 5_000).await.len() });
    }
    callers.join_all().await.into_iter().sum()
}

/// Ends all allowances, as if their time had passed, so that records are counted again.
async fn let_time_pass(owner: &Client) {
    execute(owner, "UPDATE tenant.idempotency_allowances SET until = '-infinity'").await;
}

#[tokio::test]
async fn are_exceeded_by_no_record_whatever_a_user_does_on_ten_servers() {
    let database = partitioned().await;
    let owner = database.owner().await;
    for limit in [1, 50, 1_000, 3_000] {
        let user = Uuid::new_v4();
        let servers = servers(&database, |store| limited(store, limit));
        let made = claim_everywhere(&servers, user).await;
        let count = async || count(&owner, &format!("tenant.idempotency_keys WHERE user_id = '{user}'")).await;
        assert_eq!(usize::try_from(count().await), Ok(made));
        let limit = usize::try_from(limit).expect("it is small");
        assert!((limit * 9 / 10..=limit).contains(&made), "{made} records of {limit}");
        // Allowances that the other servers have not used go to the next server that asks.
        let_time_pass(&owner).await;
        let more = async || matches!(servers[0].claim(&of(user)).await, Ok(ClaimOutcome::Acquired));
        until("the limit is reached", async || {
            while more().await {}
            usize::try_from(count().await).is_ok_and(|count| count >= limit)
        })
        .await;
        assert_full(servers[0].claim(&of(user)).await);
        assert_full(servers[9].claim(&of(user)).await);
        assert_eq!(usize::try_from(count().await), Ok(limit));
    }
}

/// The handlers of all of them run at the same time.
#[tokio::test]
async fn are_exceeded_by_no_transaction_on_ten_servers() {
    const LIMIT: u64 = 15;
    let database = partitioned().await;
    let owner = database.owner().await;
    let user = Uuid::new_v4();
    let mut callers = JoinSet::new();
    let servers = servers(&database, |store| limited(store, LIMIT));
    for store in &servers {
        for _ in 0..4 {
            let store = store.clone();
            callers.spawn(async move {
                while let Ok(BeginOutcome::Open { transaction, .. }) = begin(&store, &of(user)).await {
                    transaction.commit(Some(completion("done"))).await.expect("the store answers");
                }
            });
        }
    }
    callers.join_all().await;
    let made = count(&owner, &format!("tenant.idempotency_keys WHERE user_id = '{user}'")).await;
    assert!((10..=15).contains(&made), "{made} records");
    assert_full(servers[0].claim(&of(user)).await);
}

/// Until then, its allowance counts as if it were used up.
#[tokio::test]
async fn get_back_what_a_server_that_died_was_allowed() {
    let database = partitioned().await;
    let owner = database.owner().await;
    let user = Uuid::new_v4();
    limited(store(&database), 1_000).claim(&of(user)).await.expect("below the limit");
    let store = limited(store(&database), 5);
    let_time_pass(&owner).await;
    assert_eq!(fill(&store, user, 20).await.len(), 4);
}

/// It will leave a record, and may be open for longer than an allowance lives: other servers must not count without it.
#[tokio::test]
async fn count_an_open_transaction_and_keep_its_allowance() {
    let (database, user) = (partitioned().await, Uuid::new_v4());
    let owner = database.owner().await;
    let store = limited(store(&database), 1);
    let open = open_transaction(&store, &of(user)).await;
    assert_full(store.claim(&of(user)).await);
    let valid = "SELECT min(until)::text FROM tenant.idempotency_allowances WHERE server <> '00000000-0000-0000-0000-000000000000'";
    let valid = async || value::<String>(&owner, valid).await;
    let first = valid().await;
    until("it is kept", async || valid().await != first).await;
    assert_full(begin(&servers(&database, |store| limited(store, 1))[0], &of(user)).await);
    roll_back(open).await;
    let claim = of(user);
    until("the user has room again", async || store.claim(&claim).await.is_ok()).await;
}

/// Each sees only its own user's.
#[tokio::test]
async fn tell_the_role_nothing_of_other_users_and_are_swept() {
    let database = partitioned().await;
    let owner = database.owner().await;
    let store = limited(store(&database), 5);
    let users = [(); 2].map(|()| Uuid::new_v4());
    for user in users {
        store.claim(&of(user)).await.expect("below the limit");
    }
    let api = database.api().await;
    let seen = "SELECT DISTINCT user_id FROM tenant.idempotency_allowances";
    assert!(api.query(seen, &[]).await.is_ok_and(|rows| rows.is_empty()), "without an owner");
    api.batch_execute(&format!("SET idempotency.owner = '{}'", users[0])).await.expect("an owner");
    let rows = api.query(seen, &[]).await.expect("rows");
    assert_eq!(rows.iter().map(|row| row.get::<_, Uuid>(0)).collect::<Vec<_>>(), [users[0]]);
    let_time_pass(&owner).await;
    store.sweep(100).await.expect("a sweep");
    let left: i64 = value(&owner, "SELECT count(*) FROM tenant.idempotency_allowances").await;
    assert_eq!(left, 0);
}

/// Not those that have expired, nor, after a vacuum, the rows.
#[tokio::test]
async fn count_entries_of_the_index_of_users_alone() {
    for database in [partitioned().await, plain().await] {
        let owner = database.owner().await;
        owner.batch_execute(&INDEX.replace("INDEX", "INDEX IF NOT EXISTS")).await.expect("the index");
        let user = Uuid::new_v4();
        let insert = "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, response_bytes, expires)
                      SELECT gen_random_uuid(), CASE WHEN n % 2 = 0 THEN $1 ELSE gen_random_uuid() END, '/', '', '', now() + interval '1 day'
                      FROM generate_series(1, 20000) n";
        owner.query_typed(insert, &[(&user, Type::UUID)]).await.expect("many rows");
        owner.batch_execute("VACUUM (ANALYZE) tenant.idempotency_keys").await.expect("a vacuum");
        let mut api = database.api().await;
        let transaction = api.transaction().await.expect("a transaction");
        let usage = "SELECT * FROM tenant.idempotency_usage($1, 100000)";
        let records: i64 = transaction.query_one(usage, &[&user]).await.expect("a count").get(0);
        assert_eq!(records, 10_000);
        let read = "SELECT pg_get_indexdef(i.indexrelid), pg_stat_get_xact_tuples_returned(i.indexrelid)
                    FROM pg_index i
                    WHERE pg_stat_get_xact_tuples_returned(i.indexrelid) > 0 AND (
                        i.indrelid = 'tenant.idempotency_keys'::regclass
                        OR i.indrelid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'tenant.idempotency_keys'::regclass)
                    )";
        let read = transaction.query(read, &[]).await.expect("the statistics");
        let read: Vec<(String, i64)> = read.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert!(matches!(&*read, [(index, 10_000)] if index.ends_with("(user_id, expires)")), "{read:?}");
    }
}

/// Calls of a user wait for one count, each no longer than an operation may take.
#[tokio::test]
async fn answer_in_time_while_records_cannot_be_counted() {
    let database = partitioned().await;
    let owner = database.owner().await;
    let store = limited(store(&database), 10).timeout(Duration::from_secs(3));
    execute(&owner, "BEGIN; LOCK TABLE tenant.idempotency_keys").await;
    let user = Uuid::new_v4();
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        let store = store.clone();
        calls.spawn(async move { store.claim(&of(user)).await.map(|_| ()).map_err(|error| error.kind()) });
    }
    let answers = tokio::time::timeout(Duration::from_secs(30), calls.join_all()).await;
    assert_eq!(answers.expect("not one after the other"), vec![Err(StoreErrorKind::Overloaded); 20]);
    execute(&owner, "ROLLBACK").await;
    assert_eq!(fill(&store.timeout(Duration::from_secs(30)), user, 20).await.len(), 10);
}

/// A count that is lost has claimed nothing.
#[tokio::test]
async fn refuse_calls_that_cannot_be_counted_as_not_claimed() {
    let database = partitioned().await;
    let (proxy, pool) = database.pool_through_proxy(1).await;
    let store = PostgresStore::new(pool, ResourceTypes::none()).timeout(Duration::from_secs(2));
    let store = limited(store, 10);
    store.claim(&of(Uuid::new_v4())).await.expect("a new key");
    proxy.hold();
    for claim in [(); 2].map(|()| of(Uuid::new_v4())) {
        let error = store.claim(&claim).await.expect_err("no answer");
        assert_eq!((error.kind(), error.may_have_happened()), (StoreErrorKind::Unreachable, false), "{error:?}");
    }
    proxy.release();
}

#[tokio::test]
async fn need_an_index_of_users() {
    let database = plain().await;
    let owner = database.owner().await;
    let limited = limited(PostgresStore::new(database.pool_of_login(2).await, ResourceTypes::none()), 2);
    assert!(matches!(problems(&limited).await[..], [SetupProblem::NoIndexOfUsers { .. }]));
    let error = limited.claim(&of(Uuid::new_v4())).await.expect_err("no index");
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error:?}");
    owner.batch_execute(&INDEX.replace("INDEX", "INDEX CONCURRENTLY")).await.expect("an index of one's own");
    limited.verify().await.expect("it is set up");
    assert_eq!(fill(&limited, Uuid::new_v4(), 10).await.len(), 2);
}
