//! Decides whether the promises of docs/guarantees.md were kept. The only evidence is what happened outside of the servers: effects, and
//! the answers that clients got. Nothing here knows of leases, tokens or records.
//!
//! | promise | broken if |
//! |---|---|
//! | nothing happens twice | an operation has more than one effect, and neither its policy, nor a fault, nor its retention allows it |
//! | an acknowledged effect stays | a client was told of a run whose effect is not there |
//! | an error tells the truth | the client's layer says that an operation has failed, and its effect was on the way |
//! | a replay ends with its record | a client was told of a run whose record has expired |
//! | nobody sees another's data | an answer has another owner's or another operation's text |
//! | an outcome is known | it is said to be unknown, and there was no reason |
//! | no key is stuck | an operation gets no final answer when all faults are over |
//! | nothing is left | calls, connections, locks or transactions are held when all servers have been shut down, or a call goes on after that |
//! | nothing panics | something other than a handler that is to panic has done so |
//! | nothing unexpected | an answer is one that no client of this service can expect |

use std::{collections::BTreeMap, fmt, time::Duration};

use tonic::Code;
use tonic_idempotency::{
    policy::{ExpiredKeyPolicy, LeasePolicy, StorePolicy},
    rejection::Reason,
};

use crate::{
    database::Effect,
    ledger::{Answer, Evidence, HandlerRun, Says},
    plan::{End, Kind, Operation, Plan, Procedure},
    service::PLANNED,
};

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The promise, by the table at the top of this file.
    pub promise: &'static str,
    /// The evidence, in words.
    pub seen: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.seen)
    }
}

/// Returns what was broken.
pub fn audit(plan: &Plan, evidence: &Evidence, effects: &[Effect]) -> Vec<Violation> {
    let is_committed = |(number, run): (usize, &HandlerRun)| match plan.operation(run.operation).procedure {
        Procedure::Send => run.effect.is_some(),
        Procedure::Enter => effects.iter().any(|effect| effect.call == number as u64),
    };
    let committed = evidence.runs.iter().enumerate().map(is_committed).collect();
    let mut audit = Audit { plan, evidence, committed, violations: Vec::new() };
    audit.keys();
    audit.answers();
    audit.leftovers();
    audit.violations
}

struct Audit<'a> {
    plan: &'a Plan,
    evidence: &'a Evidence,
    /// Of each run, whether its effect is there in the end.
    committed: Vec<bool>,
    violations: Vec<Violation>,
}

