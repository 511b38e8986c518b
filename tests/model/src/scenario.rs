//! One exploration: the servers of the attempts, what may go wrong, and the guard that is left out.

use stateright::{Model, Property};

use crate::{
    environment, go_interceptor,
    guards::Guard,
    properties::{self, Condition},
    reserved, together, transactional,
    world::{AttemptId, Stage, World},
};

#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// The server of each attempt.
    pub(crate) servers: Vec<Server>,
    pub(crate) chaos: Chaos,
    /// The size of the pool that all servers share; `None` if there are always enough connections.
    pub(crate) connections: Option<u8>,
    /// Conditions that must be seen at least once, so that the scenario exercises what it is for.
    pub(crate) sights: Vec<Condition>,
    pub(crate) left_out: Option<Guard>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    pub(crate) mode: Mode,
    /// The policy for a reservation whose lease ended without an outcome.
    pub(crate) on_lease_ended: Policy,
    pub(crate) on_foreign_reservation: Foreign,
    pub(crate) on_store_unavailable: StorePolicy,
    /// Whether its calls may share statements.
    pub(crate) batches: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The Go interceptor: reserved, without tokens and leases of its own.
    GoInterceptor,
    Reserved,
    Transactional,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Reconcile,
    Refuse,
    Rerun,
}

/// The policy for a reservation of the Go interceptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Foreign {
    /// In progress until it expires.
    InProgress,
    /// As if its lease had ended, once it is as old as a lease.
    OnLeaseEnded,
}

/// The policy for a call whose claim cannot be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorePolicy {
    /// The handler runs unprotected. In reserved mode only.
    Proceed,
    Reject,
}

/// The kinds of failures, and how often each may happen.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub(crate) struct Chaos {
    /// The number of batches that fail because of another call's row: it is corrupt, or another transaction holds it.
    pub(crate) bad_rows: u8,
    /// The number of transactions that lose a conflict.
    pub(crate) conflicts: u8,
    /// The number of server processes that crash.
    pub(crate) crashes: u8,
    /// The number of records whose retention ends.
    pub(crate) expiries: u8,
    /// Whether handlers may end with a final error.
    pub(crate) final_errors: bool,
    /// The number of claims that meet a pool full of other calls' statements.
    pub(crate) full_pools: u8,
    /// The number of heartbeats that arrive after the lease has ended.
    pub(crate) heartbeats: u8,
    /// The number of requests or answers that are lost on the way.
    pub(crate) losses: u8,
    /// The number of requests that are carried out and answered with an error: a pooler has lost its server.
    pub(crate) misleading_answers: u8,
    /// The number of claims on a connection that comes with an open transaction.
    pub(crate) open_transactions: u8,
    /// The number of transactions of other users.
    pub(crate) others: u8,
    /// The number of times that the servers cannot reach the database.
    pub(crate) outages: u8,
    /// The number of claims that the database refuses.
    pub(crate) refusals: u8,
    /// The number of database restarts.
    pub(crate) restarts: u8,
    /// The number of claims whose status is slow.
    pub(crate) slow_statuses: u8,
    /// Whether a lease may end while its holder still works.
    pub(crate) zombies: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Crash(AttemptId),
    Environment(environment::Event),
    GoInterceptor(AttemptId, go_interceptor::Step),
    Reserved(AttemptId, reserved::Step),
    /// A statement that claims for several calls.
    Together(together::Calls, together::Fate),
    Transactional(AttemptId, transactional::Step),
}

impl Scenario {
    pub(crate) fn holds(&self, guard: Guard) -> bool {
        self.left_out != Some(guard)
    }

    pub(crate) fn without(self, guard: Guard) -> Self {
        Self { left_out: Some(guard), ..self }
    }

    pub(crate) fn has(&self, mode: Mode) -> bool {
        self.servers.iter().any(|server| server.mode == mode)
    }

    /// Attempts with equal servers are sent in order, as any other order is the same with other names.
    pub(crate) fn may_be_sent(&self, world: &World, id: AttemptId) -> bool {
        (0..id).all(|other| self.servers[other] != self.servers[id] || world.attempts[other].stage != Stage::Waiting)
    }

    /// Whether the scenario promises at most one effect, whatever the clock does. (Each unprotected run whose claim
    /// does not stand may add one.)
    pub(crate) fn allows_one_effect_at_most(&self) -> bool {
        let all = |holds: fn(&Server) -> bool| self.servers.iter().all(holds);
        all(|server| server.mode == Mode::Transactional)
            || all(|server| server.on_lease_ended == Policy::Refuse)
            || (all(|server| server.on_lease_ended == Policy::Reconcile) && !self.chaos.zombies)
    }
}

impl Model for Scenario {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self)]
    }

    /// Offers only possible actions: each leads to a next state.
    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (id, server) in self.servers.iter().enumerate() {
            match server.mode {
                Mode::GoInterceptor => {
                    actions.extend(go_interceptor::steps(self, world, id).map(|step| Action::GoInterceptor(id, step)))
                }
                Mode::Reserved => {
                    actions.extend(reserved::steps(self, world, id).into_iter().map(|step| Action::Reserved(id, step)));
                }
                Mode::Transactional => actions.extend(
                    transactional::steps(self, world, id).into_iter().map(|step| Action::Transactional(id, step)),
                ),
            }
            if world.left.crashes > 0 && world.attempts[id].stage.is_at_work() {
                actions.push(Action::Crash(id));
            }
        }
        actions.extend(together::batches(world).into_iter().map(|(calls, fate)| Action::Together(calls, fate)));
        actions.extend(environment::events(self, world).into_iter().map(Action::Environment));
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut world = world.clone();
        match action {
            Action::Crash(id) => {
                world.left.crashes -= 1;
                transactional::lose_answer(&mut world, id);
                world.attempts[id].stage = Stage::Crashed;
                world.attempts[id].queued = false;
            }
            Action::Environment(event) => environment::happen(self, &mut world, event),
            Action::GoInterceptor(id, step) => go_interceptor::take(self, &mut world, id, step),
            Action::Reserved(id, step) => reserved::take(self, &mut world, id, step),
            Action::Together(calls, fate) => together::carry_out(self, &mut world, calls, fate),
            Action::Transactional(id, step) => transactional::take(self, &mut world, id, step),
        }
        together::leave(self, &mut world);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(self)
    }
}
