//! The calls that are measured in tables of different sizes.

use std::{sync::Arc, time::Duration};

use protobuf_canonical::RequestHash;
use tonic_idempotency::{
    KeyId, OwnerId,
    policy::{EffectPolicy, ForeignPolicy, LeasePolicy},
    store::{CallSession, Claim, ClaimOutcome, PostgresStore, Reservation, Store as _},
};
use uuid::Uuid;

use super::table::{PAYLOAD, Table};
use crate::{
    Error,
    database::{
        contender::{RESERVED, TRANSACTIONAL},
        load::{Client, Keys, Load},
        world::{Served, user},
    },
};

/// The number of concurrent callers.
const CONCURRENCY: usize = 4;

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The statement alone, for a new key.
    Claim,
    FirstReserved,
    FirstTransactional,
    ReplayReserved,
    ReplayTransactional,
}

impl Subject {
    pub(super) const ALL: [Self; 5] =
        [Self::Claim, Self::FirstReserved, Self::FirstTransactional, Self::ReplayReserved, Self::ReplayTransactional];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Claim => "claim alone",
            Self::FirstReserved => "first call, reserved",
            Self::FirstTransactional => "first call, transactional",
            Self::ReplayReserved => "replay, reserved",
            Self::ReplayTransactional => "replay, transactional",
        }
    }

    pub(super) fn is_replay(self) -> bool {
        matches!(self, Self::ReplayReserved | Self::ReplayTransactional)
    }

    /// Returns the client and the load of this kind of call; replays use the given keys.
    pub(super) async fn caller(self, table: &Table, keys: &Arc<[Uuid]>) -> Result<(Caller, Load), Error> {
        let address = table.world.address()?;
        let caller = match self {
            Self::Claim => {
                Caller::Store(PostgresStore::new(table.world.pool(address)?, organization::resource_types()))
            }
            Self::FirstReserved | Self::ReplayReserved => {
                Caller::Service(Served::start(table.world.routes(RESERVED, address)?).await?)
            }
            Self::FirstTransactional | Self::ReplayTransactional => {
                Caller::Service(Served::start(table.world.routes(TRANSACTIONAL, address)?).await?)
            }
        };
        let keys = if self.is_replay() { Keys::Recorded(Arc::clone(keys)) } else { Keys::New };
        Ok((caller, Load { concurrency: CONCURRENCY, keys, payload: PAYLOAD }))
    }
}

/// The client of a load.
#[derive(Clone)]
pub(super) enum Caller {
    Service(Served),
    Store(PostgresStore),
}

impl Client for Caller {
    async fn create_project(&mut self, key: Uuid, payload: Vec<u8>) -> Result<(), Error> {
        match self {
            Self::Service(service) => service.create_project(key, payload).await,
            Self::Store(store) => acquire(store, key).await,
        }
    }
}

async fn acquire(store: &PostgresStore, key: Uuid) -> Result<(), Error> {
    const MINUTES: Duration = Duration::from_secs(5 * 60);
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let claim = Claim {
        reservation: Reservation::new(OwnerId::new(user(key)), KeyId::new(key)),
        session: CallSession { user: Some(user(key)), settings: None },
        procedure: "/benchmarks.database.v1.ProjectService/CreateProject".to_owned(),
        request: RequestHash::from([7; 32]).into(),
        lease: MINUTES,
        retention: DAY,
        on_lease_ended: LeasePolicy::Rerun,
        on_foreign_reservation: ForeignPolicy::InProgress,
        effect: EffectPolicy::Anywhere,
        resource_type: Some("project".to_owned()),
    };
    match store.claim(&claim).await? {
        ClaimOutcome::Acquired => Ok(()),
        other => Err(format!("a new key was not acquired: {other:?}").into()),
    }
}
