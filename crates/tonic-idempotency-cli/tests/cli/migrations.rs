//! The files of `tonic-idempotency migrations`: their names, their texts, and that they are never overwritten.

use std::{
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use tempfile::TempDir;
use tonic_idempotency::{migrations, store::Schema};

use crate::{run, stderr, stdout};

const INVOICE: &str = "--resource-type=invoice:invoice_id:billing.invoices";
const ROLE: &str = "--grant=my_api_role";

/// The names of the library's migrations, and then of those for the resource type and the role.
fn names() -> Vec<String> {
    let library = migrations::all(&Schema::default());
    let names = library.iter().map(|known| format!("tonic_idempotency_{}_{}", known.version(), known.name()));
    let more = ["register_invoice", "validate_invoice", &format!("{}_grant_my_api_role", library.len())];
    names.chain(more.map(|name| format!("tonic_idempotency_{name}"))).collect()
}

/// The number of the library's migrations.
fn library() -> usize {
    migrations::all(&Schema::default()).len()
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// Writes files for a runner into the folder `migrations`.
fn write(folder: &TempDir, format: &str, more: &[&str]) -> std::process::Output {
    let arguments = [&["migrations", "--format", format, "--out", "migrations"], more].concat();
    run(folder.path(), &arguments)
}

/// A file of the application.
fn put(folder: &TempDir, path: &str) {
    let path = folder.path().join("migrations").join(path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("the folder");
    fs::write(path, "SELECT 1;").expect("the file");
}

/// The sorted paths of the files below `migrations`, without the application's own files.
fn files(folder: &TempDir) -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<String>, root: &Path) {
        for entry in fs::read_dir(folder).expect("the folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path, found, root);
            } else {
                found.push(path.strip_prefix(root).expect("below").to_str().expect("UTF-8").to_owned());
            }
        }
    }
    let mut found = Vec::new();
    let root = folder.path().join("migrations");
    walk(&root, &mut found, &root);
    found.retain(|path| path.contains("tonic_idempotency"));
    found.sort();
    found
}

/// The sorted versions of files such as `V7__name.sql` and `7_name.sql`. In this order, the files have to have the
/// `names`.
fn versions(files: &[String], separator: &str, suffix: &str) -> Vec<String> {
    let mut parts: Vec<_> = files
        .iter()
        .map(|file| file.strip_suffix(suffix).and_then(|file| file.split_once(separator)).expect("a migration"))
        .collect();
    // V10 is after V9.
    parts.sort_by_key(|(version, _)| (version.len(), *version));
    assert_eq!(parts.iter().map(|(_, name)| *name).collect::<Vec<_>>(), names());
    parts.into_iter().map(|(version, _)| version.to_owned()).collect()
}

/// The time that a version of 14 digits stands for. One second later may be in the next minute, so versions cannot be
/// subtracted.
fn time(version: &str) -> SystemTime {
    let (date, clock) = version.split_at(8);
    let date = format!("{}-{}-{}", &date[..4], &date[4..6], &date[6..]);
    let clock = format!("{}:{}:{}", &clock[..2], &clock[2..4], &clock[4..]);
    humantime::parse_rfc3339(&format!("{date}T{clock}Z")).expect("a time")
}

#[test]
fn for_sqlx_are_numbered_by_the_time() {
    let folder = folder();
    let said = stdout(&write(&folder, "sqlx", &[INVOICE, ROLE]));
    let versions = versions(&files(&folder), "_", ".sql");
    assert!(versions.iter().all(|version| version.len() == 14 && version.starts_with("20")), "{versions:?}");
    let times: Vec<_> = versions.iter().map(|version| time(version)).collect();
    assert!(times.windows(2).all(|pair| pair[1] == pair[0] + Duration::from_secs(1)), "{versions:?}");
    let summary = format!(
        "{} files written for sqlx, 0 unchanged. Commit them, and run them with your own migrations: `sqlx migrate run`, or \
         `sqlx::migrate!`.\n",
        names().len()
    );
    assert!(said.ends_with(&summary), "{said}");
}

