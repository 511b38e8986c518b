//! Servers from every source: that they answer, and that nothing of them is left.

mod container;
mod database;
mod given;
mod installed;
mod owner;
mod traces;
