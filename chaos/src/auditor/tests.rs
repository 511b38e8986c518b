//! Tests of the auditor: every promise is broken in turn, and every allowed case that looks like a violation is
//! accepted.

use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};
use uuid::Uuid;

use super::{
    Promise::{
        NoWrongReplay, NothingBeside, NothingElse, NothingLost, NothingStuck, NothingThoughRefused, NothingTwice,
        NothingUnprotected,
    },
    *,
};
use crate::{
    args::StorePolicy,
    fault::{BouncerFault, Failover, FaultKind, RedisFault},
    journal::{Attempt, Blackout, Entries, Fault, Purpose, Run, ServerId, UnprotectedRun, Whom},
    mode::Mode,
    operation::{Operation, Variant},
    outcome::{Acknowledgement, Outcome},
    seed::Seed,
    step::Step,
};

const SERVER: ServerId = ServerId { slot: 0, life: 1 };
const OTHER_SERVER: ServerId = ServerId { slot: 1, life: 1 };
const PAUSED: FaultKind = FaultKind::ServerPausedAt(Step::HandlerWrote);

/// Two operations, 0 and 1, with their calls and rows; in transactional mode by default.
struct Scene {
    entries: Entries,
    operations: Vec<Operation>,
    rows: Rows,
    rules: Rules,
}

impl Scene {
    fn empty() -> Self {
        let faults = "all".parse().expect("a set");
        Self {
            entries: Entries::default(),
            operations: (0..2).map(|number| Operation::new(Seed(1), number, &faults)).collect(),
            rows: Rows::default(),
            rules: Rules {
                lease: Duration::from_secs(2),
                may_lose: Losses::Nothing,
                mode: Mode::Transactional,
                on_store_unavailable: StorePolicy::Reject,
            },
        }
    }

    /// Calls of both that were acknowledged, and last retries that were replays.
    fn acknowledged() -> Self {
        (0..2).fold(Self::empty(), |scene, number| {
            scene.asks(number, 1, Purpose::Ask, response(number, false)).asks(
                number,
                9,
                Purpose::Final,
                response(number, true),
            )
        })
    }

    /// A run in which both were executed once and acknowledged, and their last retries were replays.
    fn good() -> Self {
        Self::acknowledged().row(0, Variant::Asked, id(0)).row(1, Variant::Asked, id(1))
    }

    /// A good run in which operation 1 also ran unprotected, for half a second from second `at` on; on `SERVER`.
    fn unprotected(at: u64) -> Self {
        let mut scene = Self::good().reserved();
        scene.rules.on_store_unavailable = StorePolicy::Proceed;
        let (key, asked) = (Some(scene.operations[1].key), Duration::from_secs(at));
        let (ran, cause) = (asked + Duration::from_millis(500), "unreachable".to_owned());
        scene.entries.unprotected.push(UnprotectedRun { server: SERVER, key, cause, asked, ran });
        scene
    }

    fn reserved(mut self) -> Self {
        self.rules.mode = Mode::Reserved;
        self
    }

    fn may_lose(mut self, losses: Losses) -> Self {
        self.rules.may_lose = losses;
        self
    }

    /// A fault that lasts from second `from` to second `to`.
    fn fault(mut self, kind: FaultKind, whom: Whom, from: u64, to: u64) -> Self {
        let (begun, ended) = (Duration::from_secs(from), Duration::from_secs(to));
        self.entries.faults.push(Fault { kind, whom, begun, ended });
        self
    }

    fn blackout(mut self, slot: usize, from: u64, to: u64) -> Self {
        let (begun, ended) = (Duration::from_secs(from), Duration::from_secs(to));
        self.entries.blackouts.push(Blackout { slot, begun, ended });
        self
    }

    /// A run of operation 0's handler on a server, from second `from` to second `to`.
    fn runs(mut self, server: ServerId, from: u64, to: Option<u64>) -> Self {
        let (begun, ended) = (Duration::from_secs(from), to.map(Duration::from_secs));
        self.entries.runs.push(Run { server, key: self.operations[0].key, begun, ended });
        self
    }

    fn row(mut self, number: u32, variant: Variant, id: Uuid) -> Self {
        let name = self.operations[number as usize].name(variant);
        self.rows.add(id, &name);
        self
    }

