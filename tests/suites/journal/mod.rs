//! The client's journal: around generated clients, in front of servers that are not ours and of ours, and in processes that die.

mod child;
mod crash;
mod damage;
mod disk;
mod ends;
mod failed;
mod file;
mod harness;
mod lanes;
mod owner;
mod prelude;
mod protection;
mod resume;
mod sealed;
mod stuck;
mod torn;
mod unshown;
mod worker;
mod written;

use super::client::{foreign, line};
