//! Abandoned calls that a client retries: the layer asks the reconciler.

use tonic_idempotency::policy::ProcedureError;

use crate::prelude::*;
use crate::witness::name_in;

const LEASE: Duration = Duration::from_secs(60);

/// Reconciles abandoned calls of the procedure that creates orders.
pub(crate) fn reconcile(builder: IdempotencyLayerBuilder, witness: &Witness) -> IdempotencyLayerBuilder {
    builder.reconciler(CREATE, witness.reconciler()).adjust_procedures(|procedure| match procedure.path() {
        CREATE => procedure.on_lease_ended(LeasePolicy::Reconcile).lease(LEASE),
        _ => procedure,
    })
}

/// A shop on this store, whose reconciler gives this answer.
pub(crate) async fn scene<S: Store + Clone>(store: S, answer: Answer) -> (Shop, S, Witness) {
    let witness = Witness::new(answer);
    (Shop::in_memory(|builder| reconcile(builder, &witness).store(store.clone())).await, store, witness)
}

/// A key that a server abandoned when it died, and a witness of its call.
async fn abandoned(answer: Answer) -> (Shop, Watched, Witness) {
    let (shop, store, witness) = scene(Watched::default(), answer).await;
    shop.die(&store, CREATE, "a").await;
    (shop, store, witness)
}

async fn a_retry_gets_the_found_response(store: impl Store + Clone) {
    let witness = Witness::new(Answer::found("found"));
    let shop = Shop::with(|builder| reconcile(builder, &witness).store(store.clone())).await;
    shop.die(&store, CREATE, "a").await;
    let found = shop.create("a").await.expect("the found response");
    found.assert("processing", true);
    assert!(found.message.contains("name: \"found\""), "{found:?}");
    for _ in 0..2 {
        shop.create("a").await.expect("a replay").assert_replays("processing", &found);
    }
    assert_eq!((shop.handler.started(), witness.asked().len()), (0, 1));
}
on_both_stores!(a_retry_gets_the_found_response);

#[tokio::test(start_paused = true)]
async fn the_resource_of_a_found_response_is_recorded() {
    let (shop, store, _) = scene(MemoryStore::new(), Answer::found("found")).await;
    shop.die(&store, CREATE, "a").await;
    let found = shop.create("a").await.expect("the found response");
    store.set_status(order_id(&found), OutboxStatus::Failed);
    shop.create("a").await.expect("a replay").assert("failed", true);
}

async fn a_retry_runs_a_call_that_was_not_executed(store: impl Store + Clone) {
    let witness = Witness::new(Answer::NotExecuted);
    let shop = Shop::with(|builder| reconcile(builder, &witness).store(store.clone())).await;
    shop.die(&store, CREATE, "a").await;
    let first = shop.create("a").await.expect("it runs");
    first.assert("processing", false);
    shop.create("a").await.expect("a replay").assert_replays("processing", &first);
    assert_eq!((shop.handler.started(), witness.asked().len()), (1, 1));

    // After an error of that run, the next retry asks and runs at once. The record still has the request of the first.
    let shop = shop.with_new_key();
    shop.die(&store, CREATE, "fail").await;
    for asked in 2..=3 {
        assert_eq!(shop.create("fail").await.expect_err("it fails").code(), Code::NotFound);
        assert_eq!((shop.handler.started(), witness.asked().len()), (asked, asked));
    }
    assert_refused(shop.create("b").await, Code::InvalidArgument, Reason::KeyReused);
}
on_both_stores!(a_retry_runs_a_call_that_was_not_executed);

async fn a_retry_is_refused_and_asks_again_if_the_outcome_is_unknown(store: impl Store + Clone) {
    let witness = Witness::new(Answer::Unknown);
    let shop = Shop::with(|builder| reconcile(builder, &witness).store(store.clone())).await;
    shop.die(&store, CREATE, "a").await;
    let mut asked = 0;
    for answer in [Answer::Unknown, Answer::Fails, Answer::Panics, Answer::Unknown] {
        witness.says(answer);
        assert_refused(shop.create("a").await, Code::FailedPrecondition, Reason::OutcomeUnknown);
        asked += 1;
        assert_eq!((shop.handler.started(), witness.asked().len()), (0, asked));
    }
    // Until the reconciler finds the response.
    witness.says(Answer::found("found"));
    shop.create("a").await.expect("the found response").assert("processing", true);
    assert_eq!((shop.handler.started(), witness.asked().len()), (0, asked + 1));
}
on_both_stores!(a_retry_is_refused_and_asks_again_if_the_outcome_is_unknown);