    /// Adds a call that begins in second `at` and takes half a second.
    fn call(mut self, number: u32, at: u64, variant: Variant, purpose: Purpose, outcome: Outcome) -> Self {
        let begun = Duration::from_secs(at);
        let ended = Some((begun + Duration::from_millis(500), outcome));
        self.entries.attempts.push(Attempt { operation: number, variant, purpose, server: SERVER, begun, ended });
        self
    }

    fn asks(self, number: u32, at: u64, purpose: Purpose, outcome: Outcome) -> Self {
        self.call(number, at, Variant::Asked, purpose, outcome)
    }

    fn looks_back(self, outcome: Outcome) -> Self {
        self.asks(0, 5, Purpose::LookBack, outcome)
    }

    fn changes(self, outcome: Outcome) -> Self {
        self.call(0, 5, Variant::Changed, Purpose::LookBack, outcome)
    }

    fn with(mut self, change: impl FnOnce(&mut Entries)) -> Self {
        change(&mut self.entries);
        self
    }

    fn verdict(&self) -> Verdict {
        let Self { entries, operations, rows, rules } = self;
        judge(&Evidence { entries, operations, rows, rules: *rules })
    }

    /// Asserts that exactly these promises were broken; each counts once.
    #[track_caller]
    fn breaks(&self, promises: &[Promise], row: &str) {
        let verdict = self.verdict();
        let broken: Vec<_> = verdict.counts().into_iter().filter(|(_, count)| *count > 0).collect();
        let expected: Vec<_> = promises.iter().map(|promise| (*promise, 1)).collect();
        assert_eq!(broken, expected, "{row}: {:#?}", verdict.violations);
    }
}

/// The id that an operation created first.
fn id(number: u32) -> Uuid {
    Uuid::from_u128(100 + u128::from(number))
}

/// The id that an operation created at a second execution.
fn other_id(number: u32) -> Uuid {
    Uuid::from_u128(200 + u128::from(number))
}

fn acknowledged(id: Uuid, replayed: bool) -> Outcome {
    Outcome::Acknowledged(Acknowledgement { id: Some(id), replayed, protected: true })
}

fn without_header(id: Uuid) -> Outcome {
    Outcome::Acknowledged(Acknowledgement { id: Some(id), replayed: false, protected: false })
}

fn response(number: u32, replayed: bool) -> Outcome {
    acknowledged(id(number), replayed)
}

fn refused(code: Code, reason: &str) -> Outcome {
    let details = ErrorDetails::with_error_info(reason, "tonic-idempotency", []);
    Outcome::Failed(Status::with_error_details(code, "", details).into())
}

fn unknown() -> Outcome {
    refused(Code::FailedPrecondition, "IDEMPOTENCY_OUTCOME_UNKNOWN")
}

fn mismatch() -> Outcome {
    refused(Code::InvalidArgument, "IDEMPOTENCY_KEY_REUSED")
}

fn in_flight() -> Outcome {
    refused(Code::Aborted, "IDEMPOTENCY_IN_PROGRESS")
}

fn store_failed() -> Outcome {
    refused(Code::Internal, "IDEMPOTENCY_STORE_FAILED")
}

#[test]
fn finds_no_violation_in_a_good_run() {
    let scene = Scene::good().asks(0, 1, Purpose::Hedge, in_flight()).asks(0, 2, Purpose::LookBack, Outcome::TimedOut);
    let scene = scene.looks_back(response(0, true)).changes(mismatch()).changes(in_flight());
    scene.breaks(&[], "good");
    let mut scene = Scene::empty();
    for number in 0..2 {
        scene = scene.row(number, Variant::Asked, id(number)).asks(number, 1, Purpose::Ask, Outcome::HungUp);
        scene = scene.asks(number, 9, Purpose::Final, in_flight());
        scene = scene.asks(number, 10, Purpose::Final, response(number, number == 0));
    }
    scene.breaks(&[], "only the last of several last retries executed the operation");
}