/// They come before those of the types, too: then the foreign keys of the types are made quickly.
#[test]
fn of_partitions_come_after_the_librarys() {
    let folder = folder();
    stdout(&write(&folder, "refinery", &["--partitions=16", INVOICE]));
    let path = format!("migrations/V{}__tonic_idempotency_partition.sql", library() + 1);
    let text = fs::read_to_string(folder.path().join(path)).expect("the file");
    assert!(text.ends_with("SELECT tenant.idempotency_partition(16);\n"), "{text}");
    for refused in ["--partitions=1", "--partitions=257", "--partitions=many"] {
        let error = stderr(&write(&folder, "refinery", &[refused]));
        assert!(error.contains("--partitions"), "{error}");
    }
}

/// They come before the grants, because the role needs grants for the limits, too.
#[test]
fn of_limits_come_after_the_librarys() {
    let folder = folder();
    stdout(&write(&folder, "refinery", &["--limits", ROLE]));
    let path = format!("migrations/V{}__tonic_idempotency_limits.sql", library() + 1);
    let text = fs::read_to_string(folder.path().join(path)).expect("the file");
    assert_eq!(text, migrations::limits_sql(&Schema::default()));
}

#[test]
fn for_refinery_and_flyway_are_counted() {
    for format in ["refinery", "flyway"] {
        let folder = folder();
        stdout(&write(&folder, format, &[INVOICE, ROLE]));
        let versions = versions(&files(&folder), "__", ".sql");
        assert!((1..=names().len()).map(|version| format!("V{version}")).eq(versions), "{format}");
    }
}

#[test]
fn for_diesel_are_folders_in_the_order_of_their_names() {
    let folder = folder();
    stdout(&write(&folder, "diesel", &[INVOICE, ROLE]));
    let files = files(&folder);
    let up: Vec<_> = files.iter().filter(|file| file.ends_with("/up.sql")).cloned().collect();
    assert_eq!(files.len(), 2 * up.len(), "each has its down.sql");
    let versions = versions(&up, "_", "/up.sql");
    // 2026-01-02-030405-0000
    assert!(versions.iter().all(|version| version.split('-').map(str::len).eq([4, 2, 2, 6, 4])), "{versions:?}");
    let down = fs::read_to_string(folder.path().join("migrations").join(&files[0])).expect("the file");
    assert!(down.starts_with("-- Reverts nothing"), "{down}");
}

#[test]
fn for_sqlx_are_reversible_if_the_others_are() {
    let folder = folder();
    put(&folder, "0007_users.up.sql");
    put(&folder, "0007_users.down.sql");
    stdout(&write(&folder, "sqlx", &[]));
    let written = files(&folder);
    assert_eq!(written.len(), 2 * library());
    assert_eq!(written[..2], ["0008_tonic_idempotency_1_table.down.sql", "0008_tonic_idempotency_1_table.up.sql",]);
    assert!(stdout(&write(&folder, "sqlx", &[])).contains("Nothing is new"));
    assert_eq!(files(&folder), written);
}

/// A runner stops at a version that another migration has, or that is lower than one that was run.
#[test]
fn come_after_those_of_the_application_in_its_own_numbering() {
    for (format, theirs, first) in [
        ("sqlx", "0041_users.sql", "0042_tonic_idempotency_1_table.sql"),
        ("sqlx", "99990101000000_users.sql", "99990101000001_tonic_idempotency_1_table.sql"),
        ("refinery", "V41__users.sql", "V42__tonic_idempotency_1_table.sql"),
        ("refinery", "U9__users.rs", "V10__tonic_idempotency_1_table.sql"),
        ("refinery", "more/V41__users.sql", "V42__tonic_idempotency_1_table.sql"),
        ("flyway", "V3.1.4__users.sql", "V4__tonic_idempotency_1_table.sql"),
        ("flyway", "V003_1__users.sql", "V004__tonic_idempotency_1_table.sql"),
        ("diesel", "0041_users/up.sql", "0042_tonic_idempotency_1_table/down.sql"),
        ("diesel", "9999-01-01-000000_users/up.sql", "9999-01-01-000001_tonic_idempotency_1_table/down.sql"),
    ] {
        let folder = folder();
        put(&folder, theirs);
        put(&folder, "README.md");
        stdout(&write(&folder, format, &[]));
        // The first migration of the library, by its name: the paths are sorted, and V10 is before V4.
        let files = files(&folder);
        let written = files.iter().find(|file| file.contains("tonic_idempotency_1_"));
        assert_eq!(written.map(String::as_str), Some(first), "{format} after {theirs}");
    }
    // If the application's versions are times, ours are the time.
    let folder = folder();
    put(&folder, "00000000000000_diesel_initial_setup/up.sql");
    stdout(&write(&folder, "diesel", &[]));
    assert!(files(&folder)[0].starts_with("20"), "{:?}", files(&folder));
}

