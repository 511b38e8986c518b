//! `tonic-idempotency release`: frees keys that were looked at.

use std::{fmt, fs, path::PathBuf, str::FromStr};

use serde::Deserialize;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::{
    key::Key,
    state::{INSPECT, Inspected, State, only},
};
use crate::{
    connection::{Connection, ConnectionOptions, Isolation, Parameters},
    failure::Failure,
    output::{self, consents, is_in_terminal},
};

/// The largest number of keys of a file.
const MOST: usize = 1000;

/// Frees a key without an outcome, so that a retry runs the handler: look for the effect first.
///
/// The token is that of `inspect`, or of a line of `list --json`: a key that another call has taken since is not freed. A key whose call has an
/// outcome is never freed. In a terminal, it asks. It is noted in tenant.idempotency_audit, with the reason and who gave it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// The key as the client sent it, or its id in `list`; with --operation, the operation's id.
    #[arg(required_unless_present = "from")]
    key: Option<String>,
    /// The user as the application names it, or the owner's id in `list`.
    #[arg(long, value_name = "USER", required_unless_present = "from")]
    user: Option<String>,
    /// The user's scope, if the application has scopes.
    #[arg(long, value_name = "SCOPE")]
    scope: Option<String>,
    /// The key is that of an operation with this name, such as billing.v1/ChargeOrder.
    #[arg(long, value_name = "NAME")]
    operation: Option<String>,
    /// The token of the call that holds the key; none for a reservation of a Go server, which has none.
    #[arg(long, value_name = "TOKEN", required_unless_present = "from")]
    token: Option<Token>,
    /// A file with lines of `list --json`, at most 1,000, without those whose effect has happened. `-` is standard input. Running it again does no
    /// harm.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "operation", "scope", "token", "user"])]
    from: Option<PathBuf>,
    /// Why: a ticket, and that no effect was found.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Frees keys that are reserved, too. Their calls have to be stopped: one that still runs takes effect beside the retry.
    #[arg(long)]
    call_is_stopped: bool,
    #[command(flatten)]
    connection: ConnectionOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Token(Option<Uuid>);

impl FromStr for Token {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" { Ok(Self(None)) } else { text.parse().map(|token| Self(Some(token))) }
    }
}

/// A line of `list --json`.
#[derive(Debug, Deserialize)]
struct Line {
    key_id: Uuid,
    owner: Uuid,
    #[serde(deserialize_with = "Option::deserialize")]
    token: Option<Uuid>,
}

/// The fate of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Released,
    Absent,
    Completed,
    NotStored,
    Failed,
    OtherToken,
    Running,
    /// Its call may still run: `--call-is-stopped` was not given.
    Reserved,
    /// It has changed at the same moment.
    Changed,
}

impl Outcome {
    /// Returns whether there is nothing left to do.
    fn is_done(self) -> bool {
        matches!(self, Self::Released | Self::Absent)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Released => "released: a retry runs the handler",
            Self::Absent => "absent: there is nothing to release",
            Self::Completed | Self::NotStored => "completed: the call has succeeded, and its outcome stays",
            Self::Failed => "failed: the call has an error, which stays",
            Self::OtherToken => "other_token: another call holds the key; inspect it again",
            Self::Running => "running: a transaction holds the key",
            Self::Reserved => "reserved: the call may still run, and then both it and the retry take effect; stop it, and give --call-is-stopped",
            Self::Changed => "changed: another transaction was first; inspect it again",
        })
    }
}

pub(crate) async fn release(options: &Options) -> Result<(), Failure> {
    let reason = signed(&options.reason);
    let Options { key, user, scope, operation, .. } = options.clone();
    match (&options.from, key, user, options.token) {
        (None, Some(key), Some(user), Some(token)) => {
            release_one(options, &Key { key, user, scope, operation }, token, &reason).await
        }
        (Some(path), ..) => release_all(options, &lines(path)?, &reason).await,
        (None, ..) => Err(Failure::Input("give a key with --user and --token, or --from".to_owned())),
    }
}

async fn release_one(options: &Options, key: &Key, token: Token, reason: &str) -> Result<(), Failure> {
    let connection = Connection::of_operator(&options.connection).await?;
    let text = key.text(&connection).await?;
    let target = Target { key: &text, user: &key.user, scope: key.scope.as_deref(), token };
    if is_in_terminal() {
        let inspected = only(connection.ask::<Inspected>(INSPECT, &target.inspected()).await?)?.row;
        let [(state, cause), ..] = inspected.explained(key);
        output::note(&format!("{state}: {cause}"))?;
        let is_releasable =
            inspected.state.is_stuck() || (inspected.state == State::Reserved && options.call_is_stopped);
        if is_releasable && !consents("Has no effect been found, so that a retry may run the handler?")? {
            return Err(Failure::Findings("nothing was released".to_owned()));
        }
    }
    let (outcome, inspected) = target.release(&connection, options.call_is_stopped, reason).await?;
    report(options, &target, outcome)?;
    match outcome {
        outcome if outcome.is_done() => Ok(()),
        Outcome::Running => {
            let [_, _, (_, todo)] = inspected.explained(key);
            Err(Failure::Findings(format!("nothing was released: {}. {todo}", inspected.holder())))
        }
        _ => Err(Failure::Findings("nothing was released".to_owned())),
    }
}