#[test]
fn finds_each_broken_promise() {
    let twice = |scene: Scene| scene.row(0, Variant::Asked, other_id(0));
    let unavailable = refused(Code::Unavailable, "IDEMPOTENCY_STORE_UNAVAILABLE");
    let no_id = Outcome::Acknowledged(Acknowledgement { id: None, replayed: false, protected: true });
    let stuck = |last| Scene::good().asks(1, 10, Purpose::Final, last);
    let mut stranger = Scene::good();
    stranger.rows.add(other_id(0), "another program's");
    for (row, scene, promises) in [
        ("two rows", twice(Scene::good()), &[NothingTwice][..]),
        ("two rows, reserved", twice(Scene::good()).reserved(), &[NothingTwice]),
        ("a response without a row", Scene::acknowledged().row(0, Variant::Asked, id(0)), &[NothingLost]),
        (
            "a later retry that executes again",
            twice(Scene::good()).looks_back(acknowledged(other_id(0), false)),
            &[NothingTwice, NothingLost],
        ),
        ("a later retry that is no replay", Scene::good().looks_back(response(0, false)), &[NothingLost]),
        ("a replay of another operation", Scene::good().looks_back(response(1, true)), &[NoWrongReplay]),
        (
            "responses that differ",
            twice(Scene::good()).looks_back(acknowledged(other_id(0), true)),
            &[NothingTwice, NoWrongReplay],
        ),
        (
            "a refused request that was executed",
            Scene::good().changes(mismatch()).row(0, Variant::Changed, other_id(0)),
            &[NothingThoughRefused],
        ),
        ("another request, replayed", Scene::good().changes(response(0, true)), &[NoWrongReplay]),
        ("another request, acknowledged", Scene::good().changes(response(0, false)), &[NothingThoughRefused]),
        // Another request has taken the key. The retries of this one are refused, and that is no further finding.
        (
            "a request executed in the place of another",
            Scene::good().row(1, Variant::Changed, id(10)).asks(1, 8, Purpose::Final, mismatch()),
            &[NothingThoughRefused],
        ),
        ("a key in flight", stuck(in_flight()), &[NothingStuck]),
        ("a key without an answer", stuck(Outcome::TimedOut), &[NothingStuck]),
        ("a key without a store", stuck(unavailable), &[NothingStuck]),
        (
            "no last retry",
            Scene::good().with(|it| it.attempts.retain(|it| it.purpose != Purpose::Final || it.operation == 0)),
            &[NothingStuck],
        ),
        ("a mismatch of its own request", Scene::good().looks_back(mismatch()), &[NothingElse]),
        ("no such thing", Scene::good().looks_back(refused(Code::NotFound, "elsewhere")), &[NothingElse]),
        ("a response without an id", Scene::good().looks_back(no_id), &[NothingElse]),
        (
            "a replay without the header",
            Scene::good().looks_back(Outcome::Acknowledged(Acknowledgement {
                id: Some(id(0)),
                replayed: true,
                protected: false,
            })),
            &[NothingElse],
        ),
        ("a store that failed", Scene::good().looks_back(store_failed()), &[NothingElse]),
        ("a row of no operation", stranger, &[NothingElse]),
        (
            "a server that ended by itself",
            Scene::good().with(|it| it.unexpected_ends.push((Duration::ZERO, SERVER))),
            &[NothingElse],
        ),
    ] {
        scene.breaks(promises, row);
    }
}

#[test]
fn accepts_an_unknown_outcome_in_reserved_mode_only_if_a_fault_may_have_lost_it() {
    let scene = |kind| {
        let scene = Scene::good().with(|entries| entries.attempts.retain(|attempt| attempt.operation == 0));
        let scene = scene.asks(1, 1, Purpose::Ask, unknown()).asks(1, 9, Purpose::Final, unknown());
        scene.fault(kind, Whom::All, 1, 2)
    };
    let reserved = scene(FaultKind::ServerKilled).reserved();
    reserved.breaks(&[], "a killed server");
    assert_eq!(reserved.verdict().unknown, 1);
    scene(FaultKind::ServerKilled).breaks(&[NothingElse], "transactional");
    for kind in [FaultKind::ConnectionsLate, FaultKind::ClientHungUp] {
        scene(kind).reserved().breaks(&[NothingStuck], &kind.to_string());
    }
}

