//! Tells cargo when to compile the migrations again.

fn main() {
    println!("cargo::rerun-if-changed=migrations"); // `#[sqlx::test]` does not see a new file by itself
}