impl Audit<'_> {
    fn broken(&mut self, promise: &'static str, seen: String) {
        self.violations.push(Violation { promise, seen });
    }

    /// Checks the effects under each key of each owner. There may be more than one operation under a key, if a client is hostile.
    fn keys(&mut self) {
        let mut keys: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (number, run) in self.evidence.runs.iter().enumerate().filter(|(number, _)| self.committed[*number]) {
            let operation = self.plan.operation(run.operation);
            keys.entry((operation.owner(), operation.key)).or_default().push(number);
        }
        for runs in keys.into_values() {
            for pair in runs.windows(2) {
                if !self.may_follow(pair[0], pair[1]) {
                    let operation = self.evidence.runs[pair[1]].operation;
                    self.broken(
                        "nothing happens twice",
                        format!("operation {operation} has the effects of the runs {runs:?}"),
                    );
                }
            }
        }
    }

    /// Returns whether the effect of a run may follow that of another under the same key.
    fn may_follow(&self, first: usize, second: usize) -> bool {
        let [first, second] = [first, second].map(|number| &self.evidence.runs[number]);
        let policies = &self.plan.settings.policies;
        // The retention is accurate to 1 %. That of a response counts from its completion, that of an unknown outcome from the claim.
        let is_unknown = self.may_lose() || first.ended.is_some_and(|(_, end)| end == End::ErrorAfterEffect);
        let counts_from = first.effect.filter(|_| !is_unknown).unwrap_or(first.began);
        let had_expired = policies.expired_keys == ExpiredKeyPolicy::Run
            && (second.began + self.jumps()).saturating_sub(counts_from) >= policies.retention.mul_f64(0.98);
        let is_reserved = self.plan.operation(first.operation).procedure == Procedure::Send
            || self.plan.operation(second.operation).procedure == Procedure::Send;
        had_expired || is_reserved && self.may_run_again()
    }

    /// Returns whether the policies allow a reserved call to run again, after the faults that there were.
    fn may_run_again(&self) -> bool {
        let policies = &self.plan.settings.policies;
        let is_lenient =
            policies.on_lease_ended == LeasePolicy::Rerun || policies.on_store_unavailable == StorePolicy::Proceed;
        is_lenient && self.may_lose()
    }

    /// Returns whether a fault may have kept the outcome of a reserved call from being recorded.
    fn may_lose(&self) -> bool {
        self.plan.faults.iter().any(|fault| !matches!(fault.kind, Kind::StormClients | Kind::Stop(_)))
    }

    /// By how much the database's clock has jumped ahead in all.
    fn jumps(&self) -> Duration {
        self.plan.faults.iter().filter(|fault| fault.kind == Kind::Jump).map(|fault| fault.lasts).sum()
    }

    fn answers(&mut self) {
        for answer in &self.evidence.answers {
            let operation = self.plan.operation(answer.operation);
            let promise = match &answer.says {
                Says::Done { run, owner, text, is_replay } => {
                    self.about_done(answer, operation, *run, (owner, text), *is_replay)
                }
                Says::Refused(reason) => self.about_refused(*reason, operation),
                Says::Failed(code, message) if !is_expected_error(*code, message) => Some("nothing unexpected"),
                Says::Failed(..) | Says::Nothing | Says::Unresolved => None,
            };
            let promise = promise.or_else(|| self.has_lied(answer, operation).then_some("an error tells the truth"));
            if let Some(promise) = promise {
                self.broken(promise, format!("operation {} heard {:?}", answer.operation, answer.says));
            }
        }
    }

    fn about_done(
        &self,
        answer: &Answer,
        operation: &Operation,
        run: usize,
        (owner, text): (&str, &str),
        is_replay: bool,
    ) -> Option<&'static str> {
        let policies = &self.plan.settings.policies;
        let of_run = self.evidence.runs.get(run);
        let lives = policies.retention + policies.retention / 50 + Duration::from_secs(1);
        // An unknown outcome may be found out later, and its retention counts from then.
        let ended = of_run.and_then(|run| run.ended).filter(|(_, end)| *end == End::Response);
        let ended = ended.map(|(time, _)| time + lives);
        match () {
            () if owner != operation.owner().to_string() => Some("nobody sees another's data"),
            // Of runs that were not protected, the reconciler cannot tell which request was first.
            () if text != operation.text()
                && !(policies.on_store_unavailable == StorePolicy::Proceed && self.may_lose()) =>
            {
                Some("nobody sees another's data")
            }
            () if !self.committed.get(run).is_some_and(|committed| *committed) => Some("an acknowledged effect stays"),
            () if is_replay
                && !self.may_lose()
                && policies.expired_keys == ExpiredKeyPolicy::Run
                && ended.is_some_and(|ended| ended < answer.sent) =>
            {
                Some("a replay ends with its record")
            }
            () => None,
        }
    }

    fn about_refused(&self, reason: Reason, operation: &Operation) -> Option<&'static str> {
        let key_of = |operation: &Operation| (operation.owner(), operation.key);
        let others = || self.plan.operations.iter().filter(|other| key_of(other) == key_of(operation));
        let unknown = |run: &HandlerRun| {
            key_of(self.plan.operation(run.operation)) == key_of(operation)
                && run.ended.is_some_and(|(_, end)| end == End::ErrorAfterEffect)
        };
        match reason {
            Reason::KeyReused if others().count() > 1 => None,
            Reason::KeyExpired if self.plan.settings.policies.expired_keys == ExpiredKeyPolicy::Refuse => None,
            Reason::NoUser if operation.user.is_none() => None,
            Reason::OutcomeUnknown if self.may_lose() || self.evidence.runs.iter().any(unknown) => None,
            Reason::OutcomeUnknown => Some("an outcome is known"),
            // A statement that is cancelled at once, by a time limit that the handler has set, for all that the layer knows; and a server that
            // fails at each attempt.
            // Another call has held the key meanwhile, in reserved mode, and has released it.
            Reason::NotCommitted if others().count() > 1 => None,
            Reason::NotCommitted | Reason::StoreFailed
                if self.plan.faults.iter().any(|fault| fault.kind == Kind::Trouble) =>
            {
                None
            }
            Reason::Conflict
            | Reason::InProgress
            | Reason::Overloaded
            | Reason::ShuttingDown
            | Reason::StoreUnavailable => None,
            _ => Some("nothing unexpected"),
        }
    }

    /// Returns whether the client's layer told of a failure, and the effect was on the way or there.
    fn has_lied(&self, answer: &Answer, operation: &Operation) -> bool {
        let has_failed = match &answer.says {
            Says::Failed(..) => true,
            Says::Refused(reason) => !matches!(reason, Reason::OutcomeUnknown | Reason::KeyReused | Reason::KeyExpired),
            Says::Done { .. } | Says::Nothing | Says::Unresolved => false,
        };
        let shares = |other: &&Operation| (other.owner(), other.key) == (operation.owner(), operation.key);
        let is_alone = operation.duplicates == 0 && self.plan.operations.iter().filter(shares).count() == 1;
        let is_on_the_way = |(number, run): (usize, &HandlerRun)| {
            run.operation == operation.number
                && run.attempt == answer.attempt
                && answer.got + self.jumps() < run.began + self.plan.settings.policies.retention
                && self.committed[number]
                && run.ended.is_none_or(|(_, end)| end != End::ErrorAfterEffect)
        };
        self.plan.settings.client_layer
            && has_failed
            && is_alone
            && !(operation.procedure == Procedure::Send && self.may_run_again())
            && self.evidence.runs.iter().enumerate().any(is_on_the_way)
    }

    fn leftovers(&mut self) {
        if self.evidence.panics > 0 {
            self.broken("nothing panics", format!("{} panics that no plan wants", self.evidence.panics));
        }
        for seen in &self.evidence.leftovers {
            let promise = if seen.ends_with("stuck") { "no key is stuck" } else { "nothing is left" };
            self.broken(promise, seen.clone());
        }
        for (process, stopped) in &self.evidence.stopped {
            let is_later = |run: &&HandlerRun| {
                run.process.is(process) && (run.began > *stopped || run.ended.is_some_and(|(time, _)| time > *stopped))
            };
            if let Some(run) = self.evidence.runs.iter().find(is_later) {
                let seen =
                    format!("a call of operation {} goes on after {process:?} has been shut down", run.operation);
                self.broken("nothing is left", seen);
            }
        }
    }
}

fn is_expected_error(code: Code, message: &str) -> bool {
    match code {
        Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded | Code::Aborted => true,
        Code::FailedPrecondition => message == PLANNED,
        Code::Internal => message == PLANNED || message.contains("panicked"),
        _ => false,
    }
}
