//! The lines between the harness and its servers.

use std::{
    fmt,
    io::{self, Write as _},
    str::FromStr,
};

use super::{Ready, Unprotected};
use crate::{error::Error, step::Step};

/// The prefix of every [`Saying`]; the sample prints other lines, too.
const MARK: &str = "chaos:";

/// An instruction of the harness to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instruction {
    /// Take an action at a step. Replaces the previous [`Arm`].
    Arm(Arm),
    /// Take no action any more.
    Forget,
    /// Go on after a pause.
    Resume,
}

/// An action for the `left`th time from now that a step is passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arm {
    pub(crate) action: Action,
    pub(crate) left: u32,
    pub(crate) step: Step,
}

/// An action that a server takes on itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Die,
    Pause,
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Arm(Arm { action: Action::Die, left, step }) => write!(f, "die {step} {left}"),
            Self::Arm(Arm { action: Action::Pause, left, step }) => write!(f, "pause {step} {left}"),
            Self::Forget => f.write_str("forget"),
            Self::Resume => f.write_str("resume"),
        }
    }
}

impl FromStr for Instruction {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<_> = line.split_whitespace().collect();
        let arm = |action, step: &str, left: &str| {
            Some(Self::Arm(Arm { action, left: left.parse().ok()?, step: step.parse().ok()? }))
        };
        let instruction = match words[..] {
            ["die", step, left] => arm(Action::Die, step, left),
            ["pause", step, left] => arm(Action::Pause, step, left),
            ["forget"] => Some(Self::Forget),
            ["resume"] => Some(Self::Resume),
            _ => None,
        };
        instruction.ok_or_else(|| format!("not an instruction: {line:?}"))
    }
}

/// A message of a server to the harness.
#[derive(Clone, Debug)]
pub(crate) enum Saying {
    /// A call passes a step, for the first time in its life.
    Passed(Step),
    /// It is ready.
    Ready(Ready),
    /// It has reached a step, and takes the action next.
    Reached(Action, Step),
    /// This many more calls have shared a statement with others.
    Shared(usize),
    /// It runs a call unprotected.
    Unprotected(Unprotected),
}

impl Saying {
    /// Writes the message to standard output.
    pub(super) fn say(&self) {
        // Fails only if the harness has ended; then this process ends, too.
        let _ = writeln!(io::stdout().lock(), "{self}");
        let _ = io::stdout().flush();
    }

    /// Parses a line of a server's output; `None` if the line is the sample's own.
    pub(crate) fn heard(line: &str) -> Option<Result<Self, Error>> {
        let said = line.strip_prefix(MARK)?.trim();
        let (word, rest) = said.split_once(' ').unwrap_or((said, ""));
        let step = || rest.parse().map_err(|_| format!("not a step: {rest:?}").into());
        Some(match word {
            "ready" => serde_json::from_str(rest).map(Self::Ready).map_err(Into::into),
            "passes" => step().map(Self::Passed),
            "dies" => step().map(|step| Self::Reached(Action::Die, step)),
            "shares" => rest.parse().map(Self::Shared).map_err(|_| format!("not a number: {rest:?}").into()),
            "unprotected" => serde_json::from_str(rest).map(Self::Unprotected).map_err(Into::into),
            "pauses" => step().map(|step| Self::Reached(Action::Pause, step)),
            _ => Err(format!("not a message of a server: {line:?}").into()),
        })
    }
}

impl fmt::Display for Saying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed(step) => write!(f, "{MARK} passes {step}"),
            Self::Ready(ready) => {
                let ready = serde_json::to_string(ready).map_err(|_| fmt::Error)?;
                write!(f, "{MARK} ready {ready}")
            }
            Self::Reached(Action::Die, step) => write!(f, "{MARK} dies {step}"),
            Self::Reached(Action::Pause, step) => write!(f, "{MARK} pauses {step}"),
            Self::Shared(calls) => write!(f, "{MARK} shares {calls}"),
            Self::Unprotected(run) => {
                let run = serde_json::to_string(run).map_err(|_| fmt::Error)?;
                write!(f, "{MARK} unprotected {run}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn parses_every_instruction_from_its_line() {
        for instruction in [
            Instruction::Arm(Arm { action: Action::Die, left: 3, step: Step::AfterClaim }),
            Instruction::Arm(Arm { action: Action::Pause, left: 1, step: Step::BeforeSettle }),
            Instruction::Forget,
            Instruction::Resume,
        ] {
            assert_eq!(instruction.to_string().parse(), Ok(instruction));
        }
        for line in ["", "die", "die after_lunch 1", "die after_claim x", "dance"] {
            assert!(line.parse::<Instruction>().is_err(), "{line}");
        }
    }

    #[test]
    fn parses_messages_and_ignores_other_lines() {
        let said = Saying::Reached(Action::Pause, Step::HandlerWrote).to_string();
        let heard = Saying::heard(&said).expect("a saying").expect("a well-formed one");
        assert!(matches!(heard, Saying::Reached(Action::Pause, Step::HandlerWrote)));
        let heard = Saying::heard(&Saying::Passed(Step::AfterClaim).to_string());
        assert!(matches!(heard, Some(Ok(Saying::Passed(Step::AfterClaim)))));
        let heard = Saying::heard(&Saying::Shared(7).to_string());
        assert!(matches!(heard, Some(Ok(Saying::Shared(7)))));
        let run = Unprotected { key: None, cause: "interrupted".to_owned(), asked: UNIX_EPOCH, ran: SystemTime::now() };
        let said = Saying::Unprotected(run.clone()).to_string();
        let heard = Saying::heard(&said).expect("a saying").expect("a well-formed one");
        assert!(matches!(heard, Saying::Unprotected(it) if it == run));
        assert!(Saying::heard("Serving organization.v1 on 127.0.0.1:50051. Press Ctrl-C to stop.").is_none());
        assert!(Saying::heard("chaos: dies of_boredom").expect("a saying").is_err());
    }
}
