//! Servers that refuse to write: full, without enough replicas, with a disk that failed, or a replica that was cut off. A record counts
//! wherever it is found, but only a primary that can write may report that there is none.

use std::{fs, path::PathBuf, time::Duration};

use scratch_redis::Server;
use tokio::time::Instant;
use tonic_idempotency::{
    policy::LeasePolicy,
    rejection::{Mismatch, Reason},
    store::{
        AbandonOutcome, CallSession, Claim, ClaimOutcome, CompleteOutcome, KeyState, LookUp, Reservation, Store as _,
        StoreError, StoreErrorKind,
    },
};
use tonic_idempotency_redis::RedisStore;

use crate::{
    record::{HOUR, acquire, again, assert_replayed, claim, complete, completion, state},
    servers::{on, start},
    shop::{Shop, proceeding},
    until::until,
};

/// The time of operations that are attempted until it is over. A busy machine answers an attempt within a quarter of it.
const SHORT: Duration = Duration::from_secs(4);

/// Why a server refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// It has no memory left.
    Full,
    /// It is a replica without its primary.
    Replica,
    /// Its last snapshot failed.
    Snapshot,
    /// It has fewer replicas than `min-replicas-to-write`.
    WithoutReplicas,
}

const TROUBLES: [Trouble; 4] = [Trouble::Full, Trouble::Replica, Trouble::Snapshot, Trouble::WithoutReplicas];

impl Trouble {
    fn begin(self, server: &Server) {
        match self {
            Self::Full => set(server, "maxmemory", "1"),
            // No server listens there.
            Self::Replica => assert!(server.ask(&["REPLICAOF", "127.0.0.1", "1"]).contains("OK")),
            Self::Snapshot => {
                set(server, "save", "3600 1000000");
                fs::create_dir(snapshot(server)).expect("a directory in the place of the snapshot");
                server.ask(&["BGSAVE"]);
            }
            Self::WithoutReplicas => set(server, "min-replicas-to-write", "1"),
        }
    }

    fn end(self, server: &Server) {
        match self {
            Self::Full => set(server, "maxmemory", "0"),
            Self::Replica => assert!(server.ask(&["REPLICAOF", "NO", "ONE"]).contains("OK")),
            Self::Snapshot => {
                fs::remove_dir(snapshot(server)).expect("the directory");
                server.ask(&["BGSAVE"]);
            }
            Self::WithoutReplicas => set(server, "min-replicas-to-write", "0"),
        }
    }

    /// The error code of the server's answer to a command that writes.
    fn code(self) -> &'static str {
        match self {
            Self::Full => "OOM",
            Self::Replica => "READONLY",
            Self::Snapshot => "MISCONF",
            Self::WithoutReplicas => "NOREPLICAS",
        }
    }

    async fn is_over(self, server: &Server) {
        until("the server writes", async || server.ask(&["SET", "probe", "1"]).contains("OK")).await;
    }

    async fn is_there(self, server: &Server) {
        until("the server refuses", async || server.ask(&["SET", "probe", "1"]).contains(self.code())).await;
    }
}

fn set(server: &Server, setting: &str, value: &str) {
    assert!(server.ask(&["CONFIG", "SET", setting, value]).contains("OK"), "{setting} {value}");
}

fn snapshot(server: &Server) -> PathBuf {
    let answer = server.ask(&["CONFIG", "GET", "dir"]);
    PathBuf::from(answer.lines().nth(1).expect("a directory")).join("dump.rdb")
}

/// A store with enough time, and one with little, for operations that are repeated until their time is over.
fn stores(server: &Server) -> (RedisStore, RedisStore) {
    let store = on(server);
    (store.clone(), store.timeout(SHORT))
}

async fn look_up(store: &RedisStore, claim: &Claim) -> Result<KeyState, StoreError> {
    let Reservation { owner, key, .. } = claim.reservation;
    let question = LookUp { owner, key, session: CallSession::default(), with_status: false };
    store.look_up(&question).await.map(|found| found.state)
}

fn assert_refused<T: std::fmt::Debug>(outcome: Result<T, StoreError>, trouble: Trouble) {
    let error = outcome.expect_err("the server could not write");
    let found = (error.kind(), error.may_have_happened());
    assert_eq!(found, (StoreErrorKind::Overloaded, false), "{trouble:?}: {error:?}");
}

