//! Runs scripts and commands: the attempts at each, and the time for them.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use redis::{Pipeline, Value};
use tokio::time::{Instant, sleep, timeout};
use tonic_idempotency::store::{ServerClock, StoreError, StoreErrorKind};

use crate::{
    answer,
    connection::{Connections, Primary, Target, is_spent},
    error::{Failure, Fault},
    scripts::{Call, Source},
};

const LONGEST_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// The longest time to wait for a connection to one server.
const LONGEST_CONNECT: Duration = Duration::from_secs(1);

/// The pauses between two attempts: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));

/// The number of parts into which the time of an operation is divided: each attempt gets one.
const PARTS: u32 = 4;

/// Runs scripts and commands. If an answer is lost, or the server cannot write at the moment, repeats them until the time is up.
#[derive(Clone, Debug)]
pub(crate) struct CommandRunner {
    pub(crate) connections: Arc<Connections>,
    pub(crate) timeout: Duration,
    pub(crate) clock: Arc<ServerClock>,
}

impl CommandRunner {
    pub(crate) fn new(connections: Connections) -> Self {
        Self { connections: Arc::new(connections), timeout: Duration::from_secs(5), clock: Arc::default() }
    }

    pub(crate) fn with_connections(self, change: impl FnOnce(Arc<Connections>) -> Connections) -> Self {
        Self { connections: Arc::new(change(self.connections)), ..self }
    }

