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

/// By the time of their making, from now: a clock may be ahead a little, and a key of the future would never expire.
#[tokio::test]
async fn run_unless_they_are_older_than_the_retention_and_five_minutes_or_of_the_future() {
    let expired = Some((Code::FailedPrecondition, Reason::KeyExpired));
    let ahead = Some((Code::InvalidArgument, Reason::KeyInvalid));
    let store = MemoryStore::new();
    let shop = Shop::with(|builder| refusing(builder).store(store.clone())).await;
    let by_default = Shop::new().await;
    let mut runs = 0;
    for (key, refused) in [
        (aged(Duration::ZERO), None),
        (aged(HOUR / 2), None),
        (aged(HOUR + 4 * MINUTE), None),
        (aged(HOUR + 6 * MINUTE), expired),
        (aged(48 * HOUR), expired),
        (made(Duration::ZERO), expired),
        (made(now() + 4 * MINUTE), None),
        (made(now() + 6 * MINUTE), ahead),
        (made(now() + 24 * 365 * HOUR), ahead),
    ] {
        let shop = shop.with_key(Some(key));
        for replayed in [false, true] {
            match (shop.touch("a").await, refused) {
                (Ok(seen), None) => seen.assert("completed", replayed),
                (outcome, refused) => {
                    let (code, reason) = refused.unwrap_or_else(|| panic!("{key}: {outcome:?}"));
                    let status = assert_refused(outcome, code, reason);
                    assert!(!status.metadata().contains_key("idempotency-expires"), "{key}: {status:?}");
                    assert_eq!(status.message().contains("clock"), reason == Reason::KeyInvalid, "{key}: {status:?}");
                }
            }
        }
        runs += usize::from(refused.is_none());
        assert_eq!((shop.handler.started(), store.len()), (runs, runs), "{key}");
        by_default.with_key(Some(key)).touch("a").await.expect("a call").assert("completed", false);
    }
    // Whatever their bytes would be as a time: only version 7 has one.
    for version in (0..16).filter(|version| *version != 7) {
        let mut bytes = *made(Duration::ZERO).as_bytes();
        bytes[6] = version << 4;
        let shop = shop.with_key(Some(Uuid::from_bytes(bytes)));
        shop.touch("a").await.expect("a call").assert("completed", false);
    }
}

/// The call that held the key may have run.
#[tokio::test]
async fn are_refused_if_a_call_has_left_no_outcome() {
    let store = MemoryStore::new();
    for (age, runs) in [(2 * HOUR, 0), (HOUR / 2, 1)] {
        // The policy of the layer is to run it again.
        let shop = Shop::with(|builder| refusing(builder).store(store.clone())).await.with_key(Some(aged(age)));
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
