//! Ledgers in which a check must fire, or must not.

use std::time::Duration;

use prost::Message as _;
use tonic::Code;
use tonic_idempotency::{
    policy::{ExpiredKeyPolicy, FinalErrors, Policies},
    rejection::Reason,
    status::OutboxStatus,
};
use uuid::Builder;

use super::{audit, excuses::SKEW};
use crate::{
    database::{Effect, Loss, StoredRecord, Trouble},
    ledger::{Answer, Call, Evidence, HandlerRun, Says, StatusChange, Strike},
    plan::{End, Kind, Pace, Plan, Procedure, caller},
    service::proto::EnterReply,
    world::{BEGINNING, Host, Keeps, Process, run},
};

/// An operation that has happened once, with its ledger and the effects of its transactions.
struct Case {
    plan: Plan,
    evidence: Evidence,
    effects: Vec<Effect>,
    process: Process,
}

const fn at(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

impl Case {
    /// A call in reserved mode that was answered, and is recorded.
    fn new(process: &Process) -> Self {
        let mut plan = Plan::new(1, Some(1));
        plan.faults.clear();
        let settings = &mut plan.settings;
        settings.policies = Policies {
            final_errors: FinalErrors::new([Code::FailedPrecondition]).expect("a code that may be final"),
            ..Policies::default()
        };
        (settings.is_narrow, settings.records, settings.has_response_limit) = (false, None, false);
        (settings.client_layer, settings.client_journal) = (false, false);
        let operation = &mut plan.operations[0];
        operation.user.get_or_insert_default();
        (operation.procedure, operation.has_key, operation.go) = (Procedure::Send, true, None);
        (operation.is_delivered, operation.duplicates, operation.body) = (false, 0, Pace::AtOnce);
        let (evidence, effects) = (Evidence::default(), Vec::new());
        let mut case = Self { plan, evidence, effects, process: process.clone() };
        case.call(1_000);
        case.run(0, 1_010, End::Response);
        case.hear(0, 1_100, case.done(0, false));
        case.record("completed", Some(case.reply(0).encode_to_vec()));
        case
    }

    /// Notes a further attempt, and its call.
    fn call(&mut self, arrived: u64) {
        let attempt = self.evidence.attempts.len();
        self.evidence.attempts.push(0);
        let (process, arrived, left) = (self.process.clone(), at(arrived), Some(at(arrived + 100)));
        self.evidence.calls.push(Call { attempt, server: 0, process, arrived, left, is_behind: false });
    }

    /// Notes a run of a call. It takes 50 ms, and has an effect if `end` allows one.
    fn run(&mut self, call: usize, began: u64, end: End) {
        let effect = matches!(end, End::Response | End::ErrorAfterEffect).then(|| at(began + 40));
        let (process, count) = (self.process.clone(), self.evidence.runs.len());
        self.evidence.runs.push(HandlerRun {
            number: count,
            operation: 0,
            attempt: self.evidence.calls[call].attempt,
            count,
            call,
            process,
            began: at(began),
            had_key: true,
            is_sent: effect.is_some(),
            effect,
            ended: Some((at(began + 50), end)),
            cut: None,
            lost_lease: None,
        });
    }

    fn hear(&mut self, attempt: usize, got: u64, says: Says) {
        let sent = self.evidence.calls[attempt].arrived;
        self.evidence.answers.push(Answer { operation: 0, attempt, sent, got: at(got), says });
    }

    /// Adds a call whose client hears this.
    fn hears(&mut self, says: Says) {
        self.call(5_000);
        self.hear(self.evidence.calls.len() - 1, 5_100, says);
    }

    fn reply(&self, run: u64) -> EnterReply {
        EnterReply::new(run, &self.plan.operations[0])
    }

    fn done(&self, run: usize, is_replay: bool) -> Says {
        let EnterReply { owner, text, .. } = self.reply(run as u64);
        let status = if self.plan.operations[0].procedure.creates() { "processing" } else { "completed" };
        Says::Done { run, owner, text, is_replay, status: Some(status.to_owned()) }
    }

    /// Adds a call whose client hears of the first run, and hears this status of the work behind it.
    fn hears_status(&mut self, status: &str) {
        let mut says = self.done(0, true);
        if let Says::Done { status: said, .. } = &mut says {
            *said = Some(status.to_owned());
        }
        self.hears(says);
    }

    /// Ends the work behind the first run.
    fn complete(&mut self, time: u64) {
        self.evidence.statuses.push(StatusChange { run: 0, at: at(time), status: OutboxStatus::Completed });
    }

    /// Makes the key a minute older than a key may be when its call arrives.
    fn grow_old(&mut self) {
        let policies = &mut self.plan.settings.policies;
        (policies.expired_keys, policies.retention) = (ExpiredKeyPolicy::Refuse, Duration::from_secs(20));
        let made = Duration::from_secs(BEGINNING) - policies.retention - SKEW - Duration::from_secs(60);
        let key = Builder::from_unix_timestamp_millis(made.as_millis() as u64, &[7; 10]).into_uuid();
        let operation = &mut self.plan.operations[0];
        (operation.key, operation.stored, self.evidence.records[0].key) = (key, key, key);
    }

    /// Makes one record in this state the only one.
    fn record(&mut self, state: &'static str, response: Option<Vec<u8>>) {
        let operation = &self.plan.operations[0];
        let user = operation.user.expect("a caller");
        self.evidence.records = vec![StoredRecord {
            owner: *caller(user, operation.scope).owner().as_uuid(),
            key: operation.stored,
            token: operation.stored,
            procedure: String::new(),
            request: [0; 32].into(),
            state,
            attempts: 1,
            response: response.map(Into::into),
            metadata: None,
            expires_in: at(1_000_000),
        }];
    }

    fn strike(&mut self, kind: Kind) {
        let (process, trouble) = (Some(self.process.clone()), Trouble::NONE);
        self.evidence.faults.push(Strike { kind, trouble, process, from: at(4_900), to: at(5_050) });
    }

    /// Lets a crash lose the reservation of the first run, and adds a second run with an effect.
    fn lose_reservation(&mut self) {
        let record = &self.evidence.records[0];
        self.evidence.lost.keys.insert((record.owner, record.key), vec![(at(1_055), Loss::Crash)]);
        self.evidence.answers.clear();
        self.call(3_000);
        self.run(1, 3_010, End::Response);
        self.hear(1, 3_100, self.done(1, false));
        self.record("completed", Some(self.reply(1).encode_to_vec()));
    }

    /// Makes the answers say that the work behind the created resource goes on.
    fn create(&mut self) {
        for answer in &mut self.evidence.answers {
            if let Says::Done { status, .. } = &mut answer.says {
                *status = Some("processing".to_owned());
            }
        }
    }

    /// Makes the procedure one with its effects on the server of the records, at these times.
    fn insert(&mut self, effects: &[u64]) {
        self.create();
        let operation = &mut self.plan.operations[0];
        operation.procedure = Procedure::Insert;
        let (owner, key) = (operation.owner(), operation.stored);
        let effects =
            effects.iter().enumerate().map(|(run, time)| Effect { owner, key, call: run as u64, time: at(*time) });
        self.effects.extend(effects);
    }

    /// Makes the procedure a transactional one.
    fn enter(&mut self) {
        self.create();
        let operation = &mut self.plan.operations[0];
        operation.procedure = Procedure::Enter;
        let (owner, key) = (operation.owner(), operation.stored);
        self.effects.push(Effect { owner, key, call: 0, time: at(1_060) });
    }
}

/// Returns the promises that are broken in a case, each once.
fn broken(change: fn(&mut Case)) -> Vec<&'static str> {
    run(1, Keeps::Nothing, move |world| async move {
        let mut case = Case::new(&Host::new(&world, "server").start());
        change(&mut case);
        let mut broken: Vec<_> =
            audit(&case.plan, &case.evidence, &case.effects).violations.iter().map(|it| it.promise).collect();
        broken.sort_unstable();
        broken.dedup();
        broken
    })
}