    pub(crate) fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout: timeout.clamp(Duration::from_millis(1), LONGEST_TIMEOUT), ..self }
    }

    /// Runs a script, and returns its answer. Repeating it has to be harmless.
    ///
    /// # Errors
    ///
    /// The kind says whether the server can be asked, and the error whether an attempt may have been carried out.
    pub(crate) async fn run(&self, call: &Call) -> Result<ScriptAnswer, StoreError> {
        self.run_until(call, self.deadline(call)).await
    }

    /// Returns the time until which a call that begins now is attempted.
    pub(crate) fn deadline(&self, call: &Call) -> Instant {
        Instant::now() + self.timeout + call.durability.time()
    }

    /// As [`run`](Self::run), until this time.
    pub(crate) async fn run_until(&self, call: &Call, deadline: Instant) -> Result<ScriptAnswer, StoreError> {
        let (mut pause, mut lost, mut late_until) = (PAUSES.0, false, None);
        loop {
            let attempt_ends = Instant::now() + self.time_of_attempt(call, deadline);
            let failure = match self.attempt(call, attempt_ends).await {
                Ok(answer) => return Ok(ScriptAnswer { late_until, ..answer }),
                Err(failure) => failure,
            };
            if failure.may_have_happened() {
                lost = true;
                late_until = Some(attempt_ends);
            }
            let fault = failure.fault();
            if fault.may_read()
                && let Some(value) = self.found(call, attempt_ends).await
            {
                return Ok(ScriptAnswer { value, reached: None, late_until });
            }
            if !fault.passes() {
                return Err(failure.into_error(fault.kind(lost), lost));
            }
            // An attempt with too little time would not tell whether the server can be asked.
            if Instant::now() + pause + self.part() / 2 >= deadline {
                let kind = self.kind_after(&failure, &call.name, lost).await;
                return Err(failure.into_error(kind, lost));
            }
            sleep(pause).await;
            pause = PAUSES.1.min(pause * 2);
        }
    }

    /// Sends commands that change nothing.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub(crate) async fn read(&self, primary: &Primary, commands: &Pipeline) -> Result<Vec<Value>, StoreError> {
        self.until_answered(|| self.try_to_read(primary, commands, self.part())).await
    }

    /// Sends commands that change nothing, once.
    pub(crate) async fn try_to_read(
        &self,
        primary: &Primary,
        commands: &Pipeline,
        time: Duration,
    ) -> Result<Vec<Value>, Failure> {
        let values = self.send(Target::Primary(primary), commands, time).await?;
        values.into_iter().map(checked).collect()
    }

    /// Returns all primaries.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub(crate) async fn primaries(&self) -> Result<Vec<Primary>, StoreError> {
        self.until_answered(|| self.try_to_find_primaries(self.part())).await
    }

    /// Returns all primaries, if they can be found at the first attempt.
    pub(crate) async fn try_to_find_primaries(&self, time: Duration) -> Result<Vec<Primary>, Failure> {
        let found = timeout(time, self.connections.primaries(LONGEST_CONNECT.min(time))).await;
        found.unwrap_or(Err(Failure::NotSentInTime))
    }

    /// Asks again until there is an answer, or the time is up.
    async fn until_answered<T, F: Future<Output = Result<T, Failure>>>(
        &self,
        ask: impl Fn() -> F,
    ) -> Result<T, StoreError> {
        let deadline = Instant::now() + self.timeout;
        let mut pause = PAUSES.0;
        loop {
            let failure = match ask().await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let fault = failure.fault();
            if !fault.passes() || Instant::now() + pause >= deadline {
                return Err(failure.into_error(fault.kind(false), false));
            }
            sleep(pause).await;
            pause = PAUSES.1.min(pause * 2);
        }
    }

    /// Runs a script. One that often writes nothing is run without waiting for replicas, and then again with `WAIT` if it has written.
    async fn attempt(&self, call: &Call, ends: Instant) -> Result<ScriptAnswer, Failure> {
        let waits = !call.durability.is_primary();
        if !(waits && call.may_not_write) {
            return self.send_script(call, ends, waits).await;
        }
        let answer = self.send_script(call, ends, false).await?;
        if !answer::holds_key(&answer.value) {
            return Ok(answer);
        }
        // WAIT counts from the last write of its own connection. If the connection was replaced meanwhile, the new one has not written: so
        // this attempt writes as well.
        let confirmed = self.send_script(call, ends, true).await;
        confirmed.map_err(|failure| Failure::Unconfirmed(Box::new(failure)))
    }

    /// Returns the answer of a server that refuses writes; `None` if it has no record, or would have to write.
    async fn found(&self, call: &Call, ends: Instant) -> Option<Value> {
        let answer = self.send_script(&call.reading()?, ends, false).await.ok()?;
        (!answer::is_nothing(&answer.value)).then_some(answer.value)
    }

    /// Sends a script by its hash, and with its text if the server does not have it.
    async fn send_script(&self, call: &Call, ends: Instant, waits: bool) -> Result<ScriptAnswer, Failure> {
        match self.send_call(call, Source::Hash, ends, waits).await {
            Err(failure) if failure.is_without_script() => self.send_call(call, Source::Text, ends, waits).await,
            outcome => outcome,
        }
    }

    async fn send_call(
        &self,
        call: &Call,
        source: Source,
        ends: Instant,
        waits: bool,
    ) -> Result<ScriptAnswer, Failure> {
        let sent = Instant::now();
        // Until an answer has told the server's clock, each attempt counts as too late; its answer tells the clock.
        let commands = call.commands(source, self.clock.shows_at(ends).unwrap_or_default(), waits);
        let values = self.send(Target::Record(&call.name), &commands, ends.saturating_duration_since(sent)).await?;
        let mut values = values.into_iter();
        let value = checked(values.next().ok_or(Failure::Corrupt("no answer"))?)?;
        if call.has_deadline {
            if let Some(shown) = answer::clock(&value) {
                self.clock.note(sent, shown);
            }
            if answer::is_late(&value) {
                return Err(Failure::Late);
            }
        }
        // The script was run, even if WAIT fails.
        let unconfirmed = |failure| Failure::Unconfirmed(Box::new(failure));
        let reached = values.next().map(checked).transpose().map_err(unconfirmed)?;
        let reached = reached.map(|reached| redis::from_redis_value(reached).map_err(|_| Failure::Corrupt("WAIT")));
        Ok(ScriptAnswer { value, reached: reached.transpose().map_err(unconfirmed)?, late_until: None })
    }

    async fn send(&self, target: Target<'_>, commands: &Pipeline, time: Duration) -> Result<Vec<Value>, Failure> {
        let sent = OnceLock::new();
        // A server that does not answer at all must leave time to ask another.
        let patience = LONGEST_CONNECT.min(time / 3);
        let outcome = match timeout(time, self.connections.send(target, commands, patience, &sent)).await {
            Ok(outcome) => outcome,
            Err(_) if sent.get().is_some() => Err(Failure::Silent),
            Err(_) => Err(Failure::NotSentInTime),
        };
        let spent = match &outcome {
            Ok(values) => values.iter().any(|value| match value {
                Value::ServerError(error) => is_spent(&Failure::Answered(error.clone())),
                _ => false,
            }),
            Err(failure) => is_spent(failure),
        };
        if let (true, Some(sent)) = (spent, sent.get()) {
            self.connections.discard(*sent);
        }
        outcome
    }

    /// Returns the time for an attempt that is made now.
    fn time_of_attempt(&self, call: &Call, deadline: Instant) -> Duration {
        (self.part() + call.durability.time()).min(deadline.saturating_duration_since(Instant::now()))
    }

    /// Returns the time for one attempt, without that for the replicas.
    pub(crate) fn part(&self) -> Duration {
        (self.timeout / PARTS).max(Duration::from_millis(1))
    }

    /// Returns the kind of the error of an operation whose time is up. If the server did not answer in time, finds out whether
    /// it answers at all.
    async fn kind_after(&self, failure: &Failure, name: &str, lost: bool) -> StoreErrorKind {
        if failure.is_silence() && self.answers(name).await {
            return StoreErrorKind::Overloaded;
        }
        failure.fault().kind(lost)
    }

    /// Returns whether the server that has a record answers, with an error or without.
    async fn answers(&self, name: &str) -> bool {
        let mut question = redis::cmd("EXISTS");
        question.arg(name);
        let mut commands = Pipeline::with_capacity(1);
        commands.add_command(question);
        let answers = |failure: &Failure| failure.fault() != Fault::Away;
        match self.send(Target::Record(name), &commands, self.part()).await {
            Ok(values) => values.into_iter().all(|value| checked(value).err().as_ref().is_none_or(answers)),
            Err(failure) => answers(&failure),
        }
    }
}

/// The answer of a script.
#[derive(Debug)]
pub(crate) struct ScriptAnswer {
    pub(crate) value: Value,
    /// The number of replicas that have received the script's writes, if they were waited for.
    reached: Option<i64>,
    /// The time until which an attempt whose answer was lost may still be carried out.
    pub(crate) late_until: Option<Instant>,
}

impl ScriptAnswer {
    /// Checks that the script's writes have reached as many replicas as asked for.
    ///
    /// # Errors
    ///
    /// They have not. The kind is [`StoreErrorKind::Overloaded`], so that no policy lets the call run all the same; and the script was run.
    pub(crate) fn check_replicas(&self, call: &Call) -> Result<(), StoreError> {
        let wanted = call.durability.waits_for();
        match self.reached {
            Some(reached) if reached < i64::from(wanted) => {
                let failure = Failure::TooFewReplicas { reached, wanted };
                Err(failure.into_error(StoreErrorKind::Overloaded, true))
            }
            _ => Ok(()),
        }
    }
}

fn checked(value: Value) -> Result<Value, Failure> {
    match value {
        Value::ServerError(error) => Err(Failure::Answered(error)),
        value => Ok(value),
    }
}
