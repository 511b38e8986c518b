//! The state of a key, and what it means to a person.

use serde::Deserialize;
use uuid::Uuid;

use super::key::Key;
use crate::{
    failure::Failure,
    output::{ago, duration, plain},
};

/// The columns of `tenant.idempotency_inspect`, with intervals in seconds.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Inspected {
    pub(super) state: State,
    pub(super) token: Option<Uuid>,
    lease_left_seconds: Option<f64>,
    expires_in_seconds: Option<f64>,
    resource: Option<String>,
    holder_pid: Option<i32>,
    holder_gid: Option<String>,
    holder_application: Option<String>,
    holder_for_seconds: Option<f64>,
}

/// The query of it.
pub(super) const INSPECT: &str = "
    SELECT i.*, date_part('epoch', i.lease_left) AS lease_left_seconds,
           date_part('epoch', i.expires - clock_timestamp()) AS expires_in_seconds,
           date_part('epoch', clock_timestamp() - i.holder_since) AS holder_for_seconds
    FROM tenant.idempotency_inspect($1, $2, $3) i";

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Absent,
    Abandoned,
    Completed,
    Failed,
    NotStored,
    Reserved,
    Running,
    Unknown,
}

impl State {
    /// Returns whether the key needs a person.
    pub(super) fn is_stuck(self) -> bool {
        matches!(self, Self::Abandoned | Self::Unknown)
    }
}

impl Inspected {
    /// Returns three lines: the state and its cause, what a retry meets, and what to do next.
    pub(super) fn explained(&self, key: &Key) -> [(&'static str, String); 3] {
        let for_now =
            || self.expires_in_seconds.map_or(String::new(), |left| format!(" for another {}", duration(left)));
        let release = |more: &str| {
            let token = self.token.map_or_else(|| "none".to_owned(), |token| token.to_string());
            format!("tonic-idempotency release {} --token {token}{more} --reason …", key.arguments())
        };
        match self.state {
            State::Absent => [
                ("absent", "there is no record, or it has expired".to_owned()),
                ("a retry", "runs".to_owned()),
                ("next", "nothing".to_owned()),
            ],
            State::Abandoned => [
                (
                    "abandoned",
                    format!("its lease ended {} without an outcome", ago(-self.lease_left_seconds.unwrap_or_default())),
                ),
                ("a retry", "runs again, is refused or asks the reconciler: on_lease_ended".to_owned()),
                ("next", format!("look for the effect; if there is none: {}", release(""))),
            ],
            State::Unknown => [
                ("unknown", "the call ended, and it is not known whether it took effect".to_owned()),
                ("a retry", "is refused, or asks the reconciler: on_lease_ended".to_owned()),
                ("next", format!("look for the effect; if there is none: {}", release(""))),
            ],
            State::Reserved => {
                let holds = match self.lease_left_seconds {
                    Some(left) => format!("a call holds it, for another {} at least", duration(left)),
                    None => format!("a call of a Go server holds it{}", for_now()),
                };
                let stopped = release(" --call-is-stopped");
                [
                    ("reserved", holds),
                    ("a retry", "is refused, or waits until the call has ended".to_owned()),
                    (
                        "next",
                        format!(
                            "wait: handler_timeout ends a handler that hangs; or stop the call, and then: {stopped}"
                        ),
                    ),
                ]
            }
            State::Running => [
                ("running", self.holder()),
                ("a retry", "is refused, or waits until the transaction has ended".to_owned()),
                ("next", format!("wait; or end the transaction: {}", self.end_of_holder())),
            ],
            State::Completed => [
                ("completed", format!("the call has a response{}", self.created())),
                ("a retry", format!("gets the response{}", for_now())),
                ("next", "nothing".to_owned()),
            ],
            State::NotStored => [
                (
                    "not_stored",
                    format!("the call has succeeded{}; its response was too large, or was erased", self.created()),
                ),
                ("a retry", format!("is refused with IDEMPOTENCY_RESPONSE_NOT_STORED{}", for_now())),
                ("next", "nothing, or raise max_response_bytes".to_owned()),
            ],
            State::Failed => [
                ("failed", "the call has an error that ended its operation".to_owned()),
                ("a retry", format!("gets the error{}", for_now())),
                ("next", "nothing".to_owned()),
            ],
        }
    }

    /// Returns which transaction holds the key.
    pub(super) fn holder(&self) -> String {
        let since = self.holder_for_seconds.map_or(String::new(), |seconds| format!(", since {}", duration(seconds)));
        match (&self.holder_gid, self.holder_pid) {
            (Some(gid), _) => format!("the prepared transaction {gid:?} holds it{since}"),
            (None, Some(pid)) => {
                let application = plain(self.holder_application.as_deref().unwrap_or_default());
                format!("a transaction in the connection {pid} ({application}) holds it{since}")
            }
            (None, None) => "a transaction holds it".to_owned(),
        }
    }

    fn end_of_holder(&self) -> String {
        match (&self.holder_gid, self.holder_pid) {
            (Some(gid), _) => {
                let gid = plain(gid).replace('\'', "''");
                format!("ROLLBACK PREPARED '{gid}', or COMMIT PREPARED '{gid}'")
            }
            (None, pid) => format!(
                "SELECT pg_terminate_backend({}), as a role with pg_signal_backend",
                pid.map_or_else(|| "…".to_owned(), |pid| pid.to_string())
            ),
        }
    }

    fn created(&self) -> String {
        self.resource.as_ref().map_or(String::new(), |resource| format!(", and created {}", plain(resource)))
    }
}

/// Returns the only row of an inspection.
pub(super) fn only<T>(rows: Vec<T>) -> Result<T, Failure> {
    rows.into_iter().next().ok_or_else(|| Failure::NoAnswer("the database has answered without a row".to_owned()))
}
