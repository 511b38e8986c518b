//! Servers from every source, and PgBouncer in front of them: that they answer, and that nothing of them is left.

mod bouncer;
mod container;
mod database;
mod given;
mod installed;
mod owner;
mod traces;
