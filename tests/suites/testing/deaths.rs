//! Processes that die.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_postgres::types::Type;
use tonic_idempotency::policy::{ExpiredKeyPolicy, LeasePolicy};
use tonic_idempotency_tests::API_ROLE;
use uuid::Timestamp;

use super::prelude::*;
use super::{
    assertions::panic_of,
    harness::{Orders, call, create, harness, hold, on, order, running, transactional},
};

const LEASE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn leave_what_they_have_recorded_to_the_next_one() {
    for describe in [transactional, |procedure| procedure] {
        let (harness, orders) = harness(create, describe);
        let key = Uuid::new_v4();
        harness.lose_answers(1);
        call(&harness, &orders, key, "lamp").await.unanswered();
        harness.restart().await;
        call(&harness, &orders, key, "lamp").await.replayed();
        assert_eq!(harness.runs(), 1);
    }
}

/// A process with the record in memory gives a replay without its store.
#[tokio::test]
async fn take_their_memory_with_them() {
    let (harness, orders) = harness(create, |procedure| procedure);
    let key = Uuid::new_v4();
    call(&harness, &orders, key, "lamp").await.executed_once();
    call(&harness, &orders, key, "lamp").await.replayed();
    harness.set_store_available(false);
    call(&harness, &orders, key, "lamp").await.replayed();
    harness.restart().await;
    call(&harness, &orders, key, "lamp").await.refused_with(Reason::StoreUnavailable);
}

#[tokio::test]
async fn leave_a_reservation_if_they_die_before_the_record() {
    for (policy, ran_again) in [(LeasePolicy::Rerun, true), (LeasePolicy::Refuse, false)] {
        let (harness, orders) = harness(create, |procedure| procedure.lease(LEASE).on_lease_ended(policy));
        let key = Uuid::new_v4();
        harness.crash_before_record();
        assert_eq!(call(&harness, &orders, key, "lamp").await.unanswered().runs(), 1);
        assert_eq!(harness.record(key).await, Record::Reserved);
        call(&harness, &orders, key, "lamp").await.refused_with(Reason::InProgress);
        harness.advance(LEASE);
        let retry = call(&harness, &orders, key, "lamp").await;
        drop(if ran_again { retry.executed_once() } else { retry.refused_with(Reason::OutcomeUnknown) });
    }
}

#[tokio::test]
async fn leave_nothing_of_a_transaction_if_they_die_before_the_record() {
    let (harness, orders) = harness(create, transactional);
    let key = Uuid::new_v4();
    harness.crash_before_record();
    assert_eq!(call(&harness, &orders, key, "lamp").await.unanswered().runs(), 1);
    harness.record(key).await.absent();
    call(&harness, &orders, key, "lamp").await.executed_once();
}

/// The effect of a call that dies is rolled back before its caller hears of it, so that a retry finds its key free.
#[tokio::test]
async fn roll_back_on_postgres() {
    let (database, owner) = Database::with_owner().await;
    let table = format!(
        "CREATE TABLE orders (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), item text NOT NULL UNIQUE);
         GRANT SELECT, INSERT ON orders TO {API_ROLE};"
    );
    owner.batch_execute(&table).await.expect("the table is made");
    let gate = Arc::new(Semaphore::new(1));
    let handler = {
        let gate = Arc::clone(&gate);
        move |request: Request<CreateOrderRequest>| {
            let gate = Arc::clone(&gate);
            async move {
                let transaction = Transaction::from_request(&request)?;
                let insert = "INSERT INTO orders (item) VALUES ($1) RETURNING id::text";
                let row = transaction.query_typed_one(insert, &[(&request.get_ref().item, Type::TEXT)]).await?;
                gate.acquire().await.map_err(|_| Status::aborted("closed"))?.forget();
                Ok(row.get(0))
            }
        }
    };
    let (harness, orders) = on(database.store(), handler, transactional);
    let key = Uuid::new_v4();

    harness.crash_before_record();
    call(&harness, &orders, key, "lamp").await.unanswered();
    let running = running(&harness, &orders, key, "lamp").await;
    harness.restart().await;
    assert_eq!(running.await.expect("no panic").unanswered().runs(), 1);
    gate.add_permits(1);
    call(&harness, &orders, key, "lamp").await.executed_once();
    call(&harness, &orders, key, "lamp").await.replayed();
    let count: i64 = owner.query_one("SELECT count(*) FROM orders", &[]).await.expect("the count").get(0);
    assert_eq!(count, 1);
}