#[tokio::test(start_paused = true)]
async fn is_given_the_caller_key_procedure_and_request() {
    let (shop, _, witness) = abandoned(Answer::Unknown).await;
    shop.create("a").await.expect_err("the outcome is unknown");
    let [asked] = <[_; 1]>::try_from(witness.asked()).expect("one question");
    assert_eq!(Some(*asked.owner.as_uuid()), shop.user);
    assert_eq!(asked.caller.as_ref().map(tonic_idempotency::Caller::owner), Some(asked.owner));
    assert_eq!(Some(*asked.key.as_uuid()), shop.key);
    assert_eq!(asked.procedure, CREATE);
    assert_eq!(name_in(&asked).as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn is_asked_once_while_other_retries_are_refused() {
    let (shop, store, witness) = abandoned(Answer::found("found").held()).await;
    let other = shop.beside(|builder| reconcile(builder, &witness).store(store)).await;
    let call = shop.begin_create("a").await;
    for shop in [&shop, &other] {
        assert_refused(shop.create("a").await, Code::Aborted, Reason::InProgress);
    }
    assert_eq!(witness.asked().len(), 1);
    witness.open(1);
    let found = call.await.expect("no panic").expect("the found response");
    assert_eq!(other.create("a").await.expect("a replay").message, found.message);
    assert_eq!((witness.asked().len(), shop.handler.started(), other.handler.started()), (1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn is_asked_once_for_all_waiting_duplicates() {
    let witness = Witness::new(Answer::found("found").held());
    let waits = Policies { on_in_progress: InProgressPolicy::Wait, ..Policies::default() };
    let (shop, store) = Shop::watched(|builder| reconcile(builder.policies(waits), &witness)).await;
    shop.die(&store, CREATE, "a").await;
    let calls = shop.spawn_all(5, |shop| async move { shop.create("a").await });
    quiet().await;
    witness.open(1);
    for seen in calls.join_all().await {
        seen.expect("the found response").assert("processing", true);
    }
    assert_eq!((witness.asked().len(), shop.handler.started()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn goes_on_when_the_client_disconnects() {
    let (shop, _, witness) = abandoned(Answer::found("found").held()).await;
    let call = shop.begin_create("a").await;
    call.abort();
    quiet().await;
    witness.open(1);
    quiet().await;
    shop.create("a").await.expect("a replay").assert("processing", true);
    assert_eq!((witness.asked().len(), shop.handler.started()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn counts_as_unknown_if_it_takes_longer_than_half_a_lease() {
    let (shop, _, witness) = abandoned(Answer::Never).await;
    for asked in 1..=2 {
        let began = Instant::now();
        assert_refused(shop.create("a").await, Code::FailedPrecondition, Reason::OutcomeUnknown);
        let took = began.elapsed();
        assert!(took >= LEASE / 2 && took < LEASE / 2 + Duration::from_millis(50), "{took:?}");
        assert_eq!((shop.handler.started(), witness.asked().len()), (0, asked));
    }
    // An answer in time counts.
    witness.says(Answer::found("found").held());
    let call = shop.spawn_create("a");
    tokio::time::sleep(LEASE / 2 - Duration::from_millis(50)).await;
    witness.open(1);
    call.await.expect("no panic").expect("the found response").assert("processing", true);
}

#[tokio::test(start_paused = true)]
async fn leaves_the_handler_a_renewed_lease_if_it_took_long() {
    let (shop, _, witness) = abandoned(Answer::NotExecuted.held()).await;
    let call = shop.spawn_create("a");
    tokio::time::sleep(LEASE / 2 - Duration::from_millis(50)).await;
    witness.open(1);
    call.await.expect("no panic").expect("it runs").assert("processing", false);

    let shop = shop.with_new_key();
    let store = Watched::default();
    let held = shop.beside(|builder| reconcile(builder, &witness).store(store.clone())).await;
    held.die(&store, CREATE, "hold").await;
    let call = held.spawn_create("hold");
    tokio::time::sleep(LEASE / 2 - Duration::from_millis(50)).await;
    witness.open(1);
    for _ in 0..20 {
        tokio::time::sleep(LEASE / 5).await;
        assert_refused(held.create("hold").await, Code::Aborted, Reason::InProgress);
    }
    held.handler.open(1);
    call.await.expect("no panic").expect("it ran").assert("processing", false);
    assert_eq!((held.handler.started(), witness.asked().len()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn is_asked_if_a_handler_failed_after_its_effect() {
    let (shop, _, witness) = scene(Watched::default(), Answer::found("found")).await;
    for name in ["effect and fail", "effect and panic"] {
        let shop = shop.with_new_key();
        shop.create(name).await.expect_err("it fails");
        shop.create(name).await.expect("the found response").assert("processing", true);
    }
    // It is not asked if the handler failed before its effect.
    shop.create("fail").await.expect_err("it fails");
    shop.create("fail").await.expect_err("it runs again, and fails");
    assert_eq!((shop.handler.started(), witness.asked().len()), (4, 2));
}

#[tokio::test(start_paused = true)]
async fn is_not_asked_about_running_calls_other_requests_or_expired_records() {
    let (shop, _, witness) = abandoned(Answer::Unknown).await;
    assert_refused(shop.create("b").await, Code::InvalidArgument, Reason::KeyReused);
    assert_refused(shop.touch("a").await, Code::InvalidArgument, Reason::KeyReused);

    let running = shop.with_new_key();
    let _call = running.begin_create("hold").await;
    assert_refused(running.create("hold").await, Code::Aborted, Reason::InProgress);
    // The server that died claimed the key with a retention of an hour.
    tokio::time::sleep(Duration::from_secs(3601)).await;
    shop.create("a").await.expect("the key is free").assert("processing", false);
    assert!(witness.asked().is_empty());
}

#[tokio::test(start_paused = true)]
async fn is_not_asked_about_procedures_with_other_policies() {
    let (shop, store, witness) = scene(Watched::default(), Answer::Unknown).await;
    shop.die(&store, "/shop.v1.Shop/Touch", "a").await;
    shop.touch("a").await.expect("it runs again").assert("completed", false);
    let shop = shop.with_new_key();
    shop.die(&store, "/shop.v1.Shop/Pay", "a").await;
    assert_refused(shop.pay("a").await, Code::FailedPrecondition, Reason::OutcomeUnknown);
    assert!(witness.asked().is_empty());
}

/// The found response must not be lost, and the handler must not run again.
#[tokio::test(start_paused = true)]
async fn a_found_response_is_recorded_later_if_the_store_refuses_it() {
    let (shop, store, witness) = abandoned(Answer::found("found")).await;
    store.fail(Operation::Complete, StoreErrorKind::Refused);
    assert_refused(shop.create("a").await, Code::Unavailable, Reason::StoreUnavailable);
    assert_refused(shop.create("a").await, Code::Aborted, Reason::InProgress);
    store.mend(Operation::Complete);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let found = shop.create("a").await.expect("a replay");
    found.assert("processing", true);
    assert!(found.message.contains("found"), "{found:?}");
    assert_eq!((shop.handler.started(), witness.asked().len()), (0, 1));

    // The key is held until then, for however many leases.
    let shop = shop.with_new_key();
    shop.die(&store, CREATE, "a").await;
    store.fail(Operation::Complete, StoreErrorKind::Refused);
    shop.create("a").await.expect_err("it is not recorded");
    tokio::time::sleep(LEASE * 3).await;
    assert_refused(shop.create("a").await, Code::Aborted, Reason::InProgress);
    store.mend(Operation::Complete);
    tokio::time::sleep(Duration::from_secs(10)).await;
    shop.create("a").await.expect("the found response").assert("processing", true);
    assert_eq!((shop.handler.started(), witness.asked().len()), (0, 2));
}

#[test]
fn a_procedure_without_a_reconciler_cannot_be_reconciled() {
    let with = |lease: LeasePolicy, foreign: ForeignPolicy| {
        let builder =
            IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).adjust_procedures(move |procedure| match procedure.path() {
                CREATE => procedure.on_lease_ended(lease).on_foreign_reservation(foreign),
                _ => procedure,
            });
        builder.store(MemoryStore::new())
    };
    let builder = || with(LeasePolicy::Reconcile, ForeignPolicy::InProgress);
    let foreign = || with(LeasePolicy::Rerun, ForeignPolicy::Reconcile);
    let witness = Witness::new(Answer::Unknown);
    for (builder, setting) in [
        (builder(), "on_lease_ended"),
        (builder().reconciler("/shop.v1.Shop/Pay", witness.reconciler()), "on_lease_ended"),
        (foreign(), "on_foreign_reservation"),
    ] {
        let error = builder.build().expect_err("there is none");
        assert!(matches!(&error, BuildError::Procedure(ProcedureError::NoReconciler { .. })), "{error:?}");
        let message = error.to_string();
        assert!(message.contains(CREATE) && message.contains("IdempotencyLayerBuilder::reconciler"), "{message}");
        assert!(message.contains(setting), "{message}");
    }
    foreign().reconciler(CREATE, witness.reconciler()).build().expect("a layer");
    builder().reconciler(CREATE, witness.reconciler()).build().expect("a layer");
    builder().reconciler("shop.v1.Shop/CreateOrder", witness.reconciler()).build().expect("a layer");
    // Without a store no reconciler is needed.
    let policies = Policies { on_lease_ended: LeasePolicy::Reconcile, ..Policies::default() };
    IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).policies(policies).build().expect("a layer");
}