/// The fault has to hit a call before the first response, or the server's work for it.
#[test]
fn finds_an_unknown_outcome_after_an_acknowledgement_unless_a_fault_may_have_come_between() {
    let scene = || Scene::good().reserved().asks(1, 10, Purpose::Final, unknown());
    let killed = FaultKind::ServerKilledAt(Step::BeforeSettle);
    scene().breaks(&[NothingLost, NothingStuck], "no fault");
    for (row, kind, whom, at, promises) in [
        ("the database", FaultKind::DatabaseKilled, Whom::All, 3, &[][..]),
        ("its server", killed, Whom::Server(SERVER), 2, &[]),
        ("a connection of its server", FaultKind::ConnectionCut, Whom::Slot(0), 3, &[]),
        ("its server, later", killed, Whom::Server(SERVER), 5, &[NothingLost]),
        ("another server", killed, Whom::Server(OTHER_SERVER), 2, &[NothingLost, NothingStuck]),
        ("a connection of another", FaultKind::ConnectionCut, Whom::Slot(1), 2, &[NothingLost, NothingStuck]),
        ("its client", FaultKind::ClientHungUp, Whom::Server(SERVER), 1, &[NothingLost, NothingStuck]),
    ] {
        let scene = scene().fault(kind, whom, at, at);
        scene.breaks(promises, row);
        assert_eq!(scene.verdict().refused_after_acknowledgement, usize::from(promises.len() < 2), "{row}");
    }
}

/// The first response is there after a second and a half.
#[test]
fn finds_a_handler_that_begins_beside_or_after_the_one() {
    let beside = || Scene::good().runs(SERVER, 0, Some(1)).runs(OTHER_SERVER, 0, Some(1));
    let killed = FaultKind::ServerKilled;
    for (row, scene, promises) in [
        ("one after the other", Scene::good().runs(SERVER, 0, Some(1)).runs(OTHER_SERVER, 1, Some(2)), &[][..]),
        ("one whose end is not known", Scene::good().runs(SERVER, 0, None).runs(OTHER_SERVER, 1, Some(2)), &[]),
        ("beside", beside(), &[NothingBeside]),
        ("beside, after a fault elsewhere", beside().fault(killed, Whom::Server(OTHER_SERVER), 0, 0), &[NothingBeside]),
        ("beside, when its transaction was lost", beside().fault(PAUSED, Whom::Server(SERVER), 0, 1), &[]),
        ("beside, reserved", beside().fault(PAUSED, Whom::Server(SERVER), 0, 1).reserved(), &[NothingBeside]),
        (
            "after a response, in a transaction that was lost",
            Scene::good().fault(PAUSED, Whom::Server(SERVER), 0, 2).runs(SERVER, 2, Some(3)),
            &[],
        ),
        (
            "after a response, in a transaction that was lost while its claim's answer was on its way",
            Scene::good().fault(FaultKind::DatabaseStalled, Whom::Server(SERVER), 0, 2).runs(SERVER, 2, Some(3)),
            &[],
        ),
        ("after a response", Scene::good().runs(SERVER, 2, Some(3)), &[NothingBeside]),
    ] {
        scene.breaks(promises, row);
    }
    let unprotected = Scene::unprotected(5).blackout(0, 4, 6);
    let key = unprotected.operations[1].key;
    let begun = Duration::from_secs(6);
    let run = Run { server: SERVER, key, begun, ended: None };
    unprotected.with(|entries| entries.runs.push(run)).breaks(&[], "unprotected");
}

#[test]
fn finds_an_unprotected_run_of_a_store_that_could_be_asked() {
    let finds = |scene: Scene, row: &str| scene.breaks(&[NothingUnprotected], row);
    finds(Scene::unprotected(5), "no fault");
    finds(Scene::unprotected(5).blackout(0, 3, 4), "an earlier blackout");
    finds(Scene::unprotected(5).blackout(1, 4, 6), "a blackout of another server");
    finds(Scene::unprotected(5).fault(PAUSED, Whom::Server(OTHER_SERVER), 4, 6), "another server paused");
    for kind in [
        FaultKind::AfterCommitCut,
        FaultKind::Bouncer(BouncerFault::Cut),
        FaultKind::ConnectionsCut,
        FaultKind::ConnectionsLate,
        FaultKind::ConnectionsSilenced,
        FaultKind::DatabaseStalled,
        FaultKind::ServerKilled,
    ] {
        finds(Scene::unprotected(5).fault(kind, Whom::All, 4, 6), &kind.to_string());
    }
    let cut = |scene: Scene| scene.fault(FaultKind::ConnectionCut, Whom::Slot(0), 5, 5);
    finds(cut(cut(cut(cut(Scene::unprotected(5))))), "four cuts");
    assert_eq!(Scene::unprotected(5).verdict().unprotected, 1);
}

