//! Calls over HTTP/2, each of which can be stopped at any of its frames.

mod address;
mod answer;
mod connection;
mod protocol;

pub(super) use self::{
    address::Address,
    answer::{Answer, Outcome},
    connection::{Connection, Request, Stop},
    protocol::Protocol,
};
