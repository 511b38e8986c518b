//! PostgreSQL, as a subject.

use std::{iter::repeat_with, sync::Arc, time::Duration};

use futures_util::future::join_all;
use simulation::database::resource_types;
use tokio::{
    sync::{Mutex, OwnedMutexGuard},
    time::Instant,
};
use tokio_postgres::{Client, Row};
use tonic_idempotency::{
    KeyId, OwnerId,
    policy::{EffectPolicy, ForeignPolicy, LeasePolicy},
    status::{OutboxStatus, Resource, ResourceId},
    store::{
        CallSession, Claim, Deadpool, RequestHash, RequestHashes, Reservation, SqlStore, StoredMessage, StoredResponse,
        memory_transitions::Record,
    },
};
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use super::{
    CONNECTIONS, TIMEOUT,
    counted::{Counted, Counts},
    subject::{GoStatement, Servers, StoredRow, Subject},
};

/// The connections that hold rows, and those of Go servers.
const HOLDERS: usize = 8;
const GO_SERVERS: usize = 4;

/// A database of its own, and connections that belong to no store.
pub(super) struct Postgres {
    _database: Database,
    servers: Servers<Deadpool>,
    reader: Client,
    holders: Vec<Arc<Mutex<Client>>>,
    go: Vec<Mutex<Client>>,
}

impl Postgres {
    pub(super) async fn start() -> Self {
        let database = Database::new().await;
        let mut resources = Vec::new();
        for status in [None, Some(OutboxStatus::Pending), Some(OutboxStatus::Failed)] {
            resources.push((database.project(status).await, status));
        }
        let counts = Counts::default();
        let store = |common_path, max_batch| {
            let pool = Counted::new(Deadpool::from(database.pool(CONNECTIONS)), &counts);
            let store = SqlStore::new(pool, resource_types()).timeout(TIMEOUT).status_timeout(TIMEOUT);
            store.common_path(common_path).max_batch(max_batch)
        };
        let stores = vec![store(true, 64), store(true, 1), store(false, 64)];
        let owners = join_all(repeat_with(|| database.owner()).take(HOLDERS)).await;
        let go = join_all(repeat_with(|| database.api()).take(GO_SERVERS)).await;
        Self {
            servers: Servers { stores, counts, resources },
            reader: database.owner().await,
            holders: owners.into_iter().map(|client| Arc::new(Mutex::new(client))).collect(),
            go: go.into_iter().map(Mutex::new).collect(),
            _database: database,
        }
    }
}

impl Subject for Postgres {
    type Pool = Deadpool;
    type Hold = OwnedMutexGuard<Client>;

    const FAILS: bool = false;

    fn servers(&self) -> &Servers<Deadpool> {
        &self.servers
    }

    async fn row(&self, owner: OwnerId, key: KeyId) -> Option<StoredRow> {
        let select = "SELECT k.*, date_part('epoch', lease_expires - clock_timestamp()) AS lease_left,
                             lease_expires > 'epoch' AS has_lease, date_part('epoch', expires - clock_timestamp()) AS left,
                             completed IS NOT NULL AS is_completed
                      FROM tenant.idempotency_keys k WHERE idempotency_key = $1 AND user_id = $2";
        let row = self.reader.query_opt(select, &[key.as_uuid(), owner.as_uuid()]).await.expect("the row");
        row.map(|row| stored(&row, owner, key))
    }

    async fn hold(&self, owner: OwnerId, key: KeyId) -> Option<OwnedMutexGuard<Client>> {
        let client = self.holders.iter().find_map(|it| Arc::clone(it).try_lock_owned().ok())?;
        let (owner, key) = (owner.as_uuid(), key.as_uuid());
        client.batch_execute("BEGIN").await.expect("a transaction");
        let lock = "SELECT FROM tenant.idempotency_keys WHERE idempotency_key = $1 AND user_id = $2 FOR UPDATE";
        let insert = "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, expires)
                      VALUES ($1, $2, '', '', now()) ON CONFLICT DO NOTHING";
        if client.execute(lock, &[key, owner]).await.expect("a lock") == 0 {
            client.execute(insert, &[key, owner]).await.expect("a row");
        }
        Some(client)
    }

    async fn waiting(&self, hold: &OwnedMutexGuard<Client>) -> usize {
        let count = "WITH RECURSIVE
                         waits AS MATERIALIZED (
                             SELECT l.pid, pg_blocking_pids(l.pid) AS for FROM (SELECT DISTINCT pid FROM pg_locks WHERE NOT granted) l
                         ),
                         behind (pid) AS (SELECT pg_backend_pid() UNION SELECT w.pid FROM waits w JOIN behind b ON b.pid = ANY (w.for))
                     SELECT count(*) - 1 FROM behind";
        let waiting: i64 = hold.query_one(count, &[]).await.expect("the locks").get(0);
        usize::try_from(waiting).expect("few sessions")
    }

    async fn let_go(&self, hold: OwnedMutexGuard<Client>) {
        hold.batch_execute("ROLLBACK").await.expect("the end");
    }

