//! Sealed records whose keys are away, destroyed or not given, and records that were changed.

use std::sync::atomic::{AtomicBool, AtomicUsize};

use metrics_util::debugging::DebuggingRecorder;
use tonic_idempotency::{
    run::{self, Operation as RunOperation, RunError},
    seal::{HashKeys, Key, KeyError, KeyRing, StaticKeys},
};
use tonic_idempotency_tests::Lines;
use tracing::level_filters::LevelFilter;

use crate::prelude::*;
use crate::run::{CHARGE, ChargeError, billing};
use crate::sealed::{SECRET, dump, hex, key, keys};

/// A ring with faults.
#[derive(Clone)]
struct Ring {
    keys: StaticKeys,
    fault: Arc<Mutex<Fault>>,
    /// Whether only the keys of records are asked for in vain.
    of_records: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    Away,
    Destroyed,
    Hangs,
    Panics,
}

impl Ring {
    fn new() -> Self {
        Self { keys: keys("one"), fault: Arc::new(Mutex::new(Fault::None)), of_records: Arc::default() }
    }

    fn set(&self, fault: Fault) {
        *self.fault.lock().expect("no panic") = fault;
    }

    async fn fault(&self) -> Result<Fault, KeyError> {
        let fault = *self.fault.lock().expect("no panic");
        match fault {
            Fault::Away => Err("the service of the keys is away".into()),
            Fault::Hangs => std::future::pending().await,
            Fault::Panics => panic!("a bug of the ring"),
            fault => Ok(fault),
        }
    }
}

impl KeyRing for Ring {
    async fn current(&self, caller: Option<&Caller>) -> Result<Option<Key>, KeyError> {
        if !self.of_records.load(Ordering::SeqCst) && self.fault().await? == Fault::Destroyed {
            return Ok(None);
        }
        self.keys.current(caller).await
    }

    async fn named(&self, caller: &Caller, id: &[u8]) -> Result<Option<Key>, KeyError> {
        match self.fault().await? {
            Fault::Destroyed => Ok(None),
            _ => self.keys.named(caller, id).await,
        }
    }

    async fn hash_keys(&self) -> Result<HashKeys, KeyError> {
        self.keys.hash_keys().await
    }
}

fn final_errors(procedure: ProcedureBuilder) -> ProcedureBuilder {
    procedure.final_errors([Code::FailedPrecondition])
}

#[tokio::test(start_paused = true)]
async fn without_keys_a_call_is_refused_before_its_claim() {
    for policies in [Policies::default(), proceeding()] {
        let ring = Ring::new();
        let (shop, store) = Shop::watched(|builder| builder.policies(policies).seal(ring.clone())).await;
        for fault in [Fault::Away, Fault::Hangs, Fault::Panics] {
            ring.set(fault);
            let began = Instant::now();
            let status = assert_refused(shop.create("a").await, Code::Unavailable, Reason::StoreUnavailable);
            assert!(retry_delay(&status) > Duration::ZERO);
            assert!(began.elapsed() < Duration::from_secs(6), "{fault:?}: {:?}", began.elapsed());
        }
        assert_eq!((store.asked(Operation::Claim), shop.handler.started()), (0, 0));
        ring.set(Fault::None);
        shop.create("a").await.expect("the first call").assert("processing", false);
    }
}

#[tokio::test(start_paused = true)]
async fn a_replay_waits_for_its_key() {
    let ring = Ring::new();
    let shop =
        Shop::in_memory(|builder| builder.store(MemoryStore::new()).adjust_procedures(final_errors).seal(ring.clone()))
            .await;
    let (created, failing) = (shop.create("a").await.expect("the first call"), shop.with_new_key());
    let failed = failing.create("fail for good").await.expect_err("it fails");
    ring.of_records.store(true, Ordering::SeqCst);
    for fault in [Fault::Away, Fault::Hangs, Fault::Panics] {
        ring.set(fault);
        for refused in [shop.create("a").await, failing.create("fail for good").await] {
            retry_delay(&assert_refused(refused, Code::Unavailable, Reason::StoreUnavailable));
        }
        // That needs no key of a record.
        assert_refused(shop.create("b").await, Code::InvalidArgument, Reason::KeyReused);
    }
    ring.set(Fault::None);
    shop.create("a").await.expect("a replay").assert_replays("processing", &created);
    let again = failing.create("fail for good").await.expect_err("it fails");
    assert_eq!((again.message(), again.details()), (failed.message(), failed.details()));
    assert_eq!(shop.handler.started(), 2);
}

/// A ring that is asked for its keys `until` times. Then they are rotated, and another server makes a record.
struct Rotated {
    keys: StaticKeys,
    until: AtomicUsize,
    other: (StaticKeys, Shop),
}

