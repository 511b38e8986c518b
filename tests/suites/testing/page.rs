//! The tests of `docs/testing.md`: they run here, and the page shows them as they are, or links to them.

mod client;
mod database;
mod failures;
mod in_container;
mod instead;
mod on_postgres;
mod without_database;

use std::{env, fs, path::Path};

use scratch_postgres::TestDatabase;
use testcontainers_modules::{
    postgres::Postgres,
    testcontainers::{ContainerAsync, ImageExt as _, runners::AsyncRunner as _},
};

/// Begins a line of code that the page has in place of the next one, which a test here needs. `page/instead.rs` compiles it.
const ON_THE_PAGE: &str = "// page: ";

#[test]
fn shows_the_tests_that_run_here() {
    let page = fs::read_to_string(root().join("docs/testing.md")).expect("the page");
    for file in [
        "orders.rs",
        "page/without_database.rs",
        "page/failures.rs",
        "page/client.rs",
        "page/database.rs",
        "page/on_postgres.rs",
    ] {
        let code = shown(&fs::read_to_string(root().join("tests/suites/testing").join(file)).expect("a file"));
        assert!(page.contains(&format!("```rust\n{code}\n```\n")), "the page has to show {file}:\n\n{code}\n");
    }
}

/// Returns the code as a reader sees it.
fn shown(code: &str) -> String {
    let mut lines = code.lines().filter(|line| !line.starts_with("//!"));
    let mut shown = Vec::new();
    while let Some(line) = lines.next() {
        match line.split_once(ON_THE_PAGE) {
            Some((indentation, replacement)) => {
                let packed = |code: &str| code.replace([' ', '\n', ','], "");
                assert!(packed(include_str!("page/instead.rs")).contains(&packed(replacement)), "{replacement}");
                lines.next();
                shown.push(format!("{indentation}{replacement}"));
            }
            None => shown.push(line.to_owned()),
        }
    }
    shown.join("\n").trim().to_owned()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository")
}

/// A database of the test's own, and its URL.
async fn scratch() -> (TestDatabase, String) {
    let database = scratch_postgres::database(None).await;
    let url = database.url().to_owned();
    (database, url)
}

/// A server in a container of the image that the tests use; `None` if containers cannot run here.
async fn container() -> Option<ContainerAsync<Postgres>> {
    let image = env::var("IDEMPOTENCY_TEST_POSTGRES_IMAGE").unwrap_or_else(|_| "postgres:17-alpine".to_owned());
    let (name, tag) = image.rsplit_once(':').unwrap_or((&image, "latest"));
    let started = Postgres::default().with_name(name).with_tag(tag).start().await;
    started.map_err(|error| scratch_postgres::skip("container", error)).ok()
}
