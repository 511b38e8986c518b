//! Compiles the lines that the page has in place of others.

use testcontainers_modules::{
    postgres::Postgres,
    testcontainers::{ImageExt as _, runners::AsyncRunner as _},
};

#[expect(dead_code, reason = "compiled only")]
async fn lines() -> (String, impl Sized) {
    let url = std::env::var("DATABASE_URL").expect("the URL of a database for tests");
    let container = Postgres::default().with_tag("17-alpine").start().await.expect("a container engine");
    (url, container)
}