impl KeyRing for Rotated {
    async fn current(&self, caller: Option<&Caller>) -> Result<Option<Key>, KeyError> {
        self.keys.current(caller).await
    }

    async fn named(&self, caller: &Caller, id: &[u8]) -> Result<Option<Key>, KeyError> {
        self.keys.named(caller, id).await
    }

    async fn hash_keys(&self) -> Result<HashKeys, KeyError> {
        let told = self.keys.hash_keys().await;
        if self.until.fetch_sub(1, Ordering::SeqCst) == 1 {
            let (keys, shop) = &self.other;
            // Known everywhere, and then current.
            for keys in [&self.keys, keys] {
                keys.add(key("two")).expect("a second key");
            }
            keys.rotate_to("two").expect("a key");
            shop.create("a").await.expect("the first call");
        }
        told
    }
}

/// A call asks for them once before its claim, and once in each round of questions with other hashes.
#[tokio::test]
async fn a_call_whose_keys_were_rotated_since_it_got_them_is_a_retry() {
    for asked_before in 0..2 {
        let (store, keys_of_other) = (Watched::default(), keys("one"));
        let other = Shop::with(|builder| builder.store(store.clone()).seal(keys_of_other.clone())).await;
        let until = AtomicUsize::new(asked_before + 1);
        let ring = Rotated { keys: keys("one"), until, other: (keys_of_other, other.with_key(other.key)) };
        let shop = other.beside(|builder| builder.store(store.clone()).seal(ring)).await;
        store.mistake_claims(asked_before);
        let replay = shop.create("a").await.expect("a retry");
        replay.assert_replays("processing", &other.create("a").await.expect("a second retry"));
        assert_eq!((other.handler.started(), shop.handler.started()), (1, 0), "asked {asked_before} times before");
    }
}

#[tokio::test]
async fn the_key_of_a_record_is_asked_for_once_its_replay_is_authorized() {
    let (ring, may_read) = (Ring::new(), Arc::new(AtomicBool::new(false)));
    let (keys, allowed) = (ring.clone(), Arc::clone(&may_read));
    let hook = move |_| {
        let allowed = allowed.load(Ordering::SeqCst);
        async move { if allowed { Ok(()) } else { Err(Status::permission_denied("no grant")) } }
    };
    let shop = Shop::in_memory(|builder| builder.store(MemoryStore::new()).authorize_replay(hook).seal(keys)).await;
    shop.create("a").await.expect("the first call");
    ring.of_records.store(true, Ordering::SeqCst);
    ring.set(Fault::Away);
    assert_eq!(shop.create("a").await.expect_err("no grant").code(), Code::PermissionDenied);
    may_read.store(true, Ordering::SeqCst);
    assert_refused(shop.create("a").await, Code::Unavailable, Reason::StoreUnavailable);
}

#[tokio::test]
async fn with_a_destroyed_key_a_record_is_still_a_record() {
    let recorder = DebuggingRecorder::new();
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let (lines, _collecting) = Lines::collect(LevelFilter::ERROR);
    let (ring, database) = (Ring::new(), Database::new().await);
    let store = postgres(database.pool(4));
    let shop = Shop::with(|builder| builder.store(store).adjust_procedures(final_errors).seal(ring.clone())).await;
    shop.create("a").await.expect("the first call");
    let failing = shop.with_new_key();
    let failed = failing.create("fail for good").await.expect_err("it fails");
    ring.set(Fault::Destroyed);
    for _ in 0..3 {
        assert_refused(shop.create("a").await, Code::FailedPrecondition, Reason::NotStored);
        assert_refused(shop.create("b").await, Code::InvalidArgument, Reason::KeyReused);
        let again = failing.create("fail for good").await.expect_err("it fails");
        assert_eq!((again.code(), Reason::of(&again), again.details()), (failed.code(), None, &b""[..]));
        assert!(again.message().contains("can no longer be read"), "{again:?}");
        assert_eq!(again.metadata().get("idempotent-replayed").expect("a replay"), "true");
    }
    assert_eq!(shop.handler.started(), 2);
    let written = lines.take();
    assert_eq!(written.matches("its key is destroyed").count(), 1, "once a minute: {written}");
    let counted = recorder.snapshotter().snapshot().into_vec();
    let is_unreadable = |key: &metrics::Key| key.labels().any(|label| label.value() == "unreadable");
    let degraded = counted.iter().filter(|(key, ..)| key.key().name() == "idempotency_degraded_total");
    assert!(degraded.clone().any(|(key, ..)| is_unreadable(key.key())), "{counted:?}");
}

