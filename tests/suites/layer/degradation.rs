//! A store that is unreachable before a call or while it runs.

use tonic_idempotency_tests::Proxy;

use crate::prelude::*;

/// The default lease.
const LEASE: Duration = Duration::from_secs(60);

async fn shop_with(build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder) -> (Shop, Proxy, Database) {
    let database = Database::new().await;
    let (proxy, pool) = database.pool_through_proxy(4).await;
    let store = postgres(pool);
    (Shop::with(|builder| build(builder.store(store))).await, proxy, database)
}

/// A shop whose calls run unprotected while its store cannot be asked.
async fn proceeds() -> (Shop, Watched) {
    Shop::watched(|builder| builder.policies(proceeding())).await
}

#[tokio::test]
async fn runs_the_handler_unprotected_if_the_policy_is_to_proceed() {
    let (shop, proxy, _database) = shop_with(|builder| builder.policies(proceeding())).await;
    proxy.cut();
    for finished in 1..=2 {
        let seen = shop.create("a").await.expect("a call");
        assert_eq!((seen.status, seen.replayed), (None, None));
        assert_eq!(shop.handler.finished(), finished);
    }
    assert_eq!(shop.create("fail").await.expect_err("the handler fails").code(), Code::NotFound);
    assert_eq!(shop.create("panic").await.expect_err("the handler panics").code(), Code::Internal);
    proxy.mend();
    shop.create("a").await.expect("the first call").assert("processing", false);
}

#[tokio::test]
async fn refuses_the_call_by_default_and_if_the_procedure_says_so() {
    let (by_default, by_default_proxy, _database) = shop_with(|builder| builder).await;
    let (shop, proxy, _other) = shop_with(|builder| builder.policies(proceeding())).await;
    by_default_proxy.cut();
    proxy.cut();
    for refused in [by_default.create("a").await, shop.pay("a").await] {
        let status = assert_refused(refused, Code::Unavailable, Reason::StoreUnavailable);
        assert!(status.get_details_retry_info().is_some_and(|info| info.retry_delay.is_some()));
    }
    assert_eq!((by_default.handler.started(), shop.handler.started()), (0, 0));
    by_default_proxy.mend();
    by_default.create("a").await.expect("the first call").assert("processing", false);
    proxy.mend();
    shop.pay("a").await.expect("the first call").assert("processing", false);
}