    async fn run_as_go(&self, claim: &Claim, statement: GoStatement) -> Option<bool> {
        let Reservation { owner, key, token } = claim.reservation;
        let client = &mut *self.go[usize::from(token.as_bytes()[0]) % self.go.len()].lock().await;
        let (user, key) = (owner.as_uuid(), key.as_uuid());
        let transaction = client.transaction().await.expect("a transaction");
        let set = "SELECT set_config('app.current_user_id', $1, true)";
        transaction.execute(set, &[&user.to_string()]).await.expect("the user is set");
        let done = match statement {
            GoStatement::Reserve => {
                let hash = claim.request.canonical().as_bytes().as_slice();
                let insert = "INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, expires)
                              VALUES ($1, $2, $3, $4, clock_timestamp() + make_interval(secs => $5)) ON CONFLICT DO NOTHING";
                let life = claim.retention.max(claim.lease).as_secs_f64();
                transaction.execute(insert, &[key, user, &claim.procedure, &hash, &life]).await
            }
            GoStatement::Complete => {
                let update = "UPDATE tenant.idempotency_keys SET response_bytes = 'go'
                              WHERE idempotency_key = $1 AND user_id = $2 AND response_bytes IS NULL";
                transaction.execute(update, &[key, user]).await
            }
            GoStatement::Delete => {
                let delete = "DELETE FROM tenant.idempotency_keys
                              WHERE idempotency_key = $1 AND user_id = $2 AND response_bytes IS NULL";
                transaction.execute(delete, &[key, user]).await
            }
        };
        match done {
            Ok(rows) => {
                transaction.commit().await.expect("a commit");
                Some(rows == 1)
            }
            Err(error) => {
                assert_eq!(error.code().map(|code| code.code()), Some("23514"), "{error:?}");
                transaction.rollback().await.expect("the end");
                None
            }
        }
    }

    async fn expired(&self) -> u64 {
        let count = "SELECT count(*) FROM tenant.idempotency_keys WHERE expires <= now()";
        let expired: i64 = self.reader.query_one(count, &[]).await.expect("the count").get(0);
        u64::try_from(expired).expect("a count")
    }
}

fn stored(row: &Row, owner: OwnerId, key: KeyId) -> StoredRow {
    let now = Instant::now();
    let seconds = |name| row.get::<_, Option<f64>>(name).map(|left: f64| Duration::from_secs_f64(left.max(0.0)));
    let token: Option<Uuid> = row.get("token");
    let hash = |name| row.get::<_, Option<&[u8]>>(name).map(|hash| RequestHash::try_from(hash).expect("32 bytes"));
    let bytes = |name| row.get::<_, Option<&[u8]>>(name).map(<[u8]>::to_vec);
    let claim = Claim {
        reservation: Reservation { owner, key, token: token.unwrap_or_default() },
        session: CallSession::default(),
        procedure: row.get("procedure"),
        request: RequestHashes::new(hash("request_hash").expect("a hash"), hash("arrival_hash")),
        lease: seconds("lease_left").unwrap_or_default(),
        retention: Duration::ZERO,
        on_lease_ended: LeasePolicy::Refuse,
        on_foreign_reservation: ForeignPolicy::InProgress,
        effect: EffectPolicy::Anywhere,
        resource_type: None,
    };
    let mut record = Record::reserved(&claim, now);
    record.lease_expires = record.lease_expires.filter(|_| row.get::<_, Option<bool>>("has_lease") == Some(true));
    record.expires = now + seconds("left").expect("not null");
    record.attempts = u32::try_from(row.get::<_, i32>("attempts")).expect("a number of attempts");
    record.unknown = row.get("outcome_unknown");
    record.completed = row.get::<_, bool>("is_completed").then_some(now);
    let response = match (bytes("response_bytes"), bytes("error_bytes")) {
        (Some(message), None) if row.get("response_not_stored") => {
            assert!(message.is_empty(), "a response that is not stored: {row:?}");
            let sealed = |envelope: Vec<u8>| StoredResponse::Sealed(envelope.into());
            Some(bytes("response_metadata").map_or(StoredResponse::NotStored, sealed))
        }
        (Some(message), None) => {
            let metadata = bytes("response_metadata").map(Into::into);
            Some(StoredResponse::Message(StoredMessage { message: message.into(), metadata }))
        }
        (None, Some(error)) => Some(StoredResponse::Error(error.into())),
        (None, None) => None,
        (Some(_), Some(_)) => panic!("two outcomes: {row:?}"),
    };
    let resource = match (row.get::<_, Option<Uuid>>("project_id"), row.get::<_, Option<&str>>("resource_name")) {
        (Some(id), None) => Some(Resource { resource_type: "project".to_owned(), id: id.into() }),
        (None, Some(name)) => {
            let (resource_type, id) = name.split_once('/').expect("type/id");
            Some(Resource { resource_type: resource_type.to_owned(), id: ResourceId::from_text(id).expect("an id") })
        }
        (None, None) => None,
        (Some(_), Some(_)) => panic!("two resources: {row:?}"),
    };
    record.outcome = response.map(|response| (response, resource));
    StoredRow { is_foreign: token.is_none(), record, now }
}
