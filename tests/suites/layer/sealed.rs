//! Records that only the holder of a key reads.

use tonic_idempotency::{
    run::{self, Operation as RunOperation, Outcome, RunError},
    seal::{Key, StaticKeys},
};

use crate::harness::add_resource_columns;
use crate::prelude::*;
use crate::run::{CHARGE, ChargeError, billing};

pub(crate) const SECRET: &str = "only a holder of the key may read this";

pub(crate) fn key(id: &str) -> Key {
    let byte = id.bytes().fold(7, u8::wrapping_add);
    Key::new(id, &[byte; 32]).expect("a key")
}

pub(crate) fn keys(id: &str) -> StaticKeys {
    StaticKeys::new(key(id))
}

/// How a server treats sealed records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    /// It has no keys.
    Plain,
    Opens,
    Seals,
}

impl Server {
    fn set_up(self, builder: IdempotencyLayerBuilder, keys: &StaticKeys) -> IdempotencyLayerBuilder {
        match self {
            Self::Plain => builder,
            Self::Opens => builder.open_sealed(keys.clone()),
            Self::Seals => builder.seal(keys.clone()),
        }
    }
}

/// All bytes of the table, as hexadecimal digits and text.
pub(crate) async fn dump(database: &Database) -> String {
    let owner = database.owner().await;
    let select = "SELECT coalesce(string_agg(row_to_json(k)::text, ' '), '') FROM tenant.idempotency_keys k";
    owner.query_one(select, &[]).await.expect("a dump").get(0)
}

pub(crate) fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

fn mode(mode: Mode) -> impl Fn(ProcedureBuilder) -> ProcedureBuilder + Send + Sync {
    move |procedure| procedure.mode(mode).effect(EffectPolicy::Anywhere).final_errors([Code::FailedPrecondition])
}

/// Each pair of servers that a deployment may have. The first call is made by the one, the retry by the other.
async fn servers_get_the_records_of_others<S: Store + Clone>(store: S) {
    use Server::{Opens, Plain, Seals};
    for of in [Mode::Reserved, Mode::Transactional] {
        for (first, retry) in [
            (Plain, Plain),
            (Plain, Opens),
            (Plain, Seals),
            (Opens, Plain),
            (Opens, Opens),
            (Opens, Seals),
            (Seals, Opens),
            (Seals, Seals),
            // The one pair that a deployment must not have.
            (Seals, Plain),
        ] {
            let case = format!("{of:?}: {first:?}, {retry:?}");
            let keys = keys("one");
            let build = |server: Server| {
                let (keys, store) = (keys.clone(), store.clone());
                move |builder: IdempotencyLayerBuilder| {
                    server.set_up(builder.store(store).adjust_procedures(mode(of)), &keys)
                }
            };
            let one = Shop::with(build(first)).await;
            let other = one.beside(build(retry)).await;
            let created = one.create(SECRET).await.expect("the first call");
            let again = other.create(SECRET).await;
            if (first, retry) == (Seals, Plain) {
                assert_refused(again, Code::InvalidArgument, Reason::KeyReused);
            } else {
                again.expect(&case).assert_replays("processing", &created);
                assert_refused(other.create("another request").await, Code::InvalidArgument, Reason::KeyReused);
            }
            assert_eq!((one.handler.started(), other.handler.started()), (1, 0), "{case}");

            let failing = one.with_new_key();
            let status = failing.create("fail for good").await.expect_err("it fails");
            let retrying = other.with_key(failing.key);
            let again = retrying.create("fail for good").await.expect_err("it fails");
            if (first, retry) == (Seals, Plain) {
                assert_rejected(&again, Code::InvalidArgument, Reason::KeyReused);
            } else {
                assert_eq!((again.code(), again.message()), (status.code(), status.message()), "{case}");
                assert_eq!(again.details(), status.details(), "{case}");
                assert_eq!(again.metadata().get("shop-region"), status.metadata().get("shop-region"), "{case}");
            }
            assert_eq!(other.handler.started(), 0, "{case}");
        }
    }
}

mod servers_get_the_records_of_others {
    use super::*;

    #[tokio::test]
    async fn in_memory() {
        super::servers_get_the_records_of_others(MemoryStore::new().accept_transactions()).await;
    }

    #[tokio::test]
    async fn on_postgres() {
        let database = Database::new().await;
        add_resource_columns(&database).await;
        super::servers_get_the_records_of_others(postgres(database.pool(8))).await;
    }
}

