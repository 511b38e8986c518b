//! The pool of connections that claims, settlements and transactions share.
//!
//! The attempts belong to one user. Two other users hold transactions as well. A transaction keeps its connection until
//! it ends; other statements give theirs back at once, and so only have to find one.

use crate::{guards::Guard, scenario::Scenario, world::World};

/// One of the other users.
pub(crate) type Other = usize;

/// Whether transactions hold all connections.
pub(crate) fn is_full(scenario: &Scenario, world: &World) -> bool {
    scenario.connections.is_some_and(|connections| transactions(world) >= connections)
}

/// Whether a transaction of the attempts' user may begin.
pub(crate) fn admits(scenario: &Scenario, world: &World) -> bool {
    has_permit(scenario, world, own_transactions(world))
}

/// Whether a transaction of another user may begin.
pub(crate) fn admits_other(scenario: &Scenario, world: &World, other: Other) -> bool {
    scenario.connections.is_some() && has_permit(scenario, world, world.others[other])
}

/// Whether one other user holds all permits.
pub(crate) fn is_taken_by_one(scenario: &Scenario, world: &World) -> bool {
    scenario.connections.is_some_and(|connections| world.others.contains(&permits(scenario, connections)))
}

fn has_permit(scenario: &Scenario, world: &World, of_this_user: u8) -> bool {
    scenario.connections.is_none_or(|connections| {
        let permits = permits(scenario, connections);
        // The last permit is for a user who has none.
        let kept = u8::from(of_this_user > 0 && scenario.holds(Guard::UsersShareTransactions));
        transactions(world) + kept < permits
    })
}

/// The number of transactions that may be open: not the last connection's.
fn permits(scenario: &Scenario, connections: u8) -> u8 {
    connections - u8::from(scenario.holds(Guard::TransactionsSpareConnections))
}

fn transactions(world: &World) -> u8 {
    world.others.iter().sum::<u8>() + own_transactions(world)
}

fn own_transactions(world: &World) -> u8 {
    world.attempts.iter().map(|attempt| u8::from(attempt.transaction.is_running())).sum()
}
