//! Servers from installed binaries or given, pairs of them, and PgBouncer in front of them: they answer, and they leave nothing behind.

mod binaries;
mod bouncer;
mod database;
mod given;
mod installed;
mod owner;
mod pair;
mod traces;