#[tokio::test]
async fn nothing_of_a_response_or_an_error_is_in_the_table() {
    for of in [Mode::Reserved, Mode::Transactional] {
        for server in [Server::Plain, Server::Seals] {
            let database = Database::new().await;
            add_resource_columns(&database).await;
            let store = postgres(database.pool(4));
            let keys = keys("one");
            let build = |builder: IdempotencyLayerBuilder| {
                server.set_up(builder.store(store).adjust_procedures(mode(of)), &keys)
            };
            let shop = Shop::with(build).await;
            let created = shop.create(SECRET).await.expect("the first call");
            shop.with_new_key().create("fail for good").await.expect_err("it fails");
            let dump = dump(&database).await;
            // The id as it is in the message: in a column of its own it is in the open.
            let id = order_id(&created).to_string();
            for secret in [SECRET, &id, "shop-region", "the order was shipped", "SHIPPED"] {
                let is_there = dump.contains(&hex(secret));
                assert_eq!(is_there, server == Server::Plain, "{of:?}, {server:?}: {secret} in {dump}");
            }
        }
    }
}

#[tokio::test]
async fn the_hash_of_a_request_cannot_be_guessed_from_the_table() {
    for server in [Server::Plain, Server::Opens, Server::Seals] {
        let (database, keys) = (Database::new().await, keys("one"));
        let store = postgres(database.pool(4));
        let shop = Shop::with(|builder| server.set_up(builder.store(store), &keys)).await;
        shop.create("a").await.expect("the first call");
        let guessed = shop.claim(CREATE, "a").request;
        let hash: String = guessed.canonical().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(dump(&database).await.contains(&hash), server != Server::Seals, "{server:?}");
    }
}

