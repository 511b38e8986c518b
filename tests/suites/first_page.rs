//! The README and `llms.txt`, for those who decide in two minutes: their versions and figures are those of the manifests and of the benchmarks.

use std::{fs, path::Path};

fn text(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file)).expect("a text")
}

/// The value of a key of a manifest.
fn value(manifest: &str, key: &str) -> String {
    let value = manifest.lines().find_map(|line| line.strip_prefix(&format!("{key} = "))).expect("the key");
    value.split('"').nth(1).expect("a text").to_owned()
}

#[test]
fn have_the_versions_of_the_manifests() {
    let workspace = text("Cargo.toml");
    let [server, tonic] = ["rust-version", "tonic"].map(|key| value(&workspace, key));
    let [client, sqlx, sea_orm] = ["client", "sqlx", "sea-orm"]
        .map(|name| value(&text(&format!("crates/tonic-idempotency-{name}/Cargo.toml")), "rust-version"));
    assert_eq!(sqlx, sea_orm);
    let tonic = tonic.rsplitn(2, '.').last().expect("a version").to_owned();
    let line = format!("Rust {server} (client {client}, sqlx and SeaORM {sqlx}), tonic {tonic}, PostgreSQL 14 to 18.");
    assert!(text("README.md").lines().any(|found| found == line), "the README lacks: {line}");
    let line = format!("Rust {server}, tonic {tonic}, PostgreSQL 14 to 18.");
    assert!(text("llms.txt").contains(&line), "llms.txt lacks: {line}");
}

#[test]
fn have_a_row_of_the_benchmarks() {
    let (readme, results) = (text("README.md"), text("results/benchmarks.md"));
    let row = readme.lines().find(|line| line.starts_with("| first call: ")).expect("a row");
    let cells = row.trim_end_matches('|').trim_end();
    assert!(results.lines().any(|line| line.starts_with(cells)), "{row}");
    assert!(results.contains("Next door: PostgreSQL on the same machine"));
}

#[test]
fn are_short() {
    let words = text("llms.txt").split_whitespace().count();
    assert!(words <= 400, "llms.txt has {words} words");
}
