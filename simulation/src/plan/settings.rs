//! The settings of servers and store, which a seed draws too, so that rare pairs meet.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tonic_idempotency::policy::{
    DisconnectPolicy, ExpiredKeyPolicy, ForeignPolicy, InProgressPolicy, Isolation, LeasePolicy, Policies, StorePolicy,
};

use super::Sealing;
use crate::world::Random;

/// The settings of a run.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Settings {
    /// How many servers there are.
    pub servers: usize,
    /// The connections of each server's pool.
    pub connections: usize,
    /// The connections of its pool of transactions, if it has one.
    pub transaction_connections: Option<usize>,
    /// The policies of all procedures.
    #[serde(with = "super::policies")]
    pub policies: Policies,
    /// The settings of each server that may differ, as they do while a change is rolled out.
    pub of_servers: Vec<OfServer>,
    /// The timeout of the store.
    pub timeout: Duration,
    /// How long the message of a request may take.
    pub body_timeout: Duration,
    /// Whether a caller may have few calls in flight, few transactions, and few that wait.
    pub is_narrow: bool,
    /// The time between two runs of the recovery.
    pub recovery: Duration,
    /// The time between two sweeps.
    pub sweep: Duration,
    /// How long a server waits for its calls when it is shut down.
    pub shutdown: Duration,
    /// When half of all operations begin, if they crowd.
    pub rush: Option<Duration>,
    /// In which time they begin.
    pub rush_lasts: Duration,
    /// Whether there are hundreds of operations, which all begin in the rush, at one server.
    pub is_burst: bool,
    /// The records that one user may have, if there is a limit.
    pub records: Option<u64>,
    /// Whether long responses are not stored.
    pub has_response_limit: bool,
    /// Whether some handlers take about as long as a lease.
    pub has_slow_handlers: bool,
    /// Whether clients use the client's layer; otherwise they send plain requests.
    pub client_layer: bool,
    /// How long their layer waits for an answer before it sends the call again.
    pub attempt_timeout: Duration,
    /// Whether their layer has a journal.
    pub client_journal: bool,
    /// Whether a last crowd comes to each server when all is over.
    pub has_last_crowd: bool,
    /// Whether one server is shut down after the other in the end, rather than all at once.
    pub stops_one_by_one: bool,
    /// How servers seal what they record, if they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealing: Option<Sealing>,
}

/// The settings of one server.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct OfServer {
    /// How many calls one statement may carry.
    pub max_batch: usize,
    /// Whether plain statements handle the common case.
    pub common_path: bool,
    /// Whether its client library sends one statement after the other.
    pub one_by_one: bool,
    /// The memory of replays, in bytes.
    pub replay_cache_bytes: usize,
    /// Whether it runs the first release of the service, which knows fewer fields.
    pub is_first_release: bool,
}

