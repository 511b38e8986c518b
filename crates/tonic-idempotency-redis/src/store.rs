//! The store on Redis: each operation runs a script, and tries again until its timeout.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redis::Client;
#[cfg(feature = "sentinel")]
use redis::sentinel::SentinelClient;
#[cfg(feature = "cluster")]
use redis::{RedisError, cluster::ClusterClientBuilder};
use tonic_idempotency::{
    policy::LeasePolicy,
    status::{OutboxStatus, Resource},
    store::{
        AbandonOutcome, AbandonedKey, AbandonedQuery, CallSession, Claim, ClaimOutcome, CompleteOutcome, Completion,
        ExtendOutcome, KeyRecord, LookUp, ReleaseOutcome, Reservation, ServerClock, Store, StoreError, StoreErrorKind,
    },
};

use crate::{
    abandoned, answer,
    command_runner::CommandRunner,
    connection::{Connections, Topology},
    durability::Durability,
    late_claims::LateClaims,
    prefix::{InvalidPrefix, Prefix},
    scripts::{ABANDON, CLAIM, COMPLETE, Call, EXTEND, LOOK_UP, RELEASE, Transition},
    verify::{self, VerifyError},
};

/// Longer times count as this one: microseconds since 1970 have to be whole numbers in Lua.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// A store of idempotency records on Redis or Valkey, for reserved procedures. Clones share their connections.
///
/// Making one connects to nothing: that is done when the first call needs it, and again after each failure.
/// [`verify`](Self::verify) asks the servers whether they are set up as they have to be.
///
/// **It can lose records in a failover**, and then a retried call runs again: see the crate's documentation, and [`Durability`].
///
/// The store trusts its records: anyone who can write to the server can forge responses. So do not share a server with parties who may not
/// see all responses.
#[derive(Clone, Debug)]
pub struct RedisStore {
    runner: CommandRunner,
    prefix: Prefix,
    durability: Durability,
    in_cluster: bool,
    /// Whether a primary has said that it does not evict.
    is_checked: Arc<AtomicBool>,
    late_claims: LateClaims,
}

impl RedisStore {
    /// Makes a store on one server.
    ///
    /// ```no_run
    /// use tonic_idempotency_redis::{RedisStore, redis::Client};
    ///
    /// let store = RedisStore::single(Client::open("redis://127.0.0.1/")?);
    /// # Ok::<(), tonic_idempotency_redis::redis::RedisError>(())
    /// ```
    pub fn single(client: Client) -> Self {
        Self::on(Topology::Single(Arc::new(client)), false)
    }

    /// Makes a store on the server that Sentinel says is the primary. After a failover it finds the new one.
    ///
    /// ```no_run
    /// use tonic_idempotency_redis::{
    ///     RedisStore,
    ///     redis::sentinel::{SentinelClient, SentinelServerType},
    /// };
    ///
    /// let sentinels = vec!["redis://10.0.0.1:26379", "redis://10.0.0.2:26379", "redis://10.0.0.3:26379"];
    /// let client = SentinelClient::build(sentinels, "idempotency".to_owned(), None, SentinelServerType::Master)?;
    /// let store = RedisStore::sentinel(client);
    /// # Ok::<(), tonic_idempotency_redis::redis::RedisError>(())
    /// ```
    #[cfg(feature = "sentinel")]
    pub fn sentinel(client: SentinelClient) -> Self {
        Self::on(Topology::Sentinel(Arc::new(tokio::sync::Mutex::new(client))), false)
    }

    /// Makes a store on a cluster. A few nodes are enough: they tell the others. The store sets how often a command is sent again, and
    /// how long it waits, because it does both itself.
    ///
    /// ```no_run
    /// use tonic_idempotency_redis::{RedisStore, redis::cluster::ClusterClientBuilder};
    ///
    /// let nodes = ["redis://10.0.0.1/", "redis://10.0.0.2/", "redis://10.0.0.3/"];
    /// let store = RedisStore::cluster(ClusterClientBuilder::new(nodes))?;
    /// # Ok::<(), tonic_idempotency_redis::redis::RedisError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// There is no node, an address cannot be read, or the nodes have different passwords.
    #[cfg(feature = "cluster")]
    pub fn cluster(nodes: ClusterClientBuilder) -> Result<Self, RedisError> {
        // Redirections are retries, too.
        let client = nodes.retries(3).min_retry_wait(10).max_retry_wait(100).build()?;
        Ok(Self::on(Topology::Cluster(Arc::new(client)), true))
    }

