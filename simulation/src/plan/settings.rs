//! The settings of servers and store, which a seed draws too, so that rare pairs meet.

use std::time::Duration;

use tonic::Code;
use tonic_idempotency::policy::{
    DisconnectPolicy, ExpiredKeyPolicy, FinalErrors, InProgressPolicy, LeasePolicy, Policies, StorePolicy,
};

use crate::world::Random;

/// The settings of a run: the same on all servers.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How many servers there are.
    pub servers: usize,
    /// The connections of each server's pool.
    pub connections: usize,
    /// The connections of its pool of transactions, if it has one.
    pub transaction_connections: Option<usize>,
    /// The policies of all procedures.
    pub policies: Policies,
    /// How many calls one statement may carry.
    pub max_batch: usize,
    /// Whether plain statements handle the common case.
    pub common_path: bool,
    /// The timeout of the store.
    pub timeout: Duration,
    /// The memory of replays, in bytes.
    pub replay_cache_bytes: usize,
    /// Whether a caller may have few calls in flight, few transactions, and few that wait.
    pub is_narrow: bool,
    /// The time between two runs of the recovery.
    pub recovery: Duration,
    /// The time between two sweeps.
    pub sweep: Duration,
    /// Whether clients use the client's layer; otherwise they send plain requests.
    pub client_layer: bool,
    /// Whether their layer has a journal.
    pub client_journal: bool,
}

impl Settings {
    pub(super) fn draw(random: &mut Random) -> Self {
        let seconds = |random: &mut Random, from: f64, to: f64| {
            random.duration(Duration::from_secs_f64(from)..=Duration::from_secs_f64(to))
        };
        let final_errors = [Code::FailedPrecondition, Code::NotFound];
        let final_errors = FinalErrors::new(final_errors.into_iter().take(usize::from(random.once_in(2)) * 2));
        let is_short = random.once_in(5);
        let policies = Policies {
            lease: seconds(random, 1.0, 20.0),
            final_errors: final_errors.expect("codes that may be final"),
            on_in_progress: *random.one_of(&[InProgressPolicy::Abort, InProgressPolicy::Wait]),
            max_wait: seconds(random, 0.5, 20.0),
            on_lease_ended: *random.one_of(&[LeasePolicy::Rerun, LeasePolicy::Refuse, LeasePolicy::Reconcile]),
            on_store_unavailable: match random.once_in(8) {
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
            ..Policies::default()
        };
        let client_layer = random.once_in(2);
        Self {
            servers: usize::try_from(random.number(2..=5)).unwrap_or(2),
            connections: usize::try_from(random.number(2..=8)).unwrap_or(2),
            transaction_connections: random.once_in(3).then_some(3),
            policies,
            max_batch: *random.one_of(&[1, 4, 64]),
            common_path: !random.once_in(4),
            sweep: seconds(random, 1.0, 60.0),
            timeout: seconds(random, 0.3, 5.0),
            replay_cache_bytes: *random.one_of(&[0, 8 << 20]),
            is_narrow: random.once_in(4),
            recovery: seconds(random, 2.0, 60.0),
            client_layer,
            client_journal: client_layer && random.once_in(3),
        }
    }
}
