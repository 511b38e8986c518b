//! `build.rs`: a new file in `migrations/core/` is a new migration, and what is wrong with one fails the build with its name and line.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use uuid::Uuid;

#[path = "../../build.rs"]
#[expect(dead_code, clippy::print_stdout, reason = "cargo calls its main function, and reads what it prints")]
mod script;

use script::Migrations;

const TABLE: &str = "CREATE OR REPLACE FUNCTION tenant.idempotency_version() RETURNS integer
LANGUAGE sql AS $version$ SELECT 7 $version$;
ALTER TABLE tenant.idempotency_keys ADD CONSTRAINT idempotency_keys_ck_one CHECK (true);
";

const RIGHTS: &str = "SELECT p.oid FROM pg_proc p WHERE p.proname IN (
    'idempotency_version',
    'idempotency_claim'
);
SELECT p.oid FROM pg_proc p WHERE p.proname IN ('idempotency_claim');
";

const CLAIM: &str = "CREATE PROCEDURE tenant.idempotency_claim() LANGUAGE sql AS $claim$ SELECT 1 $claim$;\n";

/// A package, until it is dropped.
struct Package(PathBuf);

impl Package {
    /// With these files, and one pack.
    fn with(files: &[(&str, &str)]) -> Self {
        let package = Self(env::temp_dir().join(format!("idempotency-package-{}", Uuid::new_v4())));
        for folder in ["migrations/core", "migrations/packs", "src/migrations"] {
            fs::create_dir_all(package.0.join(folder)).expect("a folder");
        }
        let others = [("migrations/packs/limits.sql", "SELECT 1;\n"), ("src/migrations/once.sql", "SELECT 1;\n")];
        for (file, text) in others.iter().chain(files) {
            fs::write(package.0.join(file), text).expect("a file");
        }
        package
    }
}

impl Drop for Package {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("a folder");
    }
}

/// The code that is written for these files.
fn code(files: &[(&str, &str)]) -> String {
    Migrations::read(&Package::with(files).0).ok().expect("the migrations").code()
}

fn problems(files: &[(&str, &str)]) -> Vec<String> {
    let problems = Migrations::read(&Package::with(files).0).err().unwrap_or_default();
    problems.iter().map(ToString::to_string).collect()
}

#[test]
fn a_new_file_is_a_new_migration() {
    let mut files = vec![
        ("migrations/core/V1__table.sql", TABLE),
        ("migrations/core/V2__claim.sql", CLAIM),
        ("migrations/core/V3__rights.sql", RIGHTS),
    ];
    let written = code(&files);
    for expected in [
        "FILES: [(&str, &str); 3]",
        r#"("table", include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/core/V1__table.sql")))"#,
        r#"("version", 1)"#,
        r#"("claim", 2)"#,
        "GRANTED: [&str; 2]",
        r#""idempotency_keys_ck_one""#,
        "VERSION: i32 = 7;",
    ] {
        assert!(written.contains(expected), "{expected} in {written}");
    }
    // It may not look at the called functions, and then the version.
    files.push(("migrations/core/V4__new.sql", "SELECT 1;\n"));
    let written = code(&files);
    assert!(written.contains("FILES: [(&str, &str); 4]") && written.contains("VERSION: i32 = 7;"), "{written}");
}

/// In the order of their numbers, not of their names.
#[test]
fn the_tenth_file_follows_the_ninth() {
    let names: Vec<_> = (2..=10).map(|number| format!("migrations/core/V{number}__n{number}.sql")).collect();
    let mut files = vec![("migrations/core/V1__table.sql", TABLE)];
    files.extend(names.iter().map(|name| (&**name, "SELECT 1;\n")));
    let code = code(&files);
    let [nine, ten] = ["V9__n9", "V10__n10"].map(|name| code.find(name).expect("it is listed"));
    assert!(nine < ten, "{code}");
}

#[test]
fn names_the_file_and_the_line_of_each_problem() {
    let table = ("migrations/core/V1__table.sql", TABLE);
    let claim = ("migrations/core/V2__claim.sql", CLAIM);
    for (files, expected) in [
        (
            vec![table, ("migrations/core/V3__late.sql", CLAIM)],
            "migrations/core/V3__late.sql: there is no V2__<name>.sql before it",
        ),
        (
            vec![table, ("migrations/core/V1__again.sql", CLAIM)],
            "migrations/core/V1__again.sql: migrations/core/V1__table.sql has the same number",
        ),
        (
            vec![table, ("migrations/core/new.sql", CLAIM)],
            "migrations/core/new.sql: its name is not V<number>__<name>.sql",
        ),
        (
            vec![table, ("migrations/core/V2__rights.sql", RIGHTS)],
            "migrations/core/V2__rights.sql:3: idempotency_claim is granted, and no file makes it",
        ),
        (
            vec![claim, ("migrations/core/V1__empty.sql", "SELECT 1;\n")],
            "migrations/core: no file makes idempotency_version(), which SELECTs a number",
        ),
        (
            vec![table, ("migrations/core/V2__a.sql", "SELECT 1;\n-- §\n")],
            "migrations/core/V2__a.sql:2: it has the character '§'",
        ),
        (
            vec![table, ("migrations/packs/limits.sql", "SELECT '\\n';\n")],
            "migrations/packs/limits.sql:1: it has the character '\\\\'",
        ),
        (
            vec![table, ("src/migrations/once.sql", "SELECT 1;\r\n")],
            "src/migrations/once.sql:1: it has the character '\\r'",
        ),
    ] {
        assert!(problems(&files).contains(&expected.to_owned()), "{expected} in {:?}", problems(&files));
    }
}

#[test]
fn the_migrations_of_the_crate_have_none() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let code = Migrations::read(&top).ok().expect("the migrations").code();
    assert!(code.contains("\"rights\"") && code.contains("(\"complete_many\", "), "{code}");
}
