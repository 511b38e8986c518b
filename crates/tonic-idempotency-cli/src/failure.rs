//! Why a command has not done what it was told, and the exit status that says so.

use std::{io, process::ExitCode};

use crate::{hash::HashError, migrations};

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Something was found that is not as it should be, or not everything was done. It has been printed.
    #[error("{0}")]
    Findings(String),
    #[error("{0}")]
    Input(String),
    #[error("{0}")]
    NoAnswer(String),
    /// A right is missing: how to grant it.
    #[error("{0}")]
    Right(String),
    #[error(transparent)]
    Hash(#[from] HashError),
    #[error(transparent)]
    Migrations(#[from] migrations::Error),
    #[error(transparent)]
    Output(#[from] io::Error),
}

impl Failure {
    /// Returns whether the reader of the output has closed the pipe, because it has read enough.
    pub(crate) fn is_of_closed_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Says the same in other words, such as without secrets.
    pub(crate) fn reworded(self, reword: impl Fn(&str) -> String) -> Self {
        match self {
            Self::Findings(text) => Self::Findings(reword(&text)),
            Self::Input(text) => Self::Input(reword(&text)),
            Self::NoAnswer(text) => Self::NoAnswer(reword(&text)),
            Self::Right(text) => Self::Right(reword(&text)),
            other => other,
        }
    }

    pub(crate) fn status(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Findings(_) | Self::Migrations(_) | Self::Output(_) => 1,
            Self::Input(_) | Self::Hash(_) => 2,
            Self::NoAnswer(_) => 3,
            Self::Right(_) => 4,
        })
    }
}