#[tokio::test]
async fn without_a_key_for_it_a_response_is_not_stored() {
    let (ring, database) = (Ring::new(), Database::new().await);
    let store = postgres(database.pool(4));
    ring.set(Fault::Destroyed);
    let shop = Shop::with(|builder| builder.store(store).adjust_procedures(final_errors).seal(ring)).await;
    shop.create(SECRET).await.expect("the first call");
    assert_refused(shop.create(SECRET).await, Code::FailedPrecondition, Reason::NotStored);
    let failing = shop.with_new_key();
    failing.create("fail for good").await.expect_err("it fails");
    let again = failing.create("fail for good").await.expect_err("it fails");
    assert_eq!((again.code(), again.message()), (Code::FailedPrecondition, "its content was not stored"));
    let dump = dump(&database).await;
    assert!(!dump.contains(&hex(SECRET)) && !dump.contains(&hex("the order was shipped")), "{dump}");
}

#[tokio::test]
async fn a_changed_record_gives_nothing_away() {
    let database = Database::new().await;
    let (store, owner) = (postgres(database.pool(4)), database.owner().await);
    let shop = Shop::with(|builder| builder.store(store).adjust_procedures(final_errors).seal(keys("one"))).await;
    for change in [
        // Cut, changed, empty, of another suite, and exchanged with another record's.
        "response_metadata = substring(response_metadata FROM 1 FOR length(response_metadata) - 1)",
        "response_metadata = substring(response_metadata FROM 1 FOR 40)",
        "response_metadata = set_byte(response_metadata, 90, get_byte(response_metadata, 90) # 1)",
        r"response_metadata = '\x00'",
        r"response_metadata = ''",
        "response_metadata = set_byte(response_metadata, 1, 2)",
        "response_metadata = (SELECT o.response_metadata FROM tenant.idempotency_keys o
                              WHERE o.id <> k.id AND o.response_metadata IS NOT NULL AND o.user_id = k.user_id LIMIT 1)",
        "procedure = '/shop.v1.Shop/Touch'",
    ] {
        let [call, other] = [(); 2].map(|()| shop.with_new_key());
        call.create(SECRET).await.expect("the first call");
        other.create(SECRET).await.expect("another call");
        let update = format!("UPDATE tenant.idempotency_keys k SET {change} WHERE idempotency_key = $1");
        let changed = owner.execute(update.as_str(), &[&call.key.expect("a key")]).await.expect("a change");
        assert_eq!(changed, 1, "{change}");
        let again = if change.starts_with("procedure") { call.touch(SECRET).await } else { call.create(SECRET).await };
        let status = assert_refused(again, Code::FailedPrecondition, Reason::NotStored);
        assert!(!format!("{status:?}").contains(SECRET), "{status:?}");
    }
}

#[tokio::test]
async fn an_error_that_cannot_be_decoded_is_an_error_of_the_store() {
    let database = Database::new().await;
    let (store, owner) = (postgres(database.pool(4)), database.owner().await);
    let shop = Shop::with(|builder| builder.store(store).adjust_procedures(final_errors)).await;
    shop.create("fail for good").await.expect_err("it fails");
    for (error, reason) in [(r"\xff", Some(Reason::StoreFailed)), (r"\x0809", None), (r"\x080942050001020304", None)] {
        let update = format!("UPDATE tenant.idempotency_keys SET error_bytes = '{error}'");
        owner.batch_execute(&update).await.expect("a change");
        let status = shop.create("fail for good").await.expect_err("it fails");
        assert_eq!(Reason::of(&status), reason, "{error}: {status:?}");
        let code = if reason.is_some() { Code::Internal } else { Code::FailedPrecondition };
        assert_eq!(status.code(), code, "{error}: {status:?}");
    }
    assert_eq!(shop.handler.started(), 1);
}

#[tokio::test]
async fn the_error_of_an_operation_is_not_misread_without_its_key() {
    let ring = Ring::new();
    let builder = IdempotencyLayer::builder(DescriptorPool::global()).store(MemoryStore::new());
    let layer = builder.procedure(Procedure::operation(CHARGE)).seal(ring.clone()).build().expect("an operation");
    let operation: RunOperation<run::Bytes> = layer.operation(CHARGE).expect("it is declared");
    let fail = async || operation.run(&billing(), "one", b"request", |_| async { Err(ChargeError::CardExpired) }).await;
    assert!(matches!(fail().await, Err(RunError::Failed { .. })));
    ring.set(Fault::Destroyed);
    let unreadable = fail().await.expect_err("it fails");
    assert!(matches!(unreadable, RunError::Unreadable { is_success: false, .. }), "{unreadable:?}");
    assert!(unreadable.to_string().contains("can no longer be read"), "{unreadable}");
}
