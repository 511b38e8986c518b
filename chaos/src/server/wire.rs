//! The lines between the harness and its servers: JSON, with a mark before what a server says.

use std::{
    io::{self, Write as _},
    net::SocketAddr,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{error::Error, step::Step};

/// The prefix of every [`Saying`]; the sample prints other lines, too.
const MARK: &str = "chaos:";

/// An instruction of the harness to a server.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) enum Instruction {
    /// Take an action at a step. Replaces the previous [`Arm`].
    Arm(Arm),
    /// Take no action any more.
    Forget,
    /// Go on after a pause.
    Resume,
}

/// An action for the `left`th time from now that a step is passed.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Arm {
    pub(crate) action: Action,
    pub(crate) left: u32,
    pub(crate) step: Step,
}

/// An action that a server takes on itself.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) enum Action {
    Die,
    Pause,
}

/// A message of a server to the harness.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) enum Saying {
    /// The handler of a call with this key begins.
    Began { key: Uuid, at: Duration },
    /// It has ended.
    Ended { key: Uuid, at: Duration },
    /// A call passes a step, for the first time in its life.
    Passed(Step),
    /// It is ready.
    Ready(Announcement),
    /// It has reached a step, and takes the action next.
    Reached(Action, Step),
    /// It runs a call unprotected.
    Unprotected(UnprotectedCall),
}

/// Everything that a client needs to call a server.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Announcement {
    pub(crate) address: SocketAddr,
    pub(crate) cluster_id: Uuid,
    pub(crate) tokens: Tokens,
}

/// The users' tokens, valid for this life of the server only.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Tokens {
    pub(crate) alice: String,
    pub(crate) bob: String,
}

/// A call with a key whose handler runs unprotected.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct UnprotectedCall {
    /// The call's key; `None` if it is not known.
    pub(crate) key: Option<Uuid>,
    pub(crate) cause: String,
    /// When the store was asked.
    pub(crate) asked: Duration,
    /// When the handler began.
    pub(crate) ran: Duration,
}

impl Saying {
    /// Writes the message to standard output.
    pub(super) fn say(&self) {
        let text = serde_json::to_string(self).unwrap_or_default();
        // Fails only if the harness has ended; then this process ends, too.
        let _ = writeln!(io::stdout().lock(), "{MARK}{text}");
        let _ = io::stdout().flush();
    }

    /// Parses a line of a server's output; `None` if the line is the sample's own.
    pub(crate) fn heard(line: &str) -> Option<Result<Self, Error>> {
        Some(serde_json::from_str(line.strip_prefix(MARK)?).map_err(Into::into))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_messages_and_ignores_other_lines() {
        let said = Saying::Reached(Action::Pause, Step::HandlerWrote);
        let line = format!("{MARK}{}", serde_json::to_string(&said).expect("a line"));
        assert_eq!(Saying::heard(&line).expect("a saying").expect("a well-formed one"), said);
        assert!(Saying::heard("Serving organization.v1 on 127.0.0.1:50051. Press Ctrl-C to stop.").is_none());
        assert!(Saying::heard("chaos:dies of boredom").expect("a saying").is_err());
    }
}