#[test]
fn begin_with_the_version_that_is_asked_for() {
    let folder = folder();
    put(&folder, "5_users.sql");
    stdout(&write(&folder, "sqlx", &["--first-version", "0100"]));
    assert_eq!(files(&folder)[0], "0100_tonic_idempotency_1_table.sql");

    let other = self::folder();
    put(&other, "5_users.sql");
    let said = stderr(&write(&other, "sqlx", &["--first-version", "1"]));
    assert!(said.contains("the folder has a migration with the version 5"), "{said}");
    assert!(files(&other).is_empty());
    stderr(&write(&other, "sqlx", &["--first-version", "x"]));

    // Diesel compares versions as texts.
    put(&other, "8_users/up.sql");
    let said = stderr(&write(&other, "diesel", &[]));
    assert!(said.contains("diesel runs 10 before"), "{said}");
}

#[test]
fn hold_the_sql_of_the_library() {
    let folder = folder();
    let named = ["--schema=My-Billing", "--table=operations", INVOICE, ROLE];
    stdout(&write(&folder, "refinery", &named));
    let schema = Schema::new("My-Billing").and_then(|schema| schema.table("operations")).expect("names");
    let text = |path: &str| fs::read_to_string(folder.path().join("migrations").join(path)).expect("a file");
    for migration in migrations::all(&schema) {
        let path = format!("V{}__tonic_idempotency_My_Billing_{0}_{}.sql", migration.version(), migration.name());
        assert_eq!(text(&path), migration.sql());
    }
    let ends = |path: &str, end: &str| assert!(text(path).ends_with(end), "{}", text(path));
    let last = library();
    ends(
        &format!("V{}__tonic_idempotency_My_Billing_register_invoice.sql", last + 1),
        "\nSELECT \"My-Billing\".idempotency_register_resource('invoice', 'invoice_id', 'billing.invoices');\n",
    );
    ends(
        &format!("V{}__tonic_idempotency_My_Billing_validate_invoice.sql", last + 2),
        "\nSELECT \"My-Billing\".idempotency_validate();\n",
    );
    ends(
        &format!("V{}__tonic_idempotency_My_Billing_{last}_grant_my_api_role.sql", last + 3),
        "\nSELECT \"My-Billing\".idempotency_grant('my_api_role');\n",
    );
    let said = stderr(&write(&folder, "refinery", &["--schema=pg_billing"]));
    assert!(said.contains("\"pg_billing\" cannot be the name"), "{said}");
}

#[test]
fn are_written_once() {
    for format in ["sqlx", "refinery", "diesel", "flyway"] {
        let folder = folder();
        stdout(&write(&folder, format, &[INVOICE, ROLE]));
        let written = files(&folder);
        // The file as Git checks it out on Windows.
        let path = folder.path().join("migrations").join(written.last().expect("a file"));
        let text = fs::read_to_string(&path).expect("the file");
        fs::write(&path, text.replace('\n', "\r\n")).expect("the file");

        let said = stdout(&write(&folder, format, &[INVOICE, ROLE]));
        assert!(said.ends_with(&format!("Nothing is new: all {} files are there.\n", names().len())), "{said}");
        assert_eq!(files(&folder), written, "{format}");
    }
}

