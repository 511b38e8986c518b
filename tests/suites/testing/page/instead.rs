//! Compiles the lines that the page has in place of others.

#[expect(dead_code, reason = "compiled only")]
fn lines() {
    let url = std::env::var("DATABASE_URL").expect("the URL of a database for tests");
    drop(url);
}
