//! The result of one check.

use anstyle::Style;
use serde::Serialize;

use crate::output::{ALERT, GOOD, counted};

/// The result of a check of a promise.
#[derive(Serialize)]
pub(super) struct Entry {
    pub(super) code: &'static str,
    pub(super) promise: &'static str,
    pub(super) level: &'static str,
    pub(super) verdict: Verdict,
    /// The evidence of a failure, or the thing that is missing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) detail: String,
    pub(super) calls: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) effects: Option<u64>,
    pub(super) seconds: f64,
    /// How to repeat a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) repeat: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Ok,
    Failed,
    NotChecked,
    NotPromised,
}

impl Entry {
    /// The numbers that show that a promise is kept.
    pub(super) fn proof(&self) -> String {
        let calls = counted(self.calls, "call");
        match self.effects {
            Some(effects) => format!("{calls}, {}", counted(effects, "effect")),
            None => calls,
        }
    }
}

impl Verdict {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "FAILED",
            Self::NotChecked => "not checked",
            Self::NotPromised => "not promised",
        }
    }

    pub(super) fn style(self) -> Style {
        match self {
            Self::Ok => GOOD,
            Self::Failed => ALERT,
            Self::NotChecked | Self::NotPromised => Style::new(),
        }
    }
}