#[tokio::test]
async fn a_rotation_changes_no_answer() {
    let (store, [one, other]) = (MemoryStore::new(), [keys("one"), keys("one")]);
    let here = Shop::with(|builder| builder.store(store.clone()).seal(one.clone())).await;
    let there = here.beside(|builder| builder.store(store.clone()).seal(other.clone())).await;
    let mut calls = Vec::new();
    let mut call = async |caller: &Shop| {
        let shop = caller.with_new_key();
        let created = shop.create(SECRET).await.expect("the first call");
        calls.push((shop.key, created));
        for (key, first) in &calls {
            for server in [&here, &there] {
                let retry = server.with_key(*key);
                retry.create(SECRET).await.expect("a replay").assert_replays("processing", first);
                assert_refused(retry.create("b").await, Code::InvalidArgument, Reason::KeyReused);
            }
        }
    };
    call(&here).await;
    for next in ["two", "three", "four"] {
        one.add(key(next)).expect("a new key");
        other.add(key(next)).expect("a new key");
        call(&there).await;
        one.rotate_to(next).expect("it is known");
        call(&here).await;
        call(&there).await;
        other.rotate_to(next).expect("it is known");
        call(&there).await;
    }
    assert_eq!(here.handler.started() + there.handler.started(), 13);
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_get_the_response_and_memory_keeps_none() {
    let policies = Policies { on_in_progress: InProgressPolicy::Wait, ..Policies::default() };
    let (shop, store) = Shop::watched(|builder| builder.policies(policies).seal(keys("one"))).await;
    let calls = shop.spawn_all(3, |shop| async move { shop.create("hold").await });
    quiet().await;
    shop.handler.open(1);
    let answers: Vec<_> = calls.join_all().await.into_iter().map(|answer| answer.expect("a response")).collect();
    assert!(answers.iter().all(|answer| answer.message == answers[0].message), "{answers:?}");
    store.set_status(order_id(&answers[0]), OutboxStatus::Completed);
    for _ in 0..3 {
        let before = store.asked(Operation::Claim);
        shop.create("hold").await.expect("a replay").assert("completed", true);
        assert_eq!(store.asked(Operation::Claim), before + 1, "a replay comes from the store");
    }
    assert_eq!(shop.handler.started(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_free_when_it_is_looked_for_otherwise_is_claimed_anew() {
    let store = Watched::default();
    let shop = Shop::in_memory(|builder| builder.store(store.clone()).seal(keys("one"))).await;
    store.mistake_claims(1);
    let first = shop.create("a").await.expect("the first call");
    // By its hashes, that of the first claim, of the plain one that was given back, and of the last one.
    assert_eq!((store.asked(Operation::Claim), store.asked(Operation::Release), store.tokens()), (3, 1, 2));
    shop.create("a").await.expect("a replay").assert_replays("processing", &first);
    let plain = shop.claim(CREATE, "a");
    let found = store.claim(&plain).await.expect("the store answers");
    assert!(matches!(found, ClaimOutcome::Mismatch(_)), "no plain hash is left: {found:?}");
}

/// The record of another hash, which the first claim has found, is gone, and one of the first hash has come.
#[tokio::test(start_paused = true)]
async fn a_key_that_changes_hands_between_two_questions_is_asked_for_once_more() {
    let store = Watched::default();
    let shop = Shop::in_memory(|builder| builder.store(store.clone()).seal(keys("one"))).await;
    let first = shop.create("a").await.expect("the first call");
    store.mistake_claims(1);
    shop.create("a").await.expect("a replay").assert_replays("processing", &first);
    // With its hash, with the plain one, and with its hash.
    assert_eq!(store.asked(Operation::Claim), 1 + 3);

    // Another call has made a record with one of the other hashes, to give it back, just when this one has asked for that hash.
    store.mistake_claims(3);
    shop.create("a").await.expect("a replay").assert_replays("processing", &first);
    assert_eq!(store.asked(Operation::Claim), 1 + 3 + 5);
    assert_refused(shop.create("b").await, Code::InvalidArgument, Reason::KeyReused);
}

#[tokio::test]
async fn a_call_takes_over_what_a_plain_server_has_left() {
    let store = MemoryStore::new();
    let rerun = |procedure: ProcedureBuilder| procedure.on_lease_ended(LeasePolicy::Rerun);
    let shop = Shop::with(|builder| builder.store(store.clone()).adjust_procedures(rerun).seal(keys("one"))).await;
    shop.die(&store, CREATE, SECRET).await;
    let created = shop.create(SECRET).await.expect("it runs again");
    created.assert("processing", false);
    shop.create(SECRET).await.expect("a replay").assert_replays("processing", &created);
    match store.claim(&shop.claim(CREATE, SECRET)).await.expect("the store answers") {
        ClaimOutcome::Replay(replay) => assert!(matches!(replay.response, StoredResponse::Sealed(_)), "{replay:?}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_outcome_that_a_reconciler_finds_is_sealed() {
    let (database, witness) = (Database::new().await, Witness::new(Answer::found(SECRET)));
    let store = postgres(database.pool(4));
    let shop = Shop::with(|builder| reconcile(builder, &witness).store(store.clone()).seal(keys("one"))).await;
    shop.die(&store, CREATE, "a").await;
    let found = shop.create("a").await.expect("the found response");
    assert!(found.message.contains(SECRET), "{found:?}");
    shop.create("a").await.expect("a replay").assert_replays("processing", &found);
    assert!(!dump(&database).await.contains(&hex(SECRET)));

    let by_recovery = shop.with_new_key();
    by_recovery.die(&store, CREATE, "a").await;
    assert_eq!(shop.layer.recovery().recover().await.expect("the store answers").completed, 1);
    let found = by_recovery.create("a").await.expect("the found response");
    assert!(found.message.contains(SECRET), "{found:?}");
    assert!(!dump(&database).await.contains(&hex(SECRET)));
    assert_eq!(shop.handler.started(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_that_is_recorded_later_is_sealed() {
    let (shop, store) = Shop::watched(|builder| builder.policies(proceeding()).seal(keys("one"))).await;
    for trouble in [Operation::Complete, Operation::Claim] {
        let shop = shop.with_new_key();
        store.lose_answer(trouble);
        let first = shop.create(SECRET).await.expect("the first call");
        store.mend(trouble);
        tokio::time::sleep(Duration::from_secs(30)).await;
        let replay = shop.create(SECRET).await.expect("a replay");
        assert_eq!((replay.message, replay.replayed.as_deref()), (first.message, Some("true")), "{trouble:?}");
    }
    assert!(store.responses().iter().all(|it| matches!(it, StoredResponse::Sealed(_))), "{:?}", store.responses());
    assert_eq!(shop.handler.started(), 2);
}

#[tokio::test]
async fn operations_are_sealed_too() {
    let (database, keys) = (Database::new().await, keys("one"));
    let charge = Procedure::operation(CHARGE);
    let builder = IdempotencyLayer::builder(DescriptorPool::global()).store(postgres(database.pool(4)));
    let layer = builder.procedure(charge).seal(keys).build().expect("an operation");
    let operation: RunOperation<run::Bytes> = layer.operation(CHARGE).expect("it is declared");
    for expected in [Outcome::First(SECRET.as_bytes().to_vec()), Outcome::Replayed(SECRET.as_bytes().to_vec())] {
        let handler = |_| async { Ok::<_, ChargeError>(SECRET.as_bytes().to_vec()) };
        let ran = operation.run(&billing(), "one", b"request", handler).await;
        assert_eq!(ran.expect("it runs"), expected);
    }
    for _ in 0..2 {
        let failed = operation.run(&billing(), "two", b"request", |_| async { Err(ChargeError::CardExpired) }).await;
        let is_final = matches!(failed, Err(RunError::Failed { error: ChargeError::CardExpired, is_final: true }));
        assert!(is_final, "{failed:?}");
    }
    let dump = dump(&database).await;
    assert!(!dump.contains(&hex(SECRET)) && !dump.contains(&hex("card expired")), "{dump}");
}