#[tokio::test]
async fn leave_a_lease_on_postgres() {
    let database = Database::new().await;
    let (harness, orders) = on(database.store(), create, |procedure| procedure);
    let key = Uuid::new_v4();
    harness.crash_before_record();
    call(&harness, &orders, key, "lamp").await.unanswered();
    call(&harness, &orders, key, "lamp").await.refused_with(Reason::InProgress);
    assert_eq!(harness.record(key).await, Record::Reserved);
}

/// A handler that could go on when its process is dead does not.
#[tokio::test]
async fn end_running_handlers_and_renew_nothing() {
    for describe in [transactional, |procedure| procedure] {
        let (gate, ended) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let (held, counted) = (hold(&gate), Arc::clone(&ended));
        let handler = move |request| {
            let (created, counted) = (held(request), Arc::clone(&counted));
            async move {
                let created = created.await;
                counted.fetch_add(1, Ordering::SeqCst);
                created
            }
        };
        let (harness, orders) = harness(handler, describe);
        let key = Uuid::new_v4();
        let running = running(&harness, &orders, key, "lamp").await;
        harness.restart().await;
        gate.add_permits(2);
        assert_eq!(running.await.expect("no panic").unanswered().runs(), 1);
        harness.advance(LEASE);
        call(&harness, &orders, key, "lamp").await.executed_once();
        assert_eq!((ended.load(Ordering::SeqCst), gate.available_permits()), (1, 1), "the second one alone has ended");
    }
}

#[tokio::test(start_paused = true)]
async fn renew_no_lease() {
    let (harness, orders) = harness(create, |procedure| procedure.lease(LEASE));
    let key = Uuid::new_v4();
    harness.crash_before_record();
    call(&harness, &orders, key, "lamp").await.unanswered();
    tokio::time::sleep(LEASE - Duration::from_secs(1)).await;
    call(&harness, &orders, key, "lamp").await.refused_with(Reason::InProgress);
    tokio::time::sleep(Duration::from_secs(1)).await;
    call(&harness, &orders, key, "lamp").await.executed_once();
}

/// A replayed call has no handler that could end.
#[tokio::test]
async fn live_on_if_the_next_call_does_not_run_its_handler() {
    let (harness, orders) = harness(create, |procedure| procedure);
    let key = Uuid::new_v4();
    call(&harness, &orders, key, "lamp").await.executed_once();
    harness.crash_before_record();
    call(&harness, &orders, key, "lamp").await.replayed();
    call(&harness, &orders, Uuid::new_v4(), "lamp").await.executed_once();
}

/// The error of a handler is not recorded, either.
#[tokio::test]
async fn may_die_after_the_error_of_a_handler_and_without_a_key() {
    let (harness, mut orders) = harness(create, |procedure| procedure);
    let key = Uuid::new_v4();
    harness.crash_before_record();
    call(&harness, &orders, key, "nothing").await.unanswered();
    assert_eq!(harness.record(key).await, Record::Reserved);
    harness.crash_before_record();
    harness.call_without_key(order("lamp"), |request| orders.create_order(request)).await.unanswered();
    call(&harness, &orders, Uuid::new_v4(), "lamp").await.executed_once();
}

/// The caller may have given up before.
#[tokio::test]
async fn die_though_the_caller_has_gone() {
    for describe in [transactional, |procedure| procedure] {
        let gate = Arc::new(Semaphore::new(0));
        let (harness, orders) = harness(hold(&gate), describe);
        harness.crash_before_record();
        let key = Uuid::new_v4();
        let gone = running(&harness, &orders, key, "lamp").await;
        gone.abort();
        gate.add_permits(1);
        until("the handler has ended", async || gate.available_permits() == 0).await;
        gate.add_permits(1); // for the second one
        harness.advance(LEASE);
        let retry = async || call(&harness, &orders, key, "lamp").await.into_result().is_ok();
        until("there is a new process", retry).await;
        assert_eq!(harness.runs(), 2);
    }
}