/// There are new files after an upgrade, or with another option.
#[test]
fn that_are_new_are_added_after_the_newest() {
    let folder = folder();
    stdout(&write(&folder, "refinery", &[INVOICE]));
    put(&folder, "V900__invoices.sql");
    let library = migrations::all(&Schema::default());
    let newest = library.last().expect("migrations");
    let newest = format!("tonic_idempotency_{}_{}", newest.version(), newest.name());
    let path = format!("migrations/V{}__{newest}.sql", library.len());
    fs::remove_file(folder.path().join(path)).expect("an older version did not write it");

    let refund = "--resource-type=refund:refund_id:billing.refunds";
    let said = stdout(&write(&folder, "refinery", &[INVOICE, refund, ROLE]));
    assert!(said.contains(&format!("4 files written for refinery, {} unchanged.", library.len() + 1)), "{said}");
    assert_eq!(
        files(&folder).into_iter().filter(|file| file.starts_with("V90")).collect::<Vec<_>>(),
        [
            format!("V901__{newest}.sql"),
            "V902__tonic_idempotency_register_refund.sql".to_owned(),
            "V903__tonic_idempotency_validate_refund.sql".to_owned(),
            format!("V904__tonic_idempotency_{}_grant_my_api_role.sql", library.len()),
        ]
    );
}

#[test]
fn that_differ_are_not_overwritten_and_nothing_is_written() {
    let folder = folder();
    stdout(&write(&folder, "refinery", &[INVOICE]));
    let before = files(&folder);
    let said = stderr(&write(&folder, "refinery", &["--resource-type=invoice:bill_id:billing.invoices", ROLE]));
    assert!(said.contains("tonic_idempotency_register_invoice.sql (line 3)\n"), "{said}");
    assert!(said.contains("remove them, and run the command again"), "{said}");
    assert_eq!(files(&folder), before);

    let said = stderr(&write(&folder, "refinery", &["--table=keys"]));
    assert_eq!(said.matches("V").count(), library(), "{said}");
    assert_eq!(files(&folder), before);
}

#[test]
fn with_names_that_are_the_same_are_refused() {
    let folder = folder();
    let said = stderr(&write(&folder, "sqlx", &["--grant=an-api", "--grant=an_api"]));
    assert!(said.contains("two of the options give a migration of the name tonic_idempotency_"), "{said}");
    let said = stderr(&write(&folder, "sqlx", &["--resource-type=invoice"]));
    assert!(said.contains("expected NAME:COLUMN:TABLE"), "{said}");
    assert!(!folder.path().join("migrations").exists());
}

#[test]
fn of_another_runner_in_the_folder_are_not_written_again() {
    for (there, asked) in [("sqlx", "refinery"), ("refinery", "sqlx"), ("diesel", "flyway")] {
        let folder = folder();
        stdout(&write(&folder, there, &[]));
        let before = files(&folder);
        let message = stderr(&write(&folder, asked, &[]));
        assert!(message.to_lowercase().contains(&format!("for {there} already")), "{message}");
        assert_eq!(files(&folder), before);
    }
    // refinery and Flyway name their files in the same way.
    let folder = folder();
    stdout(&write(&folder, "refinery", &[]));
    let before = files(&folder);
    stdout(&write(&folder, "flyway", &[]));
    assert_eq!(files(&folder), before);
}

#[test]
fn with_a_version_that_the_runner_cannot_read_are_refused() {
    let folder = folder();
    let message = stderr(&write(&folder, "refinery", &["--first-version", "4294967295"]));
    assert!(message.contains("up to 2147483647"), "{message}");
    assert!(!folder.path().join("migrations").exists());
    stdout(&write(&folder, "flyway", &["--first-version", "4294967295"]));
}

/// As in `tonic-idempotency migrations … | head`.
#[cfg(unix)]
#[test]
fn are_written_when_nobody_reads_what_is_said_of_them() {
    use std::process::{Command, Stdio};

    let folder = folder();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_tonic-idempotency"));
    command.current_dir(folder.path()).args(["migrations", "--format", "sqlx", "--out", "migrations"]);
    let output = command.stdout(writer).stderr(Stdio::piped()).output().expect("the program runs");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert!(!files(&folder).is_empty());
}
