//! The scripts: one for each transition of a record, and the look-up.

use std::{sync::LazyLock, time::Duration};

use redis::{Cmd, Pipeline, Script};

use crate::durability::Durability;

pub(crate) static ABANDON: LazyLock<Transition> =
    LazyLock::new(|| Transition::new(include_str!("scripts/abandon.lua")));
pub(crate) static CLAIM: LazyLock<Transition> = LazyLock::new(|| Transition::new(include_str!("scripts/claim.lua")));
pub(crate) static COMPLETE: LazyLock<Transition> =
    LazyLock::new(|| Transition::new(include_str!("scripts/complete.lua")));
pub(crate) static EXTEND: LazyLock<Transition> = LazyLock::new(|| Transition::new(include_str!("scripts/extend.lua")));
pub(crate) static LOOK_UP: LazyLock<Transition> =
    LazyLock::new(|| Transition::new(include_str!("scripts/look_up.lua")));
pub(crate) static RELEASE: LazyLock<Transition> =
    LazyLock::new(|| Transition::new(include_str!("scripts/release.lua")));

/// A script, with its hash.
pub(crate) struct Transition {
    text: &'static str,
    hash: String,
}

impl Transition {
    fn new(text: &'static str) -> Self {
        Self { text, hash: Script::new(text).get_hash().to_owned() }
    }

    /// Makes a call of this script on a record.
    pub(crate) fn on(&'static self, name: String) -> Call {
        Call { script: self, name, arguments: Vec::new(), durability: Durability::primary(), has_deadline: false }
    }
}

/// A call of a script.
pub(crate) struct Call {
    script: &'static Transition,
    pub(crate) name: String,
    arguments: Vec<Vec<u8>>,
    pub(crate) durability: Durability,
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

    /// Returns the commands: the call, by the hash of its script or with its text, and what waits for the replicas. The deadline is by the
    /// server's clock.
    pub(crate) fn commands(&self, source: Source, deadline: Duration) -> Pipeline {
        let mut call = match source {
            Source::Hash => command("EVALSHA", &self.script.hash),
            Source::Text => command("EVAL", self.script.text),
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
        if !self.durability.is_primary() {
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