async fn release_all(options: &Options, lines: &[Line], reason: &str) -> Result<(), Failure> {
    let question = format!("Release {} keys, of which no effect has been found?", lines.len());
    if is_in_terminal() && !lines.is_empty() && !consents(&question)? {
        return Err(Failure::Findings("nothing was released".to_owned()));
    }
    let connection = Connection::of_operator(&options.connection).await?;
    let mut left = 0;
    for line in lines {
        let [key, user] = [line.key_id, line.owner].map(|id| id.to_string());
        let target = Target { key: &key, user: &user, scope: None, token: Token(line.token) };
        let (outcome, _) = target.release(&connection, options.call_is_stopped, reason).await?;
        report(options, &target, outcome)?;
        left += usize::from(!outcome.is_done());
    }
    if left == 0 { Ok(()) } else { Err(Failure::Findings(format!("{left} of {} keys were not released", lines.len()))) }
}

/// Prints what has become of a key.
fn report(options: &Options, target: &Target<'_>, outcome: Outcome) -> Result<(), Failure> {
    if !options.connection.json {
        return output::line(&format!("{} {outcome}", target.key));
    }
    let outcome = outcome.to_string();
    let (outcome, hint) = outcome.split_once(": ").unwrap_or((&outcome, ""));
    output::line(
        &serde_json::json!({ "key": target.key, "user": target.user, "outcome": outcome, "hint": hint }).to_string(),
    )
}

/// A key to be released.
struct Target<'a> {
    key: &'a str,
    user: &'a str,
    scope: Option<&'a str>,
    token: Token,
}

impl Target<'_> {
    fn inspected(&self) -> [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] {
        [(&self.key, Type::TEXT), (&self.user, Type::TEXT), (&self.scope, Type::TEXT)]
    }

    /// Looks at the key, and releases it in the same transaction if its state allows. If it changes between the two, nothing happens.
    async fn release(
        &self,
        connection: &Connection,
        call_is_stopped: bool,
        reason: &str,
    ) -> Result<(Outcome, Inspected), Failure> {
        connection.begin(Isolation::RepeatableRead).await?;
        let inspected = only(connection.query::<Inspected>(INSPECT, &self.inspected()).await?)?.row;
        let is_ours = inspected.token == self.token.0;
        let outcome = match inspected.state {
            State::Abandoned | State::Unknown | State::Reserved if !is_ours => Outcome::OtherToken,
            State::Reserved if !call_is_stopped => Outcome::Reserved,
            _ => match self.ask(connection, reason).await {
                Err(Failure::Findings(_)) => {
                    connection.roll_back().await;
                    return Ok((Outcome::Changed, inspected));
                }
                outcome => outcome?,
            },
        };
        connection.commit().await?;
        Ok((outcome, inspected))
    }

    async fn ask(&self, connection: &Connection, reason: &str) -> Result<Outcome, Failure> {
        #[derive(Deserialize)]
        struct Released {
            outcome: String,
        }
        let release = "SELECT r.outcome FROM tenant.idempotency_operator_release($1, $2, $4, $3, $5) r";
        let parameters: Parameters<'_> = &[
            (&self.key, Type::TEXT),
            (&self.user, Type::TEXT),
            (&self.scope, Type::TEXT),
            (&self.token.0, Type::UUID),
            (&reason, Type::TEXT),
        ];
        let outcome = only(connection.query::<Released>(release, parameters).await?)?.row.outcome;
        Ok(match outcome.as_str() {
            "released" => Outcome::Released,
            "absent" => Outcome::Absent,
            "completed" => Outcome::Completed,
            "not_stored" => Outcome::NotStored,
            "failed" => Outcome::Failed,
            "other_token" => Outcome::OtherToken,
            "running" => Outcome::Running,
            other => return Err(Failure::NoAnswer(format!("an outcome that this program does not know: {other}"))),
        })
    }
}

/// Adds who gives the reason: the operators' role is shared.
fn signed(reason: &str) -> String {
    let user = whoami::username().unwrap_or_else(|_| "?".to_owned());
    let host = whoami::hostname().unwrap_or_else(|_| "?".to_owned());
    format!("{reason} ({user}@{host})")
}

/// Reads the keys of a file. Nothing is released if one of its lines cannot be read.
fn lines(path: &PathBuf) -> Result<Vec<Line>, Failure> {
    let unread = |error: &dyn fmt::Display| Failure::Input(format!("{}: {error}", path.display()));
    let text =
        if path.as_os_str() == "-" { std::io::read_to_string(std::io::stdin()) } else { fs::read_to_string(path) };
    let text = text.map_err(|error| unread(&error))?;
    let mut keys = Vec::new();
    for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
        let key = serde_json::from_str(line);
        keys.push(key.map_err(|error| unread(&format!("line {number}: {error}; nothing was released")))?);
    }
    if keys.len() > MOST {
        return Err(unread(&format!("{} keys, and {MOST} at most may be released at once", keys.len())));
    }
    Ok(keys)
}