const CUT: &str = "the connection was cut";

#[test]
fn fires_if_a_ledger_breaks_a_promise_and_not_if_it_has_the_cause() {
    type Row = (&'static str, fn(&mut Case), &'static [&'static str]);
    let rows: &[Row] = &[
        ("nothing is wrong", |_| {}, &[]),
        ("a replay", |it| it.hears(it.done(0, true)), &[]),
        (
            "two effects, and both are told",
            |it| {
                it.call(3_000);
                it.run(1, 3_010, End::Response);
                it.hear(1, 3_100, it.done(1, false));
            },
            &["a final answer is final", "a key has one outcome", "a record tells the truth", "nothing happens twice"],
        ),
        ("a replay as if it was the first answer", |it| it.hears(it.done(0, false)), &["a replay says that it is one"]),
        (
            "a run that is not there",
            |it| it.evidence.runs[0].effect = None,
            &["a record tells the truth", "an acknowledged effect stays"],
        ),
        ("no record of it", |it| it.evidence.records.clear(), &["a record tells the truth"]),
        (
            "a failed record of a success",
            |it| it.record("failed", Some(b"as planned, in run 0".to_vec())),
            &["a record tells the truth"],
        ),
        ("an abandoned record of a success", |it| it.record("abandoned", None), &["a record tells the truth"]),
        ("an unknown record of a success", |it| it.record("unknown", None), &["a record tells the truth"]),
        ("a response that is not stored", |it| it.record("not_stored", None), &["a record tells the truth"]),
        ("a key that is reserved in the end", |it| it.record("reserved", None), &["a record tells the truth"]),
        (
            "a final error, which is recorded",
            |it| {
                let (attempt, message) = (0, "as planned, in run 0");
                (it.evidence.runs[0].ended, it.evidence.runs[0].effect) = (Some((at(1_060), End::FinalError)), None);
                it.evidence.answers.clear();
                it.hear(attempt, 1_100, Says::Failed(Code::FailedPrecondition, message.to_owned()));
                it.record("failed", Some(message.as_bytes().to_vec()));
            },
            &[],
        ),
        (
            "an error of a run that succeeded",
            |it| it.hears(Says::Failed(Code::Internal, "as planned, in run 0".to_owned())),
            &["an error has its cause"],
        ),
        (
            "a panic of no run",
            |it| it.hears(Says::Failed(Code::Internal, "the handler panicked".to_owned())),
            &["an error has its cause"],
        ),
        (
            "a cut of no connection",
            |it| it.hears(Says::Failed(Code::Unavailable, CUT.to_owned())),
            &["an error has its cause"],
        ),
        (
            "a cut of a connection",
            |it| {
                it.strike(Kind::CutClients);
                it.hears(Says::Failed(Code::Unavailable, CUT.to_owned()));
            },
            &[],
        ),
        (
            "a cancellation of no proxy",
            |it| it.hears(Says::Failed(Code::Cancelled, "of a proxy".to_owned())),
            &["an error has its cause"],
        ),
        ("a conflict with nothing", |it| it.hears(Says::Refused(Reason::Conflict)), &["a refusal has its cause"]),
        ("a crowd of one", |it| it.hears(Says::Refused(Reason::Overloaded)), &["a refusal has its cause"]),
        ("a shutdown of nothing", |it| it.hears(Says::Refused(Reason::ShuttingDown)), &["a refusal has its cause"]),
        (
            "a shutdown",
            |it| {
                it.strike(Kind::Stop(0));
                it.evidence.stopped.push((it.process.clone(), at(5_200)));
                it.hears(Says::Refused(Reason::ShuttingDown));
            },
            &[],
        ),
        ("a limit that there is not", |it| it.hears(Says::Refused(Reason::TooManyRecords)), &["nothing unexpected"]),
        (
            "a key in progress that nothing has",
            |it| it.hears(Says::Refused(Reason::InProgress)),
            &["a key is free when its call is over"],
        ),
        ("an outcome that is known", |it| it.hears(Says::Refused(Reason::OutcomeUnknown)), &["an outcome is known"]),
        ("a lease that was not lost", |it| it.evidence.runs[0].lost_lease = Some(at(1_020)), &["a lost lease is told"]),
        (
            "a reservation that a crash loses, of an effect elsewhere",
            Case::lose_reservation,
            &["a record tells the truth", "nothing happens twice"],
        ),
        (
            "a reservation that a crash loses, of an effect that it does not lose",
            |it| {
                it.lose_reservation();
                it.insert(&[1_050, 3_050]);
            },
            &["a record tells the truth", "nothing happens twice"],
        ),
        (
            "a reservation that a crash loses, of a handler that outlives it",
            |it| {
                it.lose_reservation();
                it.insert(&[1_060, 3_050]);
            },
            &[],
        ),
        ("a transaction", Case::enter, &[]),
        (
            "work that is said to have ended before it has",
            |it| {
                it.enter();
                it.hears_status("completed");
                it.complete(6_000);
            },
            &["a status tells the truth"],
        ),
        (
            "work that is said to have failed, and has not",
            |it| {
                it.enter();
                it.complete(3_000);
                it.hears_status("failed");
            },
            &["a status tells the truth"],
        ),
        (
            "work that is said to go on long after its end",
            |it| {
                it.enter();
                it.complete(3_000);
                it.hears_status("processing");
            },
            &["a status tells the truth"],
        ),
        (
            "work whose status cannot be read",
            |it| {
                it.enter();
                it.complete(3_000);
                it.strike(Kind::SlowStatuses);
                it.hears_status("processing");
            },
            &[],
        ),
        ("work of a procedure that creates nothing", |it| it.hears_status("failed"), &["a status tells the truth"]),
        ("an expired key that runs", Case::grow_old, &["an expired key does not run"]),
        (
            "an expired key that runs at a server whose clock is behind",
            |it| {
                it.grow_old();
                it.strike(Kind::WallClocks(-120_000));
                it.evidence.faults[0].from = Duration::ZERO;
            },
            &[],
        ),
        (
            "a call of the last crowd that is turned away",
            |it| {
                it.plan.operations[0].is_last = true;
                it.hears(Says::Refused(Reason::Overloaded));
            },
            &["a refusal has its cause", "the last crowd is served"],
        ),
        (
            "a transaction of a failure",
            |it| {
                it.enter();
                it.evidence.runs[0].ended = Some((at(1_060), End::Error));
            },
            &["nothing is left of a failure"],
        ),
    ];
    for (name, change, expected) in rows {
        assert_eq!(broken(*change), *expected, "{name}");
    }
}
