//! `tonic-idempotency list`: the keys without an outcome.

use std::{
    str::FromStr,
    time::{Duration, Instant},
};

use indicatif::ProgressBar;
use serde::Deserialize;
use tokio::time::sleep;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::state::State;
use crate::{
    connection::{Answer, Connection, ConnectionOptions, Parameters},
    failure::Failure,
    output::{self, ALERT, Table, ahead, counted, duration},
};

/// Lists the keys of all users that have no outcome: reserved, abandoned and unknown, oldest first.
///
/// A call in transactional mode that still runs has no record yet, and is not listed. The list is noted in tenant.idempotency_audit.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Only keys of this procedure, such as /billing.v1.OrderService/CreateOrder.
    #[arg(long, value_name = "PATH")]
    procedure: Option<String>,
    /// Only keys that were first reserved so long ago, or later.
    #[arg(long, value_name = "TIME", default_value = "24h")]
    lookback: Lookback,
    /// The largest number of keys.
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..))]
    limit: i32,
    #[command(flatten)]
    connection: ConnectionOptions,
}

/// A length of time, as it was written: `24h`.
#[derive(Clone, Debug)]
struct Lookback {
    text: String,
    time: Duration,
}

impl FromStr for Lookback {
    type Err = humantime::DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self { text: text.to_owned(), time: humantime::parse_duration(text)? })
    }
}

/// How long a list rests after each page, in times of what it took: a page keeps a processor of the server busy, and calls need it.
const REST: u32 = 2;

/// The columns of `tenant.idempotency_list`, with intervals in seconds. The last row of a page has no key.
#[derive(Debug, Deserialize)]
struct Listed {
    state: Option<State>,
    procedure: Option<String>,
    key_id: Option<Uuid>,
    owner: Option<Uuid>,
    attempts: Option<i32>,
    age_seconds: Option<f64>,
    expires_in_seconds: Option<f64>,
    records: Option<u64>,
    reached: Option<Uuid>,
}

const LIST: &str = "
    SELECT l.*, date_part('epoch', clock_timestamp() - l.created) AS age_seconds,
           date_part('epoch', l.expires - clock_timestamp()) AS expires_in_seconds
    FROM tenant.idempotency_list($1, make_interval(secs => $2), $3, $4) l";

pub(crate) async fn list(options: &Options) -> Result<(), Failure> {
    let connection = Connection::of_operator(&options.connection).await?;
    let begun = Instant::now();
    let progress = ProgressBar::new_spinner();
    let (mut keys, mut read, mut reached) = (Vec::new(), 0, None);
    loop {
        let left = options.limit - i32::try_from(keys.len()).unwrap_or(options.limit);
        let lookback = options.lookback.time.as_secs_f64();
        let parameters: Parameters<'_> =
            &[(&options.procedure, Type::TEXT), (&lookback, Type::FLOAT8), (&left, Type::INT4), (&reached, Type::UUID)];
        let asked = Instant::now();
        let mut page = connection.ask::<Listed>(LIST, parameters).await?;
        let end = page.pop().map(|end| end.row);
        keys.extend(page);
        read += end.as_ref().and_then(|end| end.records).unwrap_or_default();
        reached = end.and_then(|end| end.reached);
        progress.set_message(format!("{} read", counted(read, "record")));
        progress.tick();
        if reached.is_none() || keys.len() >= usize::try_from(options.limit).unwrap_or_default() {
            break;
        }
        sleep(REST * asked.elapsed()).await;
    }
    progress.finish_and_clear();
    print(&keys, options)?;
    let found = counted(u64::try_from(keys.len()).unwrap_or(u64::MAX), "key");
    let more = if reached.is_some() { "; there may be more: --limit" } else { "" };
    let took = begun.elapsed().as_secs_f64();
    let (time, read) = (&options.lookback.text, counted(read, "record"));
    let said = format!("{found} of the last {time}; {read} read in {took:.1} s{more}");
    if options.connection.json { output::note(&said) } else { output::line(&said) }
}

fn print(keys: &[Answer<Listed>], options: &Options) -> Result<(), Failure> {
    if options.connection.json {
        return keys.iter().try_for_each(|key| output::line(&key.json));
    }
    if keys.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["STATE", "AGE", "EXPIRES", "CALLS", "PROCEDURE", "KEY", "OWNER"])?;
    for Answer { row, .. } in keys {
        let state = row.state.map_or_else(|| "?".to_owned(), |state| format!("{state:?}").to_lowercase());
        let style = if row.state.is_some_and(State::is_stuck) { ALERT } else { anstyle::Style::new() };
        let id = |id: Option<Uuid>| id.map_or_else(String::new, |id| id.to_string());
        let cells = [
            state,
            row.age_seconds.map_or_else(String::new, duration),
            row.expires_in_seconds.map_or_else(String::new, ahead),
            row.attempts.unwrap_or_default().to_string(),
            row.procedure.clone().unwrap_or_default(),
            id(row.key_id),
            id(row.owner),
        ];
        table.row(style, &cells)?;
    }
    table.print()
}
