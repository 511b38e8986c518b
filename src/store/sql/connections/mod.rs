//! The connections of a store: how they are taken, made anew, parked until they are answered, and shared by users.

mod attempt_connection;
pub(super) mod clock;
mod connection;
mod parked_connections;
mod parking;
mod pause;
mod permits;
mod reconnection;

pub(super) use self::{
    attempt_connection::{AttemptConnection, Failure, Reset},
    connection::{Connections, share_of},
    parked_connections::ParkedConnections,
    pause::pause,
    permits::{Permit, Permits},
    reconnection::Reconnection,
};