    fn on(topology: Topology, in_cluster: bool) -> Self {
        let runner = CommandRunner::new(Connections::new(topology));
        Self {
            runner,
            prefix: Prefix::default(),
            durability: Durability::default(),
            in_cluster,
            is_checked: Arc::default(),
            late_claims: LateClaims::default(),
        }
    }

    /// Sets how long an operation may take, from 1 millisecond to 1 hour; other times are clamped to these. Within it, an
    /// operation is sent again if its answer is lost, or if the server may not write at the moment; each attempt has a quarter of it. The
    /// time for the [replicas](Durability::within) comes on top. Defaults to 5 seconds.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { runner: self.runner.with_timeout(timeout), ..self }
    }

    /// Sets the replicas that a write has to reach before the store believes it. Defaults to none: only the primary.
    #[must_use]
    pub fn durability(self, durability: Durability) -> Self {
        Self { durability, ..self }
    }

    /// Sets the number of connections to each server, from 1 to 64; other numbers are clamped to these. Each carries many
    /// operations at once. With [`Durability::replicas`], an operation waits for those before it on its connection, so that more
    /// connections are faster. Defaults to 4.
    #[must_use]
    pub fn connections(self, connections: usize) -> Self {
        let resized = |before| Connections::resized(before, connections.clamp(1, 64));
        Self { runner: self.runner.with_connections(resized), ..self }
    }

    /// Sets the beginning of the names of all records: stores with different prefixes share nothing. Defaults to `idempotency`.
    ///
    /// # Errors
    ///
    /// The prefix is empty, longer than 64 characters, or has another character than letters and digits of ASCII and `-_.:/`.
    pub fn prefix(self, prefix: &str) -> Result<Self, InvalidPrefix> {
        Ok(Self { prefix: Prefix::new(prefix)?, ..self })
    }

    /// Asks every primary whether it is set up as the store needs it: its version, that it does not evict records, and that it has as many
    /// replicas as [`Durability`] asks for. Call it when the service starts. Without it, the first claim asks whether records are evicted,
    /// and is refused if so.
    ///
    /// # Errors
    ///
    /// [`VerifyError`] lists all problems, or says that a server could not be asked.
    pub async fn verify(&self) -> Result<(), VerifyError> {
        verify::verify(&self.runner, self.durability, self.in_cluster).await?;
        self.is_checked.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn call(&self, transition: &'static Transition, reservation: &Reservation) -> Call {
        let Reservation { owner, key, token } = reservation;
        transition.on(self.prefix.name(*owner, *key)).arg(token.to_string())
    }
}

impl Store for RedisStore {
    async fn claim(&self, claim: &Claim) -> Result<ClaimOutcome, StoreError> {
        let on_lease_ended = match claim.on_lease_ended {
            LeasePolicy::Reconcile => "reconcile",
            LeasePolicy::Rerun => "rerun",
            // Also for a policy that this version does not know: it takes nothing over.
            _ => "refuse",
        };
        let arrival = claim.request.as_arrived().map_or(&[][..], |hash| &hash.as_bytes()[..]);
        let call = self
            .call(&CLAIM, &claim.reservation)
            .arg(claim.procedure.as_str())
            .arg(claim.request.canonical().as_bytes())
            .arg(arrival)
            .arg(micros(claim.lease))
            .arg(micros(claim.lease.max(claim.retention)))
            .arg(on_lease_ended)
            .waiting_once_written(self.durability)
            .with_deadline();
        let deadline = self.runner.deadline(&call);
        verify::refuse_eviction(&self.runner, &self.is_checked).await?;
        let answer = self.runner.run_until(&call, deadline).await?;
        let outcome = answer::claimed(answer.value.clone())?;
        let token = claim.reservation.token;
        if let Some(late_until) = answer.late_until {
            self.late_claims.note(token, late_until);
        }
        if matches!(outcome, ClaimOutcome::Acquired | ClaimOutcome::TakenOver) {
            answer.check_replicas(&call)?;
        } else if !matches!(outcome, ClaimOutcome::Replay(_)) && self.late_claims.has(token) {
            // An attempt that still arrives reserves the key if its holder releases it meanwhile.
            self.release(&claim.reservation).await.map_err(StoreError::after_a_lost_answer)?;
        }
        Ok(outcome)
    }

