//! Tests of the auditor: every promise is broken in turn, and every allowed case that looks like a violation is
//! accepted.

use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};
use uuid::Uuid;

use super::*;
use crate::{
    args::{LeasePolicy, StorePolicy},
    fault::FaultKind,
    journal::{Attempt, Blackout, Crowd, Fault, Purpose, ServerId, Starved, UnprotectedRun, Whom},
    mode::Mode,
    operation::Variant,
    outcome::{Acknowledgement, Outcome},
    seed::Seed,
    step::Step,
};

const SERVER: ServerId = ServerId { slot: 0, life: 1 };
const OTHER_SERVER: ServerId = ServerId { slot: 1, life: 1 };

/// Two operations, 0 and 1, with their calls and rows; in transactional mode by default.
struct Scene {
    entries: Entries,
    operations: Vec<Operation>,
    rows: Rows,
    rules: Rules,
}

impl Scene {
    /// A run in which both were executed once and acknowledged, and their last retries were replays.
    fn good() -> Self {
        let mut scene = Self::empty();
        for number in 0..2 {
            scene.row(number, Variant::Asked, id(number));
            scene.asked(number, 1, Purpose::Ask, response(number, false));
            scene.asked(number, 9, Purpose::Final, response(number, true));
        }
        scene
    }

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
                on_lease_ended: LeasePolicy::Refuse,
                on_store_unavailable: StorePolicy::Reject,
            },
        }
    }

    fn reserved(mut self, on_lease_ended: LeasePolicy) -> Self {
        self.rules = Rules { mode: Mode::Reserved, on_lease_ended, ..self.rules };
        self
    }

    /// A good run in which operation 1 also ran unprotected, for half a second from second `at` on; on `SERVER`.
    fn unprotected(at: u64) -> Self {
        let mut scene = Self::good().reserved(LeasePolicy::Refuse);
        scene.rules.on_store_unavailable = StorePolicy::Proceed;
        let (key, asked) = (Some(scene.operations[1].key), Duration::from_secs(at));
        let (ran, cause) = (asked + Duration::from_millis(500), "unreachable".to_owned());
        scene.entries.unprotected.push(UnprotectedRun { server: SERVER, key, cause, asked, ran });
        scene
    }

    /// A fault that lasts from second `from` to second `to`.
    fn lasting(mut self, kind: FaultKind, whom: Whom, from: u64, to: u64) -> Self {
        let (begun, ended) = (Duration::from_secs(from), Duration::from_secs(to));
        self.entries.faults.push(Fault { kind, whom, begun, ended });
        self
    }

    fn blackout(mut self, slot: usize, from: u64, to: u64) -> Self {
        let (begun, ended) = (Duration::from_secs(from), Duration::from_secs(to));
        self.entries.blackouts.push(Blackout { slot, begun, ended });
        self
    }

    fn row(&mut self, number: u32, variant: Variant, id: Uuid) {
        let name = self.operations[number as usize].name(variant);
        self.rows.add(id, &name);
    }

    /// Adds a call that begins in second `at` and takes half a second.
    fn call(&mut self, number: u32, at: u64, variant: Variant, purpose: Purpose, outcome: Outcome) {
        let begun = Duration::from_secs(at);
        let ended = Some((begun + Duration::from_millis(500), outcome));
        let attempt = Attempt { operation: number, variant, purpose, server: SERVER, begun, ended };
        self.entries.attempts.push(attempt);
    }

    fn asked(&mut self, number: u32, at: u64, purpose: Purpose, outcome: Outcome) {
        self.call(number, at, Variant::Asked, purpose, outcome);
    }

    fn fault(&mut self, kind: FaultKind, whom: Whom, at: u64) {
        let at = Duration::from_secs(at);
        self.entries.faults.push(Fault { kind, whom, begun: at, ended: at });
    }

    fn verdict(&self) -> Verdict {
        let Self { entries, operations, rows, rules } = self;
        judge(&Evidence { entries, operations, rows, rules: *rules })
    }

    /// Asserts that exactly these promises were broken; each counts once.
    #[track_caller]
    fn breaks(&self, promises: &[Promise]) {
        let verdict = self.verdict();
        let broken: Vec<_> = verdict.counts().into_iter().filter(|(_, count)| *count > 0).collect();
        let expected: Vec<_> = promises.iter().map(|promise| (*promise, 1)).collect();
        assert_eq!(broken, expected, "{:#?}", verdict.violations);
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

#[test]
fn finds_no_violation_in_a_good_run() {
    let mut scene = Scene::good();
    scene.asked(0, 1, Purpose::Hedge, in_flight());
    scene.asked(0, 2, Purpose::LookBack, Outcome::TimedOut);
    scene.asked(0, 3, Purpose::LookBack, response(0, true));
    scene.call(0, 3, Variant::Changed, Purpose::LookBack, mismatch());
    scene.call(0, 4, Variant::Changed, Purpose::LookBack, in_flight());
    scene.breaks(&[]);
}

#[test]
fn finds_no_violation_if_only_the_last_retry_executed_the_operation() {
    let mut scene = Scene::empty();
    for number in 0..2 {
        scene.row(number, Variant::Asked, id(number));
        scene.asked(number, 1, Purpose::Ask, Outcome::HungUp);
        scene.asked(number, 9, Purpose::Final, response(number, number == 0));
    }
    scene.breaks(&[]);
}

#[test]
fn finds_duplicates() {
    let mut scene = Scene::good();
    scene.row(1, Variant::Asked, other_id(1));
    scene.breaks(&[Promise::NothingTwice]);
    scene.reserved(LeasePolicy::Reconcile).breaks(&[Promise::NothingTwice]);
}

#[test]
fn allows_a_rerun_only_if_a_fault_may_have_hit_the_operation() {
    let scene = |kind, whom, at| {
        let mut scene = Scene::good().reserved(LeasePolicy::Rerun);
        scene.row(1, Variant::Asked, other_id(1));
        scene.fault(kind, whom, at);
        scene
    };
    let killed = FaultKind::ServerKilledAt(Step::BeforeSettle);
    let allowed = scene(killed, Whom::Server(SERVER), 2);
    allowed.breaks(&[]);
    assert_eq!(allowed.verdict().reruns, 1);
    scene(FaultKind::DatabaseKilled, Whom::All, 3).breaks(&[]);
    scene(FaultKind::ConnectionCut, Whom::Slot(0), 3).breaks(&[]);

    let mut late = scene(killed, Whom::Server(SERVER), 7);
    late.asked(1, 7, Purpose::LookBack, response(1, true));
    late.breaks(&[Promise::NothingTwice]);
    scene(killed, Whom::Server(OTHER_SERVER), 2).breaks(&[Promise::NothingTwice]);
    scene(killed, Whom::Server(SERVER), 5).breaks(&[Promise::NothingTwice]);
    scene(FaultKind::ConnectionCut, Whom::Slot(1), 2).breaks(&[Promise::NothingTwice]);
    scene(FaultKind::ClientHungUp, Whom::Server(SERVER), 1).breaks(&[Promise::NothingTwice]);
    scene(killed, Whom::Server(SERVER), 2).reserved(LeasePolicy::Refuse).breaks(&[Promise::NothingTwice]);
}

#[test]
fn allows_a_second_execution_with_reconcile_only_if_a_fault_held_up_the_handler() {
    let scene = |kind, lasted, policy| {
        let mut scene = Scene::good().reserved(policy);
        scene.row(1, Variant::Asked, other_id(1));
        let begun = Duration::from_secs(1);
        scene.entries.faults.push(Fault { kind, whom: Whom::Server(SERVER), begun, ended: begun + lasted });
        scene
    };
    let (paused, lease) = (FaultKind::ServerPausedAt(Step::HandlerWrote), Duration::from_secs(2));
    let allowed = scene(paused, lease, LeasePolicy::Reconcile);
    allowed.breaks(&[]);
    assert_eq!(allowed.verdict().reruns, 1);

    scene(paused, lease / 2, LeasePolicy::Reconcile).breaks(&[Promise::NothingTwice]);
    scene(paused, lease, LeasePolicy::Refuse).breaks(&[Promise::NothingTwice]);
    scene(FaultKind::ServerKilled, lease, LeasePolicy::Reconcile).breaks(&[Promise::NothingTwice]);
}

#[test]
fn finds_a_response_without_a_row() {
    let mut scene = Scene::empty();
    scene.row(0, Variant::Asked, id(0));
    for number in 0..2 {
        scene.asked(number, 1, Purpose::Ask, response(number, false));
        scene.asked(number, 9, Purpose::Final, response(number, true));
    }
    scene.breaks(&[Promise::NothingLost]);
}

#[test]
fn finds_a_later_retry_that_executes_again() {
    let mut scene = Scene::good();
    scene.row(0, Variant::Asked, other_id(0));
    scene.asked(0, 5, Purpose::LookBack, acknowledged(other_id(0), false));
    scene.breaks(&[Promise::NothingTwice, Promise::NothingLost]);
}

#[test]
fn finds_a_later_retry_that_is_not_a_replay() {
    let mut scene = Scene::good();
    scene.asked(0, 5, Purpose::LookBack, response(0, false));
    scene.breaks(&[Promise::NothingLost]);
}

#[test]
fn finds_a_replay_of_another_operation() {
    let mut scene = Scene::good();
    scene.asked(0, 5, Purpose::LookBack, response(1, true));
    scene.breaks(&[Promise::NoWrongReplay]);
}

#[test]
fn finds_responses_that_differ() {
    let mut scene = Scene::good();
    scene.row(0, Variant::Asked, other_id(0));
    scene.asked(0, 5, Purpose::LookBack, acknowledged(other_id(0), true));
    scene.breaks(&[Promise::NothingTwice, Promise::NoWrongReplay]);
}

#[test]
fn finds_a_refused_request_that_was_executed() {
    let mut scene = Scene::good();
    scene.call(0, 5, Variant::Changed, Purpose::LookBack, mismatch());
    scene.row(0, Variant::Changed, other_id(0));
    scene.breaks(&[Promise::NothingThoughRefused]);
}

#[test]
fn finds_an_acknowledgement_of_another_request() {
    for (replayed, promise) in [(true, Promise::NoWrongReplay), (false, Promise::NothingThoughRefused)] {
        let mut scene = Scene::good();
        scene.call(0, 5, Variant::Changed, Purpose::LookBack, response(0, replayed));
        scene.breaks(&[promise]);
    }
}

#[test]
fn finds_keys_that_are_stuck() {
    for last in [in_flight(), Outcome::TimedOut, refused(Code::Unavailable, "IDEMPOTENCY_STORE_UNAVAILABLE")] {
        let mut scene = Scene::good();
        scene.asked(1, 10, Purpose::Final, last);
        scene.breaks(&[Promise::NothingStuck]);
    }
    let mut scene = Scene::good();
    scene.entries.attempts.retain(|attempt| attempt.purpose != Purpose::Final || attempt.operation == 0);
    scene.breaks(&[Promise::NothingStuck]);
}

#[test]
fn judges_by_the_last_of_several_last_retries() {
    let mut scene = Scene::empty();
    for number in 0..2 {
        scene.row(number, Variant::Asked, id(number));
        scene.asked(number, 9, Purpose::Final, in_flight());
        scene.asked(number, 10, Purpose::Final, response(number, true));
    }
    scene.breaks(&[]);
}

#[test]
fn accepts_an_unknown_outcome_in_reserved_mode_only_if_a_fault_may_have_lost_it() {
    let scene = |kind| {
        let mut scene = Scene::good();
        scene.entries.attempts.retain(|attempt| attempt.operation == 0);
        scene.asked(1, 1, Purpose::Ask, unknown());
        scene.asked(1, 9, Purpose::Final, unknown());
        scene.lasting(kind, Whom::All, 1, 2)
    };
    let reserved = scene(FaultKind::ServerKilled).reserved(LeasePolicy::Refuse);
    reserved.breaks(&[]);
    assert_eq!(reserved.verdict().unknown, 1);
    scene(FaultKind::ServerKilled).breaks(&[Promise::NothingElse]);
    for kind in [FaultKind::CommitsHung, FaultKind::ConnectionsLate, FaultKind::OwnerChanged, FaultKind::ClientHungUp] {
        scene(kind).reserved(LeasePolicy::Refuse).breaks(&[Promise::NothingStuck]);
    }
}

#[test]
fn finds_an_unknown_outcome_after_an_acknowledgement_unless_a_fault_may_have_come_between() {
    let scene = || {
        let mut scene = Scene::good().reserved(LeasePolicy::Refuse);
        scene.asked(1, 10, Purpose::Final, unknown());
        scene
    };
    scene().breaks(&[Promise::NothingLost, Promise::NothingStuck]);
    let mut hit = scene();
    hit.fault(FaultKind::DatabaseKilled, Whom::All, 1);
    hit.breaks(&[]);
    assert_eq!(hit.verdict().refused_after_acknowledgement, 1);
}

#[test]
fn finds_unexpected_answers() {
    for outcome in [
        mismatch(),
        refused(Code::NotFound, "elsewhere"),
        Outcome::Acknowledged(Acknowledgement { id: None, replayed: false, protected: true }),
        Outcome::Acknowledged(Acknowledgement { id: Some(id(0)), replayed: true, protected: false }),
    ] {
        let mut scene = Scene::good();
        scene.asked(0, 5, Purpose::LookBack, outcome);
        scene.breaks(&[Promise::NothingElse]);
    }
}

#[test]
fn finds_rows_of_no_operation_servers_that_ended_by_themselves_and_too_many_processes() {
    let mut scene = Scene::good();
    scene.rows.add(other_id(0), "another program's");
    scene.breaks(&[Promise::NothingElse]);
    let mut scene = Scene::good();
    scene.entries.unexpected_ends.push((Duration::ZERO, SERVER));
    scene.breaks(&[Promise::NothingElse]);
    let mut scene = Scene::good();
    scene.entries.crowds.push(Crowd { begun: Duration::ZERO, processes: 52, allowed: 51, what: String::new() });
    scene.breaks(&[Promise::NothingElse]);
}

#[test]
fn finds_an_unprotected_run_of_a_store_that_could_be_asked() {
    let without_need = [Promise::NothingUnprotected];
    Scene::unprotected(5).breaks(&without_need);
    Scene::unprotected(5).blackout(0, 3, 4).breaks(&without_need);
    Scene::unprotected(5).blackout(1, 4, 6).breaks(&without_need);
    for kind in [
        FaultKind::AfterCommitCut,
        FaultKind::BouncerCut,
        FaultKind::ConnectionsCut,
        FaultKind::CommitsHung,
        FaultKind::ConnectionsLate,
        FaultKind::ConnectionsSilenced,
        FaultKind::OwnerChanged,
        FaultKind::DatabaseStalled,
        FaultKind::OutboxAsleep,
        FaultKind::OutboxLocked,
        FaultKind::PoolFull,
        FaultKind::ServerKilled,
    ] {
        Scene::unprotected(5).lasting(kind, Whom::All, 4, 6).breaks(&without_need);
    }
    let paused = FaultKind::ServerPausedAt(Step::HandlerWrote);
    Scene::unprotected(5).lasting(paused, Whom::Server(OTHER_SERVER), 4, 6).breaks(&without_need);
    assert_eq!(Scene::unprotected(5).verdict().unprotected, 1);
}

#[test]
fn allows_an_unprotected_run_of_a_store_that_could_not_be_asked() {
    let allows = |scene: Scene| {
        scene.breaks(&[]);
        assert_eq!(scene.verdict().unprotected_with_need, 1);
    };
    allows(Scene::unprotected(5).blackout(0, 4, 6));
    allows(Scene::unprotected(5).lasting(FaultKind::DatabaseKilled, Whom::All, 4, 6));
    let paused = FaultKind::ServerPausedAt(Step::HandlerWrote);
    allows(Scene::unprotected(5).lasting(paused, Whom::Server(SERVER), 1, 5));
    let cut = |scene: Scene| scene.lasting(FaultKind::ConnectionCut, Whom::Slot(0), 5, 5);
    allows(cut(cut(cut(Scene::unprotected(5)))));
    let mut long = Scene::unprotected(5).lasting(FaultKind::DatabaseStalled, Whom::Slot(0), 4, 12);
    long.entries.unprotected[0].ran = Duration::from_secs(10);
    allows(long);
}

#[test]
fn finds_any_unprotected_run_if_the_policy_is_to_refuse_the_call() {
    for policy in [StorePolicy::Proceed, StorePolicy::Reject] {
        let mut scene = Scene::unprotected(5).blackout(0, 4, 6);
        scene.rules.on_store_unavailable = policy;
        scene.rules.mode = if policy == StorePolicy::Proceed { Mode::Transactional } else { Mode::Reserved };
        scene.breaks(&[Promise::NothingUnprotected]);
    }
}

#[test]
fn allows_one_duplicate_for_each_unprotected_run_and_no_more() {
    let mut scene = Scene::unprotected(5).blackout(0, 4, 6);
    scene.row(1, Variant::Asked, other_id(1));
    scene.asked(1, 6, Purpose::LookBack, acknowledged(other_id(1), true));
    scene.breaks(&[]);
    assert_eq!(scene.verdict().unprotected_duplicates, 1);

    scene.row(1, Variant::Asked, Uuid::from_u128(300));
    scene.breaks(&[Promise::NothingTwice]);

    let mut scene = Scene::unprotected(5).blackout(0, 4, 6);
    scene.row(0, Variant::Asked, other_id(0));
    scene.breaks(&[Promise::NothingTwice]);
}

#[test]
fn accepts_a_response_without_the_header_of_an_unprotected_run_only() {
    let unprotected =
        |number| Outcome::Acknowledged(Acknowledgement { id: Some(id(number)), replayed: false, protected: false });
    let scene = |number| {
        let mut scene = Scene::unprotected(1).blackout(0, 0, 3);
        scene.entries.attempts.clear();
        for number in 0..2 {
            scene.asked(number, 9, Purpose::Final, response(number, true));
        }
        scene.asked(number, 1, Purpose::Ask, unprotected(number));
        scene
    };
    scene(1).breaks(&[]);
    scene(0).breaks(&[Promise::NothingElse]);
}

#[test]
fn finds_a_starved_call_unless_a_fault_may_have_held_it_up() {
    let scene = || {
        let mut scene = Scene::good();
        let (begun, ended) = (Duration::from_secs(2), Duration::from_secs(6));
        scene.entries.starved.push(Starved { operation: 1, server: SERVER, begun, ended });
        scene
    };
    scene().breaks(&[Promise::NobodyStarved]);
    scene().lasting(FaultKind::Hogged, Whom::Server(SERVER), 1, 7).breaks(&[Promise::NobodyStarved]);
    scene().lasting(FaultKind::ServerKilled, Whom::Server(OTHER_SERVER), 3, 3).breaks(&[Promise::NobodyStarved]);
    scene().lasting(FaultKind::ServerKilled, Whom::Server(SERVER), 3, 3).breaks(&[]);
}

#[test]
fn finds_answers_that_call_the_store_broken() {
    let mut scene = Scene::good();
    scene.asked(0, 5, Purpose::LookBack, refused(Code::Internal, "IDEMPOTENCY_STORE_FAILED"));
    scene.breaks(&[Promise::NothingElse]);
}

#[test]
fn counts_what_a_failover_has_lost_only_if_the_replication_is_asynchronous_and_there_was_one() {
    let scene = |may_lose| {
        let mut scene = Scene::good();
        scene.rules.may_lose = may_lose;
        scene.rows = Rows::default();
        scene.row(0, Variant::Asked, id(0));
        scene
    };
    let fail_over = |may_lose| scene(may_lose).lasting(FaultKind::PrimaryKilled, Whom::All, 2, 4);
    scene(Losses::RecordsAndEffects).breaks(&[Promise::NothingLost]);
    fail_over(Losses::Nothing).breaks(&[Promise::NothingLost]);
    fail_over(Losses::RecordsAndEffects).breaks(&[]);
    assert_eq!(fail_over(Losses::RecordsAndEffects).verdict().lost()[&Promise::NothingLost], 1);
    assert_eq!(scene(Losses::RecordsAndEffects).verdict().losses, []);
}

#[test]
fn finds_what_no_failover_excuses_with_asynchronous_replication_too() {
    let mut scene = Scene::good().lasting(FaultKind::PrimaryKilled, Whom::All, 2, 4);
    scene.rules.may_lose = Losses::RecordsAndEffects;
    scene.asked(0, 5, Purpose::LookBack, refused(Code::Internal, "IDEMPOTENCY_STORE_FAILED"));
    scene.breaks(&[Promise::NothingElse]);
}

/// With the records on Redis, the effects are in PostgreSQL, which loses none.
#[test]
fn finds_an_effect_that_is_gone_with_records_on_redis_too() {
    let mut scene = Scene::good().lasting(FaultKind::RedisKilled, Whom::All, 2, 4);
    scene.rules.may_lose = Losses::Records;
    scene.rows = Rows::default();
    scene.row(0, Variant::Asked, id(0));
    scene.breaks(&[Promise::NothingLost]);
}

#[test]
fn counts_the_duplicates_of_records_that_redis_has_lost_and_excuses_none_without_a_fault_of_redis() {
    let scene = || {
        let mut scene = Scene::good();
        scene.rules.may_lose = Losses::Records;
        scene.row(1, Variant::Asked, id(10));
        scene
    };
    scene().breaks(&[Promise::NothingTwice]);
    let hung = || scene().lasting(FaultKind::RedisHung, Whom::All, 2, 4);
    hung().breaks(&[]);
    assert_eq!(hung().verdict().lost()[&Promise::NothingTwice], 1);
}

/// The retries of a request whose key another request has taken are refused, which is no finding of its own.
#[test]
fn counts_a_request_that_was_executed_in_the_place_of_another_once() {
    let mut scene = Scene::good();
    scene.row(1, Variant::Changed, id(10));
    scene.asked(1, 8, Purpose::Final, refused(Code::InvalidArgument, "IDEMPOTENCY_KEY_REUSED"));
    scene.breaks(&[Promise::NothingThoughRefused]);
}