/// A handler that waits for the database is rolled back later. The call that the process dies of may be dropped before that.
#[tokio::test]
async fn die_though_the_caller_goes_while_they_do() {
    let (database, owner) = Database::with_owner().await;
    owner.batch_execute("SELECT pg_advisory_lock(7)").await.expect("a lock");
    let handler = async |request: Request<CreateOrderRequest>| {
        if request.get_ref().item == "blocked" {
            Transaction::from_request(&request)?.batch_execute("SELECT pg_advisory_xact_lock(7)").await?;
        }
        create(request).await
    };
    let (harness, orders) = on(database.store(), handler, transactional);
    let blocked = tokio::spawn({
        let (harness, orders) = (harness.clone(), orders.clone());
        async move { call(&harness, &orders, Uuid::new_v4(), "blocked").await.unanswered().runs() }
    });
    let waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND database =
                     (SELECT oid FROM pg_database WHERE datname = current_database()))";
    let is_blocked = async || owner.query_one(waits, &[]).await.expect("an answer").get(0);
    until("the handler waits", is_blocked).await;

    harness.crash_before_record();
    // Without a key, it is the caller who runs the handler.
    let gone = tokio::spawn({
        let (harness, mut orders) = (harness.clone(), orders.clone());
        async move { harness.call_without_key(order("lamp"), |request| orders.create_order(request)).await.runs() }
    });
    until("the process dies", async || harness.runs() == 2).await;
    gone.abort();
    owner.batch_execute("SELECT pg_advisory_unlock(7)").await.expect("no lock");
    let unanswered = tokio::time::timeout(LEASE, blocked).await.expect("its caller hears of it");
    assert_eq!(unanswered.expect("no panic"), 1);
    call(&harness, &orders, Uuid::new_v4(), "lamp").await.executed_once();
}

/// The clock that a test has advanced is that of the next process, too.
#[tokio::test]
async fn leave_the_clock_as_it_is() {
    let (hour, refuse) = (Duration::from_secs(3600), ExpiredKeyPolicy::Refuse);
    let (harness, orders) = harness(create, |procedure| procedure.retention(hour).expired_keys(refuse));
    let key = Uuid::new_v7(Timestamp::now(uuid::NoContext));
    harness.advance(2 * hour);
    harness.restart().await;
    call(&harness, &orders, key, "lamp").await.refused_with(Reason::KeyExpired);
}

/// A layer of the dead process, which a task has kept, changes nothing in the store.
#[tokio::test(start_paused = true)]
async fn reach_the_store_no_more() {
    let (harness, orders) = harness(create, |procedure| procedure);
    let dead = harness.layer();
    harness.restart().await;
    let service = dead.layer(OrderServiceServer::new(Orders(create)));
    let mut request = Request::new(order("lamp"));
    request.metadata_mut().insert("idempotency-key", Uuid::new_v4().to_string().parse().expect("metadata"));
    request.extensions_mut().insert(harness.caller().expect("a caller").clone());
    let mut of_the_dead = OrderServiceClient::new(service);
    let answer = tokio::time::timeout(LEASE, of_the_dead.create_order(request)).await;
    answer.expect_err("it hangs");
    assert!(harness.store().is_empty());
    call(&harness, &orders, Uuid::new_v4(), "lamp").await.executed_once();
}

#[tokio::test]
async fn are_followed_by_none_if_the_layer_cannot_be_built_again() {
    let builds = AtomicUsize::new(0);
    let once = move |store| match builds.fetch_add(1, Ordering::SeqCst) {
        0 => IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store).build().map_err(|error| error.to_string()),
        _ => Err("the settings are gone".to_owned()),
    };
    let harness = Harness::with_layer(MemoryStore::new(), once, OrderServiceServer::new(Orders(create)));
    let orders = OrderServiceClient::new(harness.channel());
    let said = panic_of(async || harness.restart().await).await;
    assert_eq!(said, "the idempotency layer cannot be built: the settings are gone");
    assert_eq!(call(&harness, &orders, Uuid::new_v4(), "lamp").await.unanswered().runs(), 0);
}