    async fn extend(&self, reservation: &Reservation, lease: Duration) -> Result<ExtendOutcome, StoreError> {
        let call = self.call(&EXTEND, reservation).arg(micros(lease));
        answer::extended(self.runner.run(&call).await?.value)
    }

    async fn complete(
        &self,
        reservation: &Reservation,
        completion: &Completion,
    ) -> Result<CompleteOutcome, StoreError> {
        let (kind, parts) = answer::kept(&completion.response).ok_or(StoreErrorKind::Refused)?;
        let call = self.call(&COMPLETE, reservation).arg(micros(completion.retention));
        let mut call = call.replicated(self.durability).arg(kind);
        for (name, bytes) in parts {
            call = call.arg(name).arg(&bytes[..]);
        }
        if let Some(Resource { resource_type, id }) = &completion.resource {
            call =
                call.arg("resource_type").arg(resource_type.as_str()).arg("resource_id").arg(id.to_text().as_bytes());
        }
        let answer = self.runner.run(&call).await?;
        let outcome = answer::completed(answer.value.clone())?;
        if outcome != CompleteOutcome::Fenced {
            answer.check_replicas(&call)?;
        }
        Ok(outcome)
    }

    async fn release(&self, reservation: &Reservation) -> Result<ReleaseOutcome, StoreError> {
        self.late_claims.are_over(reservation.token).await;
        let call = self.call(&RELEASE, reservation);
        answer::released(self.runner.run(&call).await?.value)
    }

    async fn abandon(&self, reservation: &Reservation) -> Result<AbandonOutcome, StoreError> {
        // A second attempt writes the same again.
        let call = self.call(&ABANDON, reservation).waiting(self.durability);
        let answer = self.runner.run(&call).await?;
        let outcome = answer::abandoned(answer.value.clone())?;
        if outcome == AbandonOutcome::Abandoned {
            answer.check_replicas(&call)?;
        }
        Ok(outcome)
    }

    /// Reads every record of every server, a thousand names at a time, because the records of a cluster cannot have a common index that is
    /// written with them in one step. It never blocks a server, and takes about as long as a copy of all records.
    async fn abandoned(&self, search: &AbandonedQuery) -> Result<Vec<AbandonedKey>, StoreError> {
        abandoned::abandoned(&self.runner, &self.prefix, search).await
    }

    /// Does nothing: every record has a time to live.
    async fn sweep(&self, _batch: u32) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn status(&self, _session: &CallSession, _resource: &Resource) -> Result<Option<OutboxStatus>, StoreError> {
        Ok(None)
    }

    async fn look_up(&self, look_up: &LookUp) -> Result<KeyRecord, StoreError> {
        let call = LOOK_UP.on(self.prefix.name(look_up.owner, look_up.key));
        answer::looked_up(self.runner.run(&call).await?.value)
    }

    /// `None` in a cluster: an answer of a server whose clock is ahead of another's would look like a jump.
    fn server_clock(&self) -> Option<&ServerClock> {
        (!self.in_cluster).then_some(&*self.runner.clock)
    }

    fn has_statuses(&self) -> bool {
        false
    }

    fn forgets_expired(&self) -> bool {
        true
    }
}

/// Returns a time as digits, in microseconds.
fn micros(time: Duration) -> String {
    time.min(LONGEST).as_micros().to_string()
}
