//! `tonic-idempotency doctor`: what is wrong, why, and who mends it.

use serde::Deserialize;
use tokio_postgres::types::Type;
use tonic_idempotency::{
    migrations,
    store::{PostgresStore, ResourceTypes, VerifyError},
};

use super::{
    finding::{Finding, Verdict},
    overview::{OVERVIEW, Overview},
};
use crate::{
    connection::{Connection, ConnectionOptions, pool},
    failure::Failure,
    output::duration,
};

const OWNER: &str = "the owner of the tables";
const SUPERUSER: &str = "a superuser";

/// A record that has expired so long ago in seconds is not about to be swept: sweepers run each hour.
const SWEEP_IS_LATE: f64 = 6.0 * 3600.0;

/// A transaction that is open for so long in seconds keeps dead rows, and nearly all handlers are shorter.
const TRANSACTION_IS_LONG: f64 = 900.0;

/// So many dead rows, and this part of all rows, cost more than a vacuum.
const DEAD_ROWS: u64 = 100_000;
const DEAD_PART: u64 = 2;

/// So many rows need statistics.
const ROWS_WITHOUT_STATISTICS: u64 = 10_000;

/// Says what is wrong with the database of the layer, why, what mends it, and which role may.
///
/// As the API's role: what its servers check at start, but for their trial calls and the application's resource types. As an operator: how
/// the tables are. What this role may not see is `not seen`, never `ok`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// The table of keys.
    #[arg(long, value_name = "NAME", default_value = "idempotency_keys")]
    table: String,
    #[command(flatten)]
    pub(crate) connection: ConnectionOptions,
}

/// The things that the role may see.
#[derive(Debug, Deserialize)]
struct Rights {
    role: String,
    is_exempt: bool,
    is_operator: Option<bool>,
    is_api: Option<bool>,
}

const RIGHTS: &str = "
    SELECT current_user AS role, r.rolsuper OR r.rolbypassrls AS is_exempt,
           has_function_privilege(to_regprocedure('tenant.idempotency_overview()'), 'EXECUTE') AS is_operator,
           has_table_privilege(to_regclass(format('%I.%I', $1, $2)), 'SELECT') AS is_api
    FROM pg_roles r WHERE r.rolname = current_user";

pub(crate) async fn doctor(options: &Options) -> Result<(), Failure> {
    let schema = options.connection.schema()?;
    let schema = schema.table(&options.table).map_err(|error| Failure::Input(format!("--table: {error}")))?;
    let connection = Connection::of_operator(&options.connection).await?;
    let (name, table) = (schema.name().to_owned(), schema.table_name().to_owned());
    let rights = connection.ask::<Rights>(RIGHTS, &[(&name, Type::TEXT), (&table, Type::TEXT)]).await?;
    let rights = rights.into_iter().next().map(|answer| answer.row);
    let Some(rights) = rights else { return Err(Failure::NoAnswer("the role is not known".to_owned())) };

    let mut findings = Vec::new();
    if rights.is_operator == Some(true) {
        for answer in connection.ask::<Overview>(OVERVIEW, &[]).await? {
            findings.extend(of_tables(&answer.row));
        }
    } else {
        findings.push(Finding::not_seen("tables", format!("{} is no operator: run it as one, too", rights.role)));
    }
    drop(connection);
    if rights.is_api == Some(true) && !rights.is_exempt {
        let store = PostgresStore::new(pool()?, ResourceTypes::none()).schema(schema);
        findings.extend(of_api(store.verify_by_reading().await, &rights.role)?);
    } else {
        findings.push(Finding::not_seen("API", format!("{} is not the API's role: run it as that, too", rights.role)));
    }
    report(&findings, options.connection.json)
}

/// Prints the findings, and fails if one is to be mended.
pub(crate) fn report(findings: &[Finding], json: bool) -> Result<(), Failure> {
    for finding in findings {
        finding.print(json)?;
    }
    match findings.iter().filter(|finding| finding.verdict == Verdict::Found).count() {
        0 => Ok(()),
        1 => Err(Failure::Findings("1 thing is not as it should be".to_owned())),
        several => Err(Failure::Findings(format!("{several} things are not as they should be"))),
    }
}

/// Returns what the API's servers would find at start.
fn of_api(verified: Result<(), VerifyError>, role: &str) -> Result<Vec<Finding>, Failure> {
    let types = "the application's resource types, and trial calls: PostgresStore::verify checks them at start";
    let mut findings = vec![Finding::not_seen("types", types)];
    match verified {
        Ok(()) => {
            findings.push(Finding::ok("API", format!("{role} has its rights, and is bound by row-level security")))
        }
        Err(VerifyError::Problems(problems)) => findings.extend(problems.iter().map(|problem| {
            let said = problem.to_string();
            let (reason, cure) = said.split_once("; ").unwrap_or((&said, ""));
            Finding::found("API", reason, cure.trim_start_matches("as the owner of the tables, "), OWNER)
        })),
        Err(error) => return Err(Failure::NoAnswer(error.to_string())),
    }
    Ok(findings)
}

/// Returns how the tables are.
fn of_tables(overview: &Overview) -> Vec<Finding> {
    vec![
        migrated(overview),
        writable(overview),
        swept(overview),
        vacuumed(overview),
        analyzed(overview),
        open(overview),
        prepared(overview),
    ]
}

fn migrated(overview: &Overview) -> Finding {
    let needed =
        migrations::all(&tonic_idempotency::store::Schema::default()).last().map_or(0, migrations::Migration::version);
    let there = overview.migrations(false).count();
    if usize::try_from(needed).is_ok_and(|needed| there >= needed) {
        return Finding::ok("migrations", format!("{there} of {needed}"));
    }
    let cure = "run the migrations, which tonic-idempotency migrations writes";
    Finding::found("migrations", format!("{there} of the {needed} that this version has"), cure, OWNER)
}