#[test]
fn allows_an_unprotected_run_of_a_store_that_could_not_be_asked() {
    let stalled = Scene::unprotected(5).fault(FaultKind::DatabaseStalled, Whom::Slot(0), 4, 12);
    for (row, scene) in [
        ("a blackout", Scene::unprotected(5).blackout(0, 4, 6)),
        ("the database killed", Scene::unprotected(5).fault(FaultKind::DatabaseKilled, Whom::All, 4, 6)),
        ("its server paused", Scene::unprotected(5).fault(PAUSED, Whom::Server(SERVER), 1, 5)),
        ("a long stall", stalled.with(|entries| entries.unprotected[0].ran = Duration::from_secs(10))),
    ] {
        scene.breaks(&[], row);
        assert_eq!(scene.verdict().unprotected_with_need, 1, "{row}");
    }
}

#[test]
fn finds_any_unprotected_run_if_the_policy_is_to_refuse_the_call() {
    for (policy, mode) in [(StorePolicy::Proceed, Mode::Transactional), (StorePolicy::Reject, Mode::Reserved)] {
        let mut scene = Scene::unprotected(5).blackout(0, 4, 6);
        (scene.rules.on_store_unavailable, scene.rules.mode) = (policy, mode);
        scene.breaks(&[NothingUnprotected], &mode.to_string());
    }
}

#[test]
fn allows_one_duplicate_for_each_unprotected_run_and_no_more() {
    let scene = || Scene::unprotected(5).blackout(0, 4, 6);
    let twice = scene().row(1, Variant::Asked, other_id(1));
    let twice = twice.asks(1, 6, Purpose::LookBack, acknowledged(other_id(1), true));
    twice.breaks(&[], "two rows");
    assert_eq!(twice.verdict().unprotected_duplicates, 1);
    twice.row(1, Variant::Asked, Uuid::from_u128(300)).breaks(&[NothingTwice], "three rows");
    scene().row(0, Variant::Asked, other_id(0)).breaks(&[NothingTwice], "two rows of another operation");
}

#[test]
fn accepts_a_response_without_the_header_of_an_unprotected_run_only() {
    for (number, promises) in [(1, &[][..]), (0, &[NothingElse])] {
        let scene = Scene::unprotected(1).blackout(0, 0, 3);
        let scene = scene.with(|entries| entries.attempts.retain(|attempt| attempt.purpose == Purpose::Final));
        scene.asks(number, 1, Purpose::Ask, without_header(id(number))).breaks(promises, &number.to_string());
    }
}

/// With the records on Redis, the effects are in PostgreSQL, which loses none.
#[test]
fn counts_what_a_failover_has_lost_only_if_it_may_lose_it_and_there_was_one() {
    let failover = FaultKind::Primary(Failover::Kill);
    let redis = FaultKind::Redis(RedisFault::Hang);
    let lost = || Scene::acknowledged().row(0, Variant::Asked, id(0));
    let twice = || Scene::good().row(1, Variant::Asked, id(10));
    let failed = || Scene::good().looks_back(store_failed());
    for (row, scene, may_lose, kind, broken, excused) in [
        ("no failover", lost(), Losses::RecordsAndEffects, None, Some(NothingLost), None),
        ("synchronous", lost(), Losses::Nothing, Some(failover), Some(NothingLost), None),
        ("asynchronous", lost(), Losses::RecordsAndEffects, Some(failover), None, Some(NothingLost)),
        ("another promise", failed(), Losses::RecordsAndEffects, Some(failover), Some(NothingElse), None),
        ("an effect beside Redis", lost(), Losses::Records, Some(redis), Some(NothingLost), None),
        ("a record, but no fault of Redis", twice(), Losses::Records, None, Some(NothingTwice), None),
        ("a record on Redis", twice(), Losses::Records, Some(redis), None, Some(NothingTwice)),
    ] {
        let scene = scene.may_lose(may_lose);
        let scene = if let Some(kind) = kind { scene.fault(kind, Whom::All, 2, 4) } else { scene };
        scene.breaks(broken.as_slice(), row);
        let losses = scene.verdict().losses;
        assert_eq!(losses.first().map(|loss| loss.promise), excused, "{row}: {losses:?}");
    }
}
