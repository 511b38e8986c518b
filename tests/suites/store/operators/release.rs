//! Release of keys by operators.

use super::operated::{Operated, texts};
use crate::prelude::*;

#[tokio::test]
async fn release_a_key_so_that_the_call_that_still_runs_cannot_record() {
    let operated = Operated::new().await;
    let store = &operated.store;
    let unknown = any();
    acquire(store, &unknown).await;
    store.abandon(&unknown.reservation).await.expect("the store answers");
    let first = Claim { lease: Duration::ZERO, ..any() };
    acquire(store, &first).await;
    let taken_over = Claim { lease: HOUR, ..again(&first) };
    take_over(store, &taken_over).await;
    let reserved = any();
    acquire(store, &reserved).await;

    for stuck in [&unknown, &taken_over, &reserved] {
        let Reservation { token, .. } = stuck.reservation;
        assert_eq!(operated.release(stuck, Some(token)).await.0, "released");
        assert_eq!(operated.release(stuck, Some(token)).await.0, "absent");
        let next = again(stuck);
        for claimed in [false, true] {
            assert_eq!(completed(store, stuck, "late").await, CompleteOutcome::Fenced, "claimed again: {claimed}");
            let extended = store.extend(&stuck.reservation, HOUR).await.expect("the store answers");
            assert_eq!(extended, ExtendOutcome::NotHeld, "claimed again: {claimed}");
            let released = store.release(&stuck.reservation).await.expect("the store answers");
            assert_eq!(released, ReleaseOutcome::NotHeld, "claimed again: {claimed}");
            if !claimed {
                acquire(store, &next).await;
            }
        }
        record(store, &next, "done").await;
    }
    operated.drop_owner().await;
}

/// The audit would keep it.
#[tokio::test]
async fn do_not_release_for_a_reason_of_any_length() {
    let operated = Operated::new().await;
    let held = any();
    acquire(&operated.store, &held).await;
    let release = async |length: i32| {
        let [key, user] = texts(&held);
        let release = "SELECT outcome FROM tenant.idempotency_operator_release($1, $2, $3, NULL, repeat('x', $4))";
        let parameters: Parameters<'_> =
            &[(&key, Type::TEXT), (&user, Type::TEXT), (&held.reservation.token, Type::UUID), (&length, Type::INT4)];
        operated.operator.query_typed_one(release, parameters).await
    };
    let code = release(4001).await.expect_err("too long").code().cloned();
    assert_eq!(code, Some(SqlState::STRING_DATA_RIGHT_TRUNCATION));
    assert_eq!(release(4000).await.expect("an answer").get::<_, &str>(0), "released");
    operated.drop_owner().await;
}

#[tokio::test]
async fn do_not_release_an_outcome_nor_the_reservation_of_another_call() {
    let operated = Operated::new().await;
    let store = &operated.store;
    let [held, other] = [(); 2].map(|()| any());
    acquire(store, &held).await;
    acquire(store, &other).await;
    for token in [None, Some(Uuid::new_v4()), Some(other.reservation.token)] {
        assert_eq!(operated.release(&held, token).await, ("other_token".to_owned(), None));
    }
    let responses = [StoredResponse::message("done"), StoredResponse::NotStored, StoredResponse::Error("e".into())];
    for (response, outcome) in responses.into_iter().zip(["completed", "not_stored", "failed"]) {
        let ended = any();
        complete(store, &ended, &Completion { response: response.clone(), ..completion("") }).await;
        for token in [Some(ended.reservation.token), None] {
            assert_eq!(operated.release(&ended, token).await, (outcome.to_owned(), None));
        }
        assert_eq!(replay_of(store, &ended).await.response, response);
    }
    record(store, &held, "done").await;
    assert_eq!(operated.release(&any(), None).await, ("absent".to_owned(), None));
    operated.drop_owner().await;
}

/// It has no token, and no lease that an operator could see.
#[tokio::test]
async fn release_a_reservation_of_the_go_interceptor_without_a_token() {
    let operated = Operated::new().await;
    let foreign = any();
    insert(&operated.superuser, &foreign, None).await;
    let row = operated.inspect(&foreign).await;
    assert_eq!((row.get("state"), row.get("token")), ("reserved", None::<Uuid>));
    assert_eq!(row.get::<_, Option<bool>>("lease_is_left"), None);
    assert_eq!(operated.release(&foreign, Some(Uuid::new_v4())).await.0, "other_token");
    assert_eq!(operated.release(&foreign, None).await.0, "released");
    acquire(&operated.store, &foreign).await;
    operated.drop_owner().await;
}
