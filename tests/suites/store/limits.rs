//! Limits of the records and bytes of one user.

use std::time::Duration;

use tcp_proxy::{Cut, Moment};
use tokio::task::JoinSet;
use tonic_idempotency::{
    migrations,
    store::{
        BeginOutcome, Claim, ClaimOutcome, CommitOutcome, CompleteOutcome, Completion, PostgresStore, ResourceTypes,
        Schema, SetupProblem, Store, StoreError, StoreErrorKind, StoredResponse, TransactionOptions, VerifyError,
    },
};
use tonic_idempotency_tests::{API_ROLE, Database, until};
use uuid::Uuid;

use crate::record::{again, claim, completion};

/// A database with a partitioned table.
async fn partitioned() -> Database {
    let database = plain().await;
    migrations::partition(&database.owner().await, &Schema::default(), 4).await.expect("the partitions");
    database
}

/// A database with a table that has no partitions.
async fn plain() -> Database {
    let database = Database::empty().await;
    let mut owner = database.owner().await;
    migrations::run(&mut owner, &Schema::default()).await.expect("the migrations run");
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

/// A limit below 200 is exact for one server.
#[tokio::test]
async fn refuse_new_calls_of_a_user_alone_and_answer_retries() {
    let database = partitioned().await;
    let store = store(&database).max_records_per_user(10);
    let user = Uuid::new_v4();
    let made = fill(&store, user, 20).await;
    assert_eq!(made.len(), 10);
    assert_full(begin(&store, &of(user)).await);
    let outcome = store.complete(&made[0].reservation, &completion("done")).await.expect("the store answers");
    assert_eq!(outcome, CompleteOutcome::Completed, "a call that holds its key is recorded");
    let replay = store.claim(&again(&made[0])).await.expect("a retry is answered");
    assert!(matches!(replay, ClaimOutcome::Replay(_)), "{replay:?}");
    let replay = begin(&store, &again(&made[0])).await.expect("a retry is answered");
    assert!(matches!(replay, BeginOutcome::Refused(ClaimOutcome::Replay(_))), "{replay:?}");
    let held = store.claim(&again(&made[1])).await.expect("a retry is answered");
    assert!(matches!(held, ClaimOutcome::InFlight { .. }), "{held:?}");
    assert_eq!(fill(&store, Uuid::new_v4(), 20).await.len(), 10, "another user");
}

#[tokio::test]
async fn count_the_records_of_transactions() {
    let database = partitioned().await;
    let store = store(&database).max_records_per_user(5);
    let user = Uuid::new_v4();
    for _ in 0..5 {
        match begin(&store, &of(user)).await.expect("below the limit") {
            BeginOutcome::Open { transaction, .. } => {
                let outcome = transaction.commit(Some(completion("done"))).await.expect("the store answers");
                assert_eq!(outcome, CommitOutcome::Committed);
            }
            other => panic!("a new key: {other:?}"),
        }
    }
    assert_full(begin(&store, &of(user)).await);
    assert_full(store.claim(&of(user)).await);
}

/// A transaction that has not ended will leave a record.
#[tokio::test]
async fn count_open_transactions() {
    let database = partitioned().await;
    let store = store(&database).max_records_per_user(1);
    let user = Uuid::new_v4();
    let open = begin(&store, &of(user)).await.expect("below the limit");
    assert_full(store.claim(&of(user)).await);
    match open {
        BeginOutcome::Open { transaction, .. } => transaction.roll_back().await,
        other => panic!("a new key: {other:?}"),
    }
    let claim = of(user);
    until("the user has room again", async || store.claim(&claim).await.is_ok()).await;
}

#[tokio::test]
async fn let_calls_run_again_when_records_have_expired() {
    let database = partitioned().await;
    let owner = database.owner().await;
    let store = store(&database).max_records_per_user(3);
    let user = Uuid::new_v4();
    assert_eq!(fill(&store, user, 10).await.len(), 3);
    // Not swept: an expired record counts as absent.
    let expire = "UPDATE tenant.idempotency_keys SET expires = now() - interval '1 second'";
    owner.batch_execute(expire).await.expect("time");
    let claim = of(user);
    until("the next count", async || store.claim(&claim).await.is_ok()).await;
}

/// It adds no record.
#[tokio::test]
async fn let_a_full_user_take_a_call_over() {
    let database = partitioned().await;
    let store = store(&database).max_records_per_user(1);
    let user = Uuid::new_v4();
    let abandoned = Claim { lease: Duration::ZERO, ..of(user) };
    let outcome = store.claim(&abandoned).await.expect("below the limit");
    assert!(matches!(outcome, ClaimOutcome::Acquired), "{outcome:?}");
    assert_full(store.claim(&of(user)).await);
    let outcome = store.claim(&again(&abandoned)).await.expect("it adds no record");
    assert!(matches!(outcome, ClaimOutcome::TakenOver), "{outcome:?}");
}

#[tokio::test]
async fn are_of_bytes_too() {
    let database = partitioned().await;
    let store = store(&database).max_bytes_per_user(100_000);
    let user = Uuid::new_v4();
    let mut bytes = 0;
    let refused = loop {
        let claim = of(user);
        match store.claim(&claim).await {
            Ok(ClaimOutcome::Acquired) => {
                // It cannot be compressed to nothing: what counts is its size before.
                let response = StoredResponse::message(vec![7; 3_000]);
                let completion = Completion { response, ..completion("") };
                store.complete(&claim.reservation, &completion).await.expect("the store answers");
                bytes += 3_000;
            }
            Ok(other) => panic!("a new key: {other:?}"),
            Err(error) => break error,
        }
        assert!(bytes < 200_000, "no limit");
    };
    assert_eq!(refused.kind(), StoreErrorKind::UserFull);
    assert!((100_000..=105_000).contains(&bytes), "{bytes}");
    assert_full(begin(&store, &of(user)).await);
}

#[tokio::test]
async fn count_the_bytes_of_commits_whose_answer_was_lost() {
    let database = partitioned().await;
    let (proxy, pool) = database.pool_through_proxy(4).await;
    let store = PostgresStore::new(pool, ResourceTypes::none()).timeout(Duration::from_secs(30));
    let store = store.max_bytes_per_user(100_000);
    let user = Uuid::new_v4();
    for bytes in (0..200_000).step_by(10_000) {
        let transaction = match begin(&store, &of(user)).await {
            Ok(BeginOutcome::Open { transaction, .. }) => transaction,
            refused => {
                assert_full(refused);
                assert!((100_000..=110_000).contains(&bytes), "{bytes}");
                return;
            }
        };
        let completion = Completion { response: StoredResponse::message(vec![7; 10_000]), ..completion("") };
        proxy.cut_later(Cut { all: false, moment: Moment::AfterCommit }, || ());
        let committed = transaction.commit(Some(completion)).await.expect("it is looked up");
        assert_eq!(committed, CommitOutcome::Committed);
    }
    panic!("no limit");
}

/// A hostile user calls ten servers at once, as fast as it can.
#[tokio::test]
async fn are_exceeded_by_five_percent_at_most_whatever_a_user_does() {
    const LIMIT: u64 = 1_000;
    let database = partitioned().await;
    let user = Uuid::new_v4();
    let mut servers = JoinSet::new();
    for _ in 0..10 {
        let store = PostgresStore::new(database.pool(2), ResourceTypes::none())
            .timeout(Duration::from_secs(60))
            .max_records_per_user(LIMIT);
        servers.spawn(async move {
            let mut callers = JoinSet::new();
            for _ in 0..4 {
                let store = store.clone();
                callers.spawn(async move { fill(&store, user, 2_000).await.len() });
            }
            callers.join_all().await.into_iter().sum::<usize>()
        });
    }
    let made: usize = servers.join_all().await.into_iter().sum();
    assert!((LIMIT as usize * 95 / 100..=LIMIT as usize * 105 / 100).contains(&made), "{made} records");
}

/// Calls of a user wait for one count, each no longer than an operation may take.
#[tokio::test]
async fn answer_in_time_while_records_cannot_be_counted() {
    let database = partitioned().await;
    let mut owner = database.owner().await;
    let store = store(&database).max_records_per_user(10).timeout(Duration::from_secs(3));
    let lock = owner.transaction().await.expect("a transaction");
    lock.batch_execute("LOCK TABLE tenant.idempotency_keys").await.expect("the lock");
    let user = Uuid::new_v4();
    let mut calls = JoinSet::new();
    for _ in 0..20 {
        let store = store.clone();
        calls.spawn(async move { store.claim(&of(user)).await.map(|_| ()).map_err(|error| error.kind()) });
    }
    let answers = tokio::time::timeout(Duration::from_secs(30), calls.join_all()).await;
    assert_eq!(answers.expect("not one after the other"), vec![Err(StoreErrorKind::Overloaded); 20]);
    lock.rollback().await.expect("the end");
    assert_eq!(fill(&store.timeout(Duration::from_secs(30)), user, 20).await.len(), 10);
}

/// A count that is lost has claimed nothing.
#[tokio::test]
async fn refuse_calls_that_cannot_be_counted_as_not_claimed() {
    let database = partitioned().await;
    let (proxy, pool) = database.pool_through_proxy(1).await;
    let store = PostgresStore::new(pool, ResourceTypes::none()).timeout(Duration::from_secs(2));
    let store = store.max_records_per_user(10);
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
    let limited = PostgresStore::new(database.pool_of_login(2).await, ResourceTypes::none()).max_records_per_user(2);
    match limited.verify().await {
        Err(VerifyError::Problems(problems)) => {
            assert!(matches!(&*problems, [SetupProblem::NoIndexOfUsers { .. }]), "{problems:?}");
        }
        other => panic!("expected a problem, got {other:?}"),
    }
    let error = limited.claim(&of(Uuid::new_v4())).await.expect_err("no index");
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error:?}");
    owner
        .batch_execute("CREATE INDEX CONCURRENTLY my_users ON tenant.idempotency_keys (user_id)")
        .await
        .expect("an index of one's own");
    limited.verify().await.expect("it is set up");
    assert_eq!(fill(&limited, Uuid::new_v4(), 10).await.len(), 2);
}
