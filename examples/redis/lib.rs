//! `cargo run -p redis-example --example redis`.
