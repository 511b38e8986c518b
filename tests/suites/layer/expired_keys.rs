//! Keys of version 7 that are older than the records that the server keeps.

use std::time::{SystemTime, UNIX_EPOCH};

use tonic_idempotency::policy::ExpiredKeyPolicy;
use uuid::Builder;

use crate::prelude::*;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const TOUCH: &str = "/shop.v1.Shop/Touch";

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970")
}

/// A key of version 7 that was made at this time.
fn made(at: Duration) -> Uuid {
    let at = u64::try_from(at.as_millis()).expect("a time");
    Builder::from_unix_timestamp_millis(at, Uuid::new_v4().as_bytes()[6..].try_into().expect("10 bytes")).into_uuid()
}

fn aged(age: Duration) -> Uuid {
    made(now() - age)
}

fn refusing(builder: IdempotencyLayerBuilder) -> IdempotencyLayerBuilder {
    builder.adjust_procedures(|procedure| procedure.retention(HOUR).expired_keys(ExpiredKeyPolicy::Refuse))
}

#[tokio::test]
async fn are_refused_without_a_record_and_leave_none() {
    let store = MemoryStore::new();
    let shop = Shop::with(|builder| refusing(builder).store(store.clone())).await;
    for age in [HOUR + 6 * MINUTE, 48 * HOUR, now()] {
        let shop = shop.with_key(Some(aged(age)));
        for _ in 0..2 {
            let refused = assert_refused(shop.touch("a").await, Code::FailedPrecondition, Reason::KeyExpired);
            assert!(!refused.metadata().contains_key("idempotency-expires"), "{refused:?}");
        }
    }
    assert_eq!((shop.handler.started(), store.len()), (0, 0));
}

#[tokio::test]
async fn run_as_long_as_they_are_not_older_than_the_retention_and_five_minutes() {
    let shop = Shop::with(|builder| refusing(builder).store(MemoryStore::new())).await;
    for (runs, age) in [Duration::ZERO, HOUR / 2, HOUR + 4 * MINUTE].into_iter().enumerate() {
        let shop = shop.with_key(Some(aged(age)));
        shop.touch("a").await.expect("the first call").assert("completed", false);
        shop.touch("a").await.expect("a replay").assert("completed", true);
        assert_eq!(shop.handler.started(), runs + 1);
    }
}

/// It would never expire.
#[tokio::test]
async fn of_the_future_are_refused() {
    let shop = Shop::with(|builder| refusing(builder).store(MemoryStore::new())).await;
    shop.with_key(Some(made(now() + 4 * MINUTE))).touch("a").await.expect("a clock may be ahead a little");
    for ahead in [6 * MINUTE, 24 * 365 * HOUR] {
        let refused = assert_refused(
            shop.with_key(Some(made(now() + ahead))).touch("a").await,
            Code::InvalidArgument,
            Reason::KeyInvalid,
        );
        assert!(refused.message().contains("clock"), "{refused:?}");
    }
    assert_eq!(shop.handler.started(), 1);
}

#[tokio::test]
async fn run_by_default() {
    let shop = Shop::with(|builder| builder.store(MemoryStore::new())).await;
    for key in [made(Duration::ZERO), aged(48 * HOUR), made(now() + HOUR)] {
        shop.with_key(Some(key)).touch("a").await.expect("a call").assert("completed", false);
    }
}

/// Whatever their bytes would be as a time.
#[tokio::test]
async fn are_of_version_7_alone() {
    let shop = Shop::with(|builder| refusing(builder).store(MemoryStore::new())).await;
    let old = made(Duration::ZERO);
    for version in (0..16).filter(|version| *version != 7) {
        let mut bytes = *old.as_bytes();
        bytes[6] = version << 4;
        let key = Uuid::from_bytes(bytes);
        shop.with_key(Some(key)).touch("a").await.expect("a call").assert("completed", false);
    }
}

/// The call that held the key may have run.
#[tokio::test]
async fn are_refused_if_a_call_has_left_no_outcome() {
    let store = MemoryStore::new();
    for (age, runs) in [(2 * HOUR, 0), (HOUR / 2, 1)] {
        let build = |builder: IdempotencyLayerBuilder| {
            refusing(builder).adjust_procedures(|procedure| {
                let procedure = procedure.on_lease_ended(LeasePolicy::Rerun);
                procedure.retention(HOUR).expired_keys(ExpiredKeyPolicy::Refuse)
            })
        };
        let shop = Shop::with(|builder| build(builder).store(store.clone())).await.with_key(Some(aged(age)));
        shop.die(&store, TOUCH, "a").await;
        for _ in 0..2 {
            assert_eq!(shop.touch("a").await.is_ok(), runs == 1);
        }
        assert_eq!(shop.handler.started(), runs);
    }
}

#[tokio::test]
async fn do_not_run_unprotected() {
    let store = Watched::default();
    let shop = Shop::with(|builder| refusing(builder).store(store.clone()).policies(proceeding())).await;
    store.fail(Operation::Claim, StoreErrorKind::Unreachable);
    assert_refused(shop.with_key(Some(aged(2 * HOUR))).touch("a").await, Code::Unavailable, Reason::StoreUnavailable);
    assert_eq!(shop.handler.started(), 0);
    shop.with_key(Some(aged(MINUTE))).touch("a").await.expect("it proceeds");
    assert_eq!(shop.handler.started(), 1);
}

#[tokio::test]
async fn are_refused_on_postgres_and_leave_no_row() {
    let (database, owner) = Database::with_owner().await;
    for mode in [Mode::Reserved, Mode::Transactional] {
        let store = postgres(database.pool(4));
        let shop = Shop::with(|builder| {
            builder.store(store).adjust_procedures(move |procedure| {
                procedure
                    .mode(mode)
                    .effect(EffectPolicy::Anywhere)
                    .retention(HOUR)
                    .expired_keys(ExpiredKeyPolicy::Refuse)
            })
        })
        .await;
        let late = shop.with_key(Some(aged(2 * HOUR)));
        assert_refused(late.touch("a").await, Code::FailedPrecondition, Reason::KeyExpired);
        let rows = "SELECT count(*), max(extract(epoch FROM expires - now()))::float8 FROM tenant.idempotency_keys";
        assert_eq!(owner.query_one(rows, &[]).await.expect("the table").get::<_, i64>(0), 0);

        // A record outlives the time in which its key may run.
        let shop = shop.with_key(Some(aged(MINUTE)));
        shop.touch("a").await.expect("the first call").assert("completed", false);
        let lives: f64 = owner.query_one(rows, &[]).await.expect("the table").get(1);
        assert!(lives > (HOUR + 14 * MINUTE).as_secs_f64(), "{lives}");
        // It is answered, whatever its age.
        owner
            .execute("UPDATE tenant.idempotency_keys SET idempotency_key = $1", &[&late.key])
            .await
            .expect("the record is there");
        let late = Shop { user: shop.user, ..late };
        late.touch("a").await.expect("a replay").assert("completed", true);
        assert_eq!(shop.handler.started(), 1);
        owner.execute("DELETE FROM tenant.idempotency_keys", &[]).await.expect("the record is there");
    }
}
