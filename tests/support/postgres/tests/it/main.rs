//! Servers from every source, pairs of them, Patroni, and PgBouncer in front of them: they answer, and they leave nothing behind.

mod bouncer;
mod container;
mod database;
mod given;
mod installed;
mod owner;
mod pair;
mod patroni;
mod traces;
