//! Whether all that clients hear under one key is the outcome of one run.

use std::{collections::BTreeMap, time::Duration};

use super::Audit;
use crate::ledger::{Answer, HandlerRun, Says};

/// How long a server remembers a response at most.
const MEMORY: Duration = Duration::from_secs(60);

impl Audit<'_> {
    /// Checks the answers under each key against each other, and whether a first answer is said to be one.
    pub(super) fn replays(&mut self) {
        let mut keys: BTreeMap<_, Vec<(&Answer, usize)>> = BTreeMap::new();
        let evidence = self.evidence;
        for answer in &evidence.answers {
            let Some(run) = self.told_of(answer) else { continue };
            keys.entry(self.key(answer.operation)).or_default().push((answer, run));
            let is_first = matches!(answer.says, Says::Done { is_replay: false, .. });
            if is_first && !self.is_of(answer, evidence.runs[run].attempt) {
                let seen = format!("operation {} heard of run {run} as if it was its own", answer.operation);
                self.broken("a replay says that it is one", seen);
            }
        }
        for answers in keys.into_values() {
            for (place, (first, of_first)) in answers.iter().enumerate() {
                for (second, of_second) in &answers[place + 1..] {
                    if of_first != of_second
                        && second.sent >= first.got
                        && !self.may_replace(first, *of_first, *of_second, second.got)
                    {
                        let seen = format!(
                            "operation {} heard of run {of_first}, and then of run {of_second}",
                            second.operation
                        );
                        self.broken("a key has one outcome", seen);
                    }
                }
            }
        }
    }

    /// Returns whether a client may hear of a run at a time, under a key of which another was told of another run before.
    fn may_replace(&self, first: &Answer, of_first: usize, of_second: usize, heard: Duration) -> bool {
        let [told, other] = [of_first, of_second].map(|run| &self.evidence.runs[run]);
        let is_later = self.takes_key(told) <= self.takes_key(other);
        // Its record has expired under it.
        let outlasts = other.ended.is_some_and(|(ended, _)| ended >= told.began);
        is_later && self.may_run_after(told, first.got, other)
            // A server may still have the response of a run that was lost.
            || self.excuses.is_taken_back_since(if is_later { told } else { other }, told.began.max(other.began))
            // A call that has lost its lease answers its own client, though the other's outcome is recorded.
            || !is_later
                && (self.excuses.may_run_again(other, told.began) || outlasts && self.has_expired(other, told.began))
            || !is_later && self.is_remembered_past_a_jump(other, told.began, heard)
            || self.excuses.is_unprotected(told)
            || self.excuses.is_unprotected(other)
    }

    /// Returns whether a server may still have a response in its memory whose record has expired, and was replaced at this time: because the
    /// database's clock has jumped ahead, of which the server has not heard.
    fn is_remembered_past_a_jump(&self, run: &HandlerRun, replaced: Duration, heard: Duration) -> bool {
        let Some((ended, _)) = run.ended else { return false };
        heard <= replaced + MEMORY && !self.excuses.jumps(ended, replaced).is_zero() && self.has_expired(run, replaced)
    }
}