fn writable(overview: &Overview) -> Finding {
    if overview.is_standby {
        let cure = "lead the API to the primary: a standby decides on no key";
        return Finding::found("server", "it is a standby", cure, "the API");
    }
    Finding::ok("server", format!("PostgreSQL {} takes writes", overview.server_version))
}

fn swept(overview: &Overview) -> Finding {
    match overview.expired_seconds {
        Some(late) if late > SWEEP_IS_LATE => Finding::found(
            "sweep",
            format!("a record has expired {} ago, and is still there", duration(late)),
            "tonic-idempotency sweep; and run a Sweeper in every server",
            "the API's role",
        ),
        _ => Finding::ok("sweep", "no record waits for long"),
    }
}

fn vacuumed(overview: &Overview) -> Finding {
    let Some(dead) = overview.dead_rows else {
        return Finding::not_seen("vacuum", "the server counts no dead rows: track_counts is off");
    };
    if dead < DEAD_ROWS || dead < overview.estimated_rows / DEAD_PART {
        return Finding::ok("vacuum", format!("{dead} dead rows beside about {}", overview.estimated_rows));
    }
    let reason = format!("{dead} dead rows beside about {}", overview.estimated_rows);
    Finding::found("vacuum", reason, "VACUUM the table of keys; end old transactions before", OWNER)
}

fn analyzed(overview: &Overview) -> Finding {
    match overview.analyze_seconds {
        None if overview.estimated_rows > ROWS_WITHOUT_STATISTICS => {
            Finding::found("statistics", "the planner knows nothing of the table", "ANALYZE the table of keys", OWNER)
        }
        _ => Finding::ok("statistics", "they are there, or not needed"),
    }
}

fn open(overview: &Overview) -> Finding {
    if let (Some(seconds), Some(pid)) = (overview.transaction_seconds, overview.oldest_transaction_pid)
        && seconds > TRANSACTION_IS_LONG
    {
        let application = overview.oldest_transaction_application.as_deref().unwrap_or_default();
        let reason = format!("one in the connection {pid} ({application}) is open for {}", duration(seconds));
        let cure = format!("look what it does; then SELECT pg_terminate_backend({pid})");
        return Finding::found("transactions", reason, cure, "a role with pg_signal_backend");
    }
    if overview.unseen_sessions > 0 {
        let reason = format!("{} sessions: {} needs pg_monitor", overview.unseen_sessions, overview.table_owner);
        return Finding::not_seen("transactions", reason);
    }
    Finding::ok("transactions", "none is open for long")
}

fn prepared(overview: &Overview) -> Finding {
    let Some(seconds) = overview.prepared_seconds.filter(|seconds| *seconds > TRANSACTION_IS_LONG) else {
        return Finding::ok("prepared", "no transaction is prepared for long");
    };
    let reason = format!("a transaction is prepared since {}, and outlives restarts", duration(seconds));
    let cure = "SELECT * FROM pg_prepared_xacts; then COMMIT PREPARED or ROLLBACK PREPARED what nobody owns";
    Finding::found("prepared", reason, cure, SUPERUSER)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first migrations, and a pack.
    fn core(migrations: u32) -> Vec<String> {
        (1..=migrations).map(|number| format!("V{number} table")).chain(["V102 partitions".to_owned()]).collect()
    }

    fn overview(change: &str, value: serde_json::Value) -> Overview {
        let mut well = serde_json::json!({
            "server_version": "15", "database": "d", "is_standby": false, "table_owner": "o", "version": 9,
            "migrations": core(9), "partitions": 0, "table_bytes": 1, "index_bytes": 1, "estimated_rows": 1_000_000,
            "dead_rows": 1_000, "vacuum_seconds": 60.0, "analyze_seconds": 60.0, "expired_seconds": 600.0,
            "transaction_seconds": 1.0, "oldest_transaction_pid": 7, "oldest_transaction_application": "a",
            "prepared_seconds": null, "unseen_sessions": 0, "audit_rows": 0
        });
        well[change] = value;
        serde_json::from_value(well).expect("an overview")
    }

    #[test]
    fn each_thing_that_is_wrong_is_found_and_nothing_else() {
        for (change, value, subject) in [
            ("database", "d".into(), None),
            ("migrations", core(9).into(), None),
            ("migrations", core(8).into(), Some("migrations")),
            ("is_standby", true.into(), Some("server")),
            ("expired_seconds", 30_000.0.into(), Some("sweep")),
            ("dead_rows", 600_000.into(), Some("vacuum")),
            ("analyze_seconds", serde_json::Value::Null, Some("statistics")),
            ("transaction_seconds", 1_000.0.into(), Some("transactions")),
            ("prepared_seconds", 1_000.0.into(), Some("prepared")),
        ] {
            let findings = of_tables(&overview(change, value));
            let found: Vec<_> = findings.iter().filter(|finding| finding.verdict != Verdict::Ok).collect();
            assert_eq!(
                found.iter().map(|finding| finding.subject).collect::<Vec<_>>(),
                Vec::from_iter(subject),
                "{change}"
            );
            assert!(found.iter().all(|finding| !finding.cure.is_empty() && !finding.role.is_empty()), "{change}");
        }
    }

    #[test]
    fn what_is_not_seen_is_not_ok() {
        for (change, value, subject) in
            [("unseen_sessions", 3.into(), "transactions"), ("dead_rows", serde_json::Value::Null, "vacuum")]
        {
            let findings = of_tables(&overview(change, value));
            let verdict = findings.iter().find(|finding| finding.subject == subject).map(|finding| finding.verdict);
            assert_eq!(verdict, Some(Verdict::NotSeen), "{change}");
        }
    }
}