impl Settings {
    pub(super) fn draw(random: &mut Random) -> Self {
        let seconds = |random: &mut Random, from: f64, to: f64| {
            random.duration(Duration::from_secs_f64(from)..=Duration::from_secs_f64(to))
        };
        let final_errors = super::policies::final_errors(random.once_in(2));
        let is_short = random.once_in(5);
        let mut policies = Policies {
            lease: if random.once_in(4) { seconds(random, 1.0, 1.5) } else { seconds(random, 1.0, 20.0) },
            final_errors,
            on_in_progress: *random.one_of(&[InProgressPolicy::Abort, InProgressPolicy::Wait]),
            max_wait: seconds(random, 0.5, 20.0),
            on_lease_ended: *random.one_of(&[LeasePolicy::Rerun, LeasePolicy::Refuse, LeasePolicy::Reconcile]),
            on_store_unavailable: match random.once_in(5) {
                true => StorePolicy::Proceed,
                false => StorePolicy::Reject,
            },
            on_disconnect: *random.one_of(&[DisconnectPolicy::Finish, DisconnectPolicy::RollBack]),
            transaction_idle: seconds(random, 2.0, 60.0),
            retention: match is_short {
                true => seconds(random, 20.0, 40.0),
                false => Duration::from_secs(24 * 3600),
            },
            expired_keys: match is_short && random.once_in(2) {
                true => ExpiredKeyPolicy::Refuse,
                false => ExpiredKeyPolicy::Run,
            },
            on_foreign_reservation: *random.one_of(&[
                ForeignPolicy::InProgress,
                ForeignPolicy::InProgress,
                ForeignPolicy::Reconcile,
                ForeignPolicy::Rerun,
            ]),
            isolation: *random.one_of(&[
                Isolation::ReadCommitted,
                Isolation::ReadCommitted,
                Isolation::RepeatableRead,
                Isolation::Serializable,
            ]),
            ..Policies::default()
        };
        if random.once_in(3) {
            // Of these some handlers hang.
            policies.handler_timeout = seconds(random, 2.0, 30.0);
        }
        let is_burst = random.once_in(100);
        if is_burst {
            // Renewals wait for connections, which hundreds of calls have.
            policies.lease = policies.lease.max(Duration::from_secs(15));
        }
        let client_layer = random.once_in(2);
        let servers = usize::try_from(random.number(2..=5)).unwrap_or(2);
        let one_by_one = random.once_in(4);
        let mut of_server = OfServer::draw(random, one_by_one);
        let is_rolled_out = random.once_in(4);
        let of_servers = (0..servers).map(|_| {
            if is_rolled_out {
                of_server = OfServer::draw(random, one_by_one);
            }
            of_server.clone()
        });
        Self {
            of_servers: of_servers.collect(),
            servers,
            connections: usize::try_from(random.number(if is_burst { 6..=8 } else { 2..=8 })).unwrap_or(2),
            transaction_connections: random.once_in(3).then_some(3),
            policies,
            sweep: seconds(random, 1.0, 60.0),
            timeout: if random.once_in(2) { seconds(random, 0.3, 1.0) } else { seconds(random, 0.3, 5.0) },
            body_timeout: seconds(random, 1.0, 30.0),
            is_narrow: random.once_in(3),
            recovery: seconds(random, 2.0, 60.0),
            rush: (random.once_in(3) || is_burst).then(|| seconds(random, 1.0, 60.0)),
            rush_lasts: seconds(random, 0.001, 1.0),
            is_burst,
            records: random.once_in(12).then(|| random.number(5..=30)),
            has_response_limit: random.once_in(6),
            has_slow_handlers: random.once_in(2),
            shutdown: seconds(random, 1.0, 45.0),
            client_layer,
            client_journal: client_layer && random.once_in(3),
            attempt_timeout: seconds(random, 0.3, 30.0),
            has_last_crowd: !is_burst && policies.expired_keys == ExpiredKeyPolicy::Run && random.once_in(3),
            stops_one_by_one: random.once_in(10),
            sealing: None,
        }
    }
}

impl Settings {
    /// Returns how many transactions handlers may have in a process: beside claims, all but a quarter of the connections.
    pub fn transactions(&self) -> usize {
        self.transaction_connections.unwrap_or(self.connections - (self.connections / 4).max(1))
    }

    /// Returns whether handlers may take too long, and hang.
    pub fn has_handler_timeout(&self) -> bool {
        self.policies.handler_timeout < Policies::default().handler_timeout
    }

    /// Returns whether a key that was taken over is looked into before its handler runs: if one of the two policies says so, it is for both.
    pub fn reconciles(&self) -> bool {
        let policies = &self.policies;
        policies.on_lease_ended == LeasePolicy::Reconcile || policies.on_foreign_reservation == ForeignPolicy::Reconcile
    }
}

impl OfServer {
    fn draw(random: &mut Random, one_by_one: bool) -> Self {
        Self {
            max_batch: *random.one_of(&[1, 4, 64]),
            common_path: !random.once_in(4),
            one_by_one,
            replay_cache_bytes: *random.one_of(&[0, 8 << 20]),
            is_first_release: random.once_in(2),
        }
    }
}