#[tokio::test]
async fn a_record_that_is_found_is_believed_and_none_is_not() {
    for trouble in TROUBLES {
        let Some(server) = start(&[]) else { return };
        let (store, hasty) = stores(&server);
        let [done, running, unknown, ended] = [claim(), claim(), claim(), Claim { lease: Duration::ZERO, ..claim() }];
        for claim in [&done, &running, &unknown, &ended] {
            acquire(&store, claim).await;
        }
        complete(&store, &done, "done").await;
        store.abandon(&unknown.reservation).await.expect("an abandonment");
        trouble.begin(&server);
        trouble.is_there(&server).await;

        let began = Instant::now();
        assert_replayed(&store, &done, "done").await;
        assert_eq!(state(&store, &done).await, KeyState::Completed, "{trouble:?}");
        assert_eq!(state(&store, &running).await, KeyState::Running, "{trouble:?}");
        assert_eq!(state(&store, &unknown).await, KeyState::Unknown, "{trouble:?}");
        let outcome = store.claim(&again(&running)).await.expect("a record");
        assert!(matches!(outcome, ClaimOutcome::InFlight { .. }), "{trouble:?}: {outcome:?}");
        let other = Claim { procedure: "/shop.v1.Shop/Other".to_owned(), ..again(&running) };
        let outcome = store.claim(&other).await.expect("a record");
        assert!(matches!(outcome, ClaimOutcome::Mismatch(Mismatch::Procedure)), "{trouble:?}: {outcome:?}");
        let outcome = store.claim(&Claim { on_lease_ended: LeasePolicy::Refuse, ..again(&ended) }).await;
        assert!(matches!(outcome, Ok(ClaimOutcome::OutcomeUnknown)), "{trouble:?}: {outcome:?}");
        // No time was spent on other attempts.
        assert!(began.elapsed() < Duration::from_secs(5), "{trouble:?}: {:?}", began.elapsed());

        // These would have to write, or to know that there is no record.
        let (new, taken_over) = (claim(), again(&ended));
        let claims =
            tokio::join!(hasty.claim(&new), hasty.claim(&taken_over), hasty.claim(&running), look_up(&hasty, &new));
        assert_refused(claims.0, trouble);
        assert_refused(claims.1, trouble);
        assert_refused(claims.2, trouble);
        assert_refused(claims.3, trouble);
        trouble.end(&server);
        trouble.is_over(&server).await;
        assert!(matches!(store.claim(&again(&ended)).await, Ok(ClaimOutcome::TakenOver)), "{trouble:?}");
        assert_eq!(state(&store, &claim()).await, KeyState::Absent, "{trouble:?}");
        acquire(&store, &claim()).await;
    }
}

/// The call ran: its outcome is worth the memory.
#[tokio::test]
async fn an_outcome_is_recorded_by_a_full_server_and_later_by_the_others() {
    for trouble in TROUBLES {
        let Some(server) = start(&[]) else { return };
        let (store, hasty) = stores(&server);
        let [running, kept, left, freed] = [claim(), claim(), claim(), claim()];
        for claim in [&running, &kept, &left, &freed] {
            acquire(&store, claim).await;
        }
        trouble.begin(&server);
        trouble.is_there(&server).await;
        let outcome = completion("done");
        let (completed, renewed, abandoned, released) = tokio::join!(
            hasty.complete(&running.reservation, &outcome),
            hasty.extend(&kept.reservation, HOUR),
            hasty.abandon(&left.reservation),
            hasty.release(&freed.reservation),
        );
        if trouble == Trouble::Full {
            assert_eq!(completed.expect("an outcome"), CompleteOutcome::Completed);
            assert_eq!(abandoned.expect("an abandonment"), AbandonOutcome::Abandoned);
            assert!(renewed.is_ok() && released.is_ok());
        } else {
            assert_refused(completed, trouble);
            assert_refused(renewed, trouble);
            assert_refused(abandoned, trouble);
            assert_refused(released, trouble);
        }
        trouble.end(&server);
        trouble.is_over(&server).await;
        complete(&store, &running, "done").await;
        assert_replayed(&store, &running, "done").await;
    }
}

/// The record of a call that a replica has not received yet is not absent.
#[tokio::test]
async fn a_replica_that_was_cut_off_does_not_say_that_there_was_no_call() {
    let Some(primary) = start(&["repl-diskless-sync-delay 0"]) else { return };
    let replicaof = format!("replicaof 127.0.0.1 {}", primary.address().port());
    let replica = Server::start(&[&replicaof]).expect("a replica");
    let [store, hasty] =
        [on(&primary), on(&replica).timeout(SHORT)].map(|store| store.prefix("cut").expect("a prefix"));
    let [known, missed] = [claim(), claim()];
    acquire(&store, &known).await;
    complete(&store, &known, "known").await;
    until("the replica has the record", async || replica.ask(&["DBSIZE"]).trim() == "1").await;
    assert!(replica.ask(&["REPLICAOF", "127.0.0.1", "1"]).contains("OK"));
    acquire(&store, &missed).await;
    complete(&store, &missed, "missed").await;
    assert_eq!(state(&hasty, &known).await, KeyState::Completed);
    assert_replayed(&hasty, &known, "known").await;
    let missed = again(&missed);
    let (found, claimed) = tokio::join!(look_up(&hasty, &missed), hasty.claim(&missed));
    assert_refused(found, Trouble::Replica);
    assert_refused(claimed, Trouble::Replica);
}

/// A refusal is an answer: no policy lets a handler run unprotected because of it.
#[tokio::test]
async fn no_handler_runs_unprotected_because_a_server_refuses() {
    for trouble in TROUBLES {
        let Some(server) = start(&[]) else { return };
        let store = on(&server).timeout(SHORT);
        let make = || Shop::with(|builder| builder.store(store.clone()).policies(proceeding()));
        let (shop, other) = (make().await, make().await);
        let created = shop.create("a").await.expect("the first call").into_inner();
        trouble.begin(&server);
        trouble.is_there(&server).await;
        assert_eq!(shop.create("a").await.expect("a replay").into_inner(), created, "{trouble:?}");
        let error = other.create("b").await.expect_err("refused");
        assert_eq!(Reason::of(&error), Some(Reason::Overloaded), "{trouble:?}: {error:?}");
        assert_eq!((shop.orders.started(), other.orders.started()), (1, 0), "{trouble:?}");
    }
}
