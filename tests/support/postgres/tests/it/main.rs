//! Servers from every source, and PgBouncer in front of them: they answer, and they leave nothing behind.

mod bouncer;
mod container;
mod database;
mod given;
mod installed;
mod owner;
mod traces;
mod upgrade;
