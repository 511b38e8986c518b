//! The simulated database, as a subject.

use std::time::Duration;

use simulation::{
    database::{Database, Pool, RowHold, Trouble, resource_types},
    world::{Host, Link, World},
};
use tonic_idempotency::{
    KeyId, OwnerId,
    status::{OutboxStatus, Resource},
    store::{Claim, SqlStore, StoredResponse},
};
use uuid::Uuid;

use super::{
    CONNECTIONS, TIMEOUT,
    counted::{Counted, Counts},
    subject::{GoStatement, Servers, StoredRow, Subject},
};

/// Time passes between the statements, and a few of them fail: then they have changed nothing.
const TROUBLE: Trouble = Trouble {
    latency: [Duration::from_micros(50), Duration::from_millis(4)],
    commit: [Duration::from_micros(50), Duration::from_millis(4)],
    serialization: 0.01,
    lock_not_available: 0.01,
    ..Trouble::NONE
};

pub(super) struct Simulated {
    database: Database,
    servers: Servers<Pool>,
}

impl Simulated {
    pub(super) fn start(world: &World) -> Self {
        let database = Database::new(world);
        database.add(TROUBLE);
        let resource = |number| Resource { resource_type: "project".to_owned(), id: Uuid::from_u128(number).into() };
        let statuses = [None, Some(OutboxStatus::Pending), Some(OutboxStatus::Failed)];
        let resources: Vec<_> = (1 << 64..).map(resource).zip(statuses).collect();
        resources.iter().for_each(|(resource, status)| database.set_status(&resource.id, *status));
        let counts = Counts::default();
        let store = |(name, common_path, max_batch)| {
            let (process, link) = (Host::new(world, name).start(), Link::new(world.random(name)));
            let pool = Counted::new(database.pool(&process, link, CONNECTIONS), &counts);
            SqlStore::new(pool, resource_types()).timeout(TIMEOUT).common_path(common_path).max_batch(max_batch)
        };
        let stores = [("one", true, 64), ("two", true, 1), ("three", false, 64)].map(store).into();
        Self { database, servers: Servers { stores, counts, resources } }
    }
}

impl Subject for Simulated {
    type Pool = Pool;
    type Hold = RowHold;

    const FAILS: bool = true;

    fn servers(&self) -> &Servers<Pool> {
        &self.servers
    }

    async fn row(&self, owner: OwnerId, key: KeyId) -> Option<StoredRow> {
        let (record, is_foreign, now) = self.database.row(*owner.as_uuid(), *key.as_uuid())?;
        Some(StoredRow { record, is_foreign, now })
    }

    async fn hold(&self, owner: OwnerId, key: KeyId) -> Option<RowHold> {
        self.database.hold(*owner.as_uuid(), *key.as_uuid())
    }

    async fn waiting(&self, hold: &RowHold) -> usize {
        hold.waiting()
    }

    async fn let_go(&self, hold: RowHold) {
        drop(hold);
    }

    async fn run_as_go(&self, claim: &Claim, statement: GoStatement) -> Option<bool> {
        match statement {
            GoStatement::Complete => self.database.end_as_go(claim, Some(StoredResponse::message("go"))).await,
            GoStatement::Delete => self.database.end_as_go(claim, None).await,
            GoStatement::Reserve => Some(self.database.reserve_as_go(claim).await),
        }
    }

    async fn expired(&self) -> u64 {
        self.database.expired() as u64
    }
}
