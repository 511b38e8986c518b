//! The findings of `doctor`.

use serde::Serialize;

use crate::{
    failure::Failure,
    output::{self, ALERT, GOOD},
};

/// How a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    Ok,
    Found,
    /// This role may not see it, or this program cannot know it.
    NotSeen,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) verdict: Verdict,
    pub(crate) subject: &'static str,
    pub(crate) reason: String,
    /// The remedy, which `role` may apply; empty if there is nothing to do.
    pub(crate) cure: String,
    pub(crate) role: &'static str,
}

impl Finding {
    pub(crate) fn ok(subject: &'static str, reason: impl Into<String>) -> Self {
        Self { verdict: Verdict::Ok, subject, reason: reason.into(), cure: String::new(), role: "" }
    }

    pub(crate) fn found(
        subject: &'static str,
        reason: impl Into<String>,
        cure: impl Into<String>,
        role: &'static str,
    ) -> Self {
        Self { verdict: Verdict::Found, subject, reason: reason.into(), cure: cure.into(), role }
    }

    pub(crate) fn not_seen(subject: &'static str, reason: impl Into<String>) -> Self {
        Self { verdict: Verdict::NotSeen, subject, reason: reason.into(), cure: String::new(), role: "" }
    }

    pub(crate) fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            let line = serde_json::to_string(self).map_err(|error| Failure::Output(error.into()))?;
            return output::line(&line);
        }
        let (style, verdict) = match self.verdict {
            Verdict::Ok => (GOOD, "ok"),
            Verdict::Found => (ALERT, "found"),
            Verdict::NotSeen => (ALERT, "not seen"),
        };
        output::line(&format!("{style}{verdict:<9}{style:#} {:<13} {}", self.subject, self.reason))?;
        if self.cure.is_empty() { Ok(()) } else { output::line(&format!("{:<23} as {}: {}", "", self.role, self.cure)) }
    }
}