#[tokio::test]
async fn answers_with_an_outcome_that_cannot_be_recorded_and_records_it_later() {
    for (name, code, is_kept) in [
        ("hold", Code::Ok, true),
        ("hold and fail for good", Code::FailedPrecondition, true),
        ("hold and fail", Code::NotFound, false),
    ] {
        let final_errors = |procedure: ProcedureBuilder| procedure.final_errors([Code::FailedPrecondition]);
        let (shop, proxy, _database) = shop_with(|builder| builder.adjust_procedures(final_errors)).await;
        let call = shop.run_create(name).await;
        proxy.cut();
        shop.handler.open(2);
        let first = call.await.expect("no panic");
        assert_eq!(first.as_ref().map_or_else(Status::code, |_| Code::Ok), code, "{name}");

        proxy.mend();
        let retried = Mutex::new(None);
        until("the outcome is recorded", async || {
            let retry = shop.create(name).await;
            let is_over = retry.as_ref().map_or_else(Reason::of, |_| None).is_none();
            *retried.lock().expect("no panic") = Some(retry).filter(|_| is_over);
            is_over
        })
        .await;
        match (retried.into_inner().expect("no panic").expect("an answer"), &first) {
            (Ok(replay), Ok(first)) => replay.assert_replays("processing", first),
            (Err(status), Err(_)) => {
                assert_eq!(status.code(), code, "{name}");
                assert_eq!(status.metadata().contains_key("idempotent-replayed"), is_kept, "{name}");
            }
            (retry, first) => panic!("{first:?}, and then {retry:?}"),
        }
        assert_eq!(shop.handler.started(), if is_kept { 1 } else { 2 }, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn records_later_the_outcome_of_a_call_whose_claim_was_not_answered() {
    for (name, reason) in [("a", None), ("fail", None), ("effect and fail", Some(Reason::OutcomeUnknown))] {
        let (shop, store) = proceeds().await;
        store.lose_answer(Operation::Claim);
        // It runs unprotected, though its key is reserved.
        let first = shop.create(name).await;
        assert!(first.as_ref().is_ok_and(|seen| seen.status.is_none()) == (name == "a"), "{first:?}");
        store.mend(Operation::Claim);
        assert_refused(shop.create(name).await, Code::Aborted, Reason::InProgress);

        tokio::time::sleep(Duration::from_secs(1)).await;
        match (shop.create(name).await, first) {
            (Ok(replay), Ok(first)) => assert_eq!((replay.message, shop.handler.started()), (first.message, 1)),
            (Err(status), Err(_)) => {
                assert_eq!(Reason::of(&status), reason, "{status:?}");
                assert_eq!(shop.handler.started(), if reason.is_none() { 2 } else { 1 });
            }
            (retry, first) => panic!("{first:?}, and then {retry:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_claims_that_may_come_late() {
    let (shop, store) = Shop::watched(|builder| builder).await;
    store.hold_claims_up();
    assert_refused(shop.pay("a").await, Code::Unavailable, Reason::StoreUnavailable);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(shop.layer.shutdown(Duration::from_millis(10)).await.unfinished.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_an_unprotected_call_is_recorded_also_if_its_claim_is_carried_out_late() {
    for runs_meanwhile in [true, false] {
        let (shop, store) = proceeds().await;
        store.hold_claims_up();
        let call = shop.begin_create("hold").await;
        if !runs_meanwhile {
            shop.handler.open(1);
        }
        tokio::time::sleep(LEASE / 2).await;
        assert!(matches!(store.carry_out().await, ClaimOutcome::Acquired));
        store.mend(Operation::Claim);
        if runs_meanwhile {
            tokio::time::sleep(LEASE * 3).await;
            assert_refused(shop.create("hold").await, Code::Aborted, Reason::InProgress);
            shop.handler.open(1);
        }
        let first = call.await.expect("no panic").expect("the first call");
        tokio::time::sleep(LEASE / 6).await;
        let replay = shop.create("hold").await.expect("a replay");
        replay.assert("processing", true);
        assert_eq!((replay.message, shop.handler.started()), (first.message, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn an_unprotected_call_whose_claim_may_stand_keeps_its_key_while_it_runs() {
    for kind in [StoreErrorKind::Interrupted, StoreErrorKind::Unreachable] {
        let (shop, store) = proceeds().await;
        store.lose_answer_and_fail(Operation::Claim, kind);
        let call = shop.begin_create("hold").await;
        store.mend(Operation::Claim);
        for _ in 0..40 {
            tokio::time::sleep(LEASE / 7).await;
            assert_refused(shop.create("hold").await, Code::Aborted, Reason::InProgress);
        }
        shop.handler.open(1);
        let first = call.await.expect("no panic").expect("the first call");
        assert_eq!((first.status, first.replayed), (None, None));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let replay = shop.create("hold").await.expect("a replay");
        replay.assert("processing", true);
        assert_eq!((replay.message, shop.handler.started()), (first.message, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn an_unprotected_call_whose_claim_was_not_made_renews_nothing_and_loses_nothing() {
    let (shop, store) = proceeds().await;
    store.fail(Operation::Claim, StoreErrorKind::Interrupted);
    let calls = [shop.spawn_create("hold"), shop.with_new_key().spawn_create("lose")];
    tokio::time::sleep(LEASE * 10).await;
    assert_eq!(shop.handler.lost(), 0);
    // They ask for a lease's length whether the claim was made after all.
    let renewals = store.asked(Operation::Extend);
    assert!((4..=20).contains(&renewals), "{renewals} renewals");
    store.mend(Operation::Claim);
    // Its key is free.
    shop.handler.open(2);
    let [held, _] = calls;
    held.await.expect("no panic").expect("the first call");
    shop.create("hold").await.expect("another first call").assert("processing", false);
}

#[tokio::test(start_paused = true)]
async fn an_unprotected_call_is_told_of_a_loss_only_once_its_claim_is_known_to_stand() {
    let (shop, store) = proceeds().await;
    store.lose_answer(Operation::Claim);
    store.fail(Operation::Extend, StoreErrorKind::Unreachable);
    let call = shop.spawn_create("lose");
    tokio::time::sleep(LEASE * 10).await;
    assert_eq!(shop.handler.lost(), 0);
    store.mend(Operation::Extend);
    tokio::time::sleep(LEASE).await;
    assert_eq!(shop.handler.lost(), 0);
    store.fail(Operation::Extend, StoreErrorKind::Unreachable);
    call.await.expect("no panic").expect("it ends when it is told");
    assert_eq!(shop.handler.lost(), 1);
}
