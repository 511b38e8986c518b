//! The scripts: one for each transition of a record, and the look-up.

use std::{sync::LazyLock, time::Duration};

use redis::{Cmd, Pipeline, Script};

use crate::durability::Durability;

pub(crate) static ABANDON: LazyLock<Transition> =
    LazyLock::new(|| Transition::new(include_str!("scripts/abandon.lua")));
pub(crate) static CLAIM: LazyLock<Transition> =
    LazyLock::new(|| Transition::new(include_str!("scripts/claim.lua")).readable());
pub(crate) static COMPLETE: LazyLock<Transition> =
    LazyLock::new(|| Transition::new(include_str!("scripts/complete.lua")));
pub(crate) static EXTEND: LazyLock<Transition> = LazyLock::new(|| Transition::new(include_str!("scripts/extend.lua")));
pub(crate) static LOOK_UP: LazyLock<Transition> =
    LazyLock::new(|| Transition::new(include_str!("scripts/look_up.lua")).readable());
pub(crate) static RELEASE: LazyLock<Transition> =
    LazyLock::new(|| Transition::new(include_str!("scripts/release.lua")));

/// A script, with its hash.
pub(crate) struct Transition {
    text: String,
    hash: String,
    /// The same script, which a server runs that refuses writes.
    reading: Option<Box<Self>>,
}

impl Transition {
    fn new(text: &str) -> Self {
        Self { text: text.to_owned(), hash: Script::new(text).get_hash().to_owned(), reading: None }
    }

    /// Adds the script without writes: it ends before the first one.
    fn readable(self) -> Self {
        let reading = self.text.replacen("#!lua", "#!lua flags=no-writes", 1);
        Self { reading: Some(Box::new(Self::new(&reading))), ..self }
    }

    /// Makes a call of this script on a record.
    pub(crate) fn on(&'static self, name: String) -> Call {
        Call {
            script: self,
            name,
            arguments: Vec::new(),
            durability: Durability::primary(),
            may_not_write: false,
            has_deadline: false,
        }
    }
}

/// A call of a script.
pub(crate) struct Call {
    script: &'static Transition,
    pub(crate) name: String,
    arguments: Vec<Vec<u8>>,
    pub(crate) durability: Durability,
    /// Whether many answers come without a write, for which no replica is waited for.
    pub(crate) may_not_write: bool,
    /// Whether each attempt has a time after which it does nothing.
    pub(crate) has_deadline: bool,
}

impl Call {
    /// Adds an argument.
    pub(crate) fn arg(mut self, argument: impl Into<Vec<u8>>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Adds whether the answer has to reach the replicas, which it then waits for.
    pub(crate) fn replicated(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self.arg(if durability.is_primary() { "0" } else { "1" })
    }

    /// Gives each attempt a time after which it does nothing: the last argument.
    pub(crate) fn with_deadline(self) -> Self {
        Self { has_deadline: true, ..self }
    }

    /// Waits for the replicas, of a script that need not know.
    pub(crate) fn waiting(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Waits for the replicas, of a script that often writes nothing: the script is then run again, and writes again.
    pub(crate) fn waiting_once_written(self, durability: Durability) -> Self {
        Self { durability, may_not_write: true, ..self }
    }

    /// Returns the call for a server that refuses writes; `None` if the script has no answer without a write. A call with a deadline gets
    /// the answer that it is too late where it would have to write.
    pub(crate) fn reading(&self) -> Option<Self> {
        let call = self.script.reading.as_deref()?.on(self.name.clone());
        let call = Self { arguments: self.arguments.clone(), ..call };
        Some(if self.has_deadline { call.arg("0") } else { call })
    }

    /// Returns the commands: the call, by the hash of its script or with its text, and the `WAIT` for the replicas. The deadline is by the
    /// server's clock.
    pub(crate) fn commands(&self, source: Source, deadline: Duration, waits: bool) -> Pipeline {
        let mut call = match source {
            Source::Hash => command("EVALSHA", &self.script.hash),
            Source::Text => command("EVAL", &self.script.text),
        };
        call.arg(1).arg(&self.name);
        for argument in &self.arguments {
            call.arg(argument.as_slice());
        }
        if self.has_deadline {
            call.arg(deadline.as_micros().to_string());
        }
        let mut commands = Pipeline::with_capacity(2);
        commands.add_command(call);
        if waits {
            let mut wait = redis::cmd("WAIT");
            let within = u64::try_from(self.durability.time().as_millis()).unwrap_or(u64::MAX);
            wait.arg(self.durability.waits_for()).arg(within);
            commands.add_command(wait);
        }
        commands
    }
}

/// How a script is named.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Hash,
    Text,
}

fn command(name: &str, script: &str) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(script);
    command
}
