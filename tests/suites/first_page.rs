//! The first facts of the pages: the versions of the manifests, a row of the benchmarks, and packages that can be had.

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
    let needs = |rust: &str| format!("It needs Rust {rust}, tonic {tonic}");
    for (page, line) in [
        (
            "README.md",
            format!("\nRust {server} (client {client}, sqlx and SeaORM {sqlx}), tonic {tonic}, PostgreSQL 14 to 18.\n"),
        ),
        ("llms.txt", format!("Rust {server}, tonic {tonic}, PostgreSQL 14 to 18.")),
        ("CONTRIBUTING.md", format!("Rust {client} ({sqlx} for the gate)")),
        ("docs/drivers.md", format!("\n| Rust | {server} | {sqlx} | {sea_orm} | {server} |\n")),
        ("docs/getting-started.md", format!("For tonic {tonic}, [sqlx](https://docs.rs/sqlx) 0.9 and Rust {sqlx}")),
        ("crates/tonic-idempotency-diesel/README.md", needs(&server)),
        ("crates/tonic-idempotency-redis/README.md", needs(&server)),
        ("crates/tonic-idempotency-sea-orm/README.md", needs(&sea_orm)),
        ("crates/tonic-idempotency-sqlx/README.md", needs(&sqlx)),
        ("crates/tonic-idempotency-vault/README.md", needs(&server)),
    ] {
        assert!(text(page).contains(&line), "{page} lacks: {line}");
    }
}

/// Until they are published, cargo finds the packages by a path only.
#[test]
fn name_the_path_of_each_package() {
    let pages = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")).expect("the pages");
    let pages = pages.filter_map(|page| fs::read_to_string(page.expect("a page").path()).ok());
    let pages = pages.chain(["README.md", "llms.txt"].map(text)).collect::<Vec<_>>();
    let depends = |line: &&str| {
        line.starts_with("cargo add ") && line.contains(" tonic-idempotency")
            || line.starts_with("tonic-idempotency") && line.contains(" = ")
    };
    let lines = pages.iter().flat_map(|page| page.lines()).filter(depends).collect::<Vec<_>>();
    let without: Vec<_> = lines.iter().filter(|line| !line.contains("path")).collect();
    assert!(lines.len() >= 7 && without.is_empty(), "{without:#?} of {lines:#?}");
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
