//! Guards as a user would write them by hand, in the transaction of the handler, with prepared statements; and the floor of any such guard.

use deadpool_postgres::Pool;
use futures_util::future::join;
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use tokio_postgres::types::{ToSql, Type};
use tonic::{Request, Response, Status};
use uuid::Uuid;

use super::{
    handler::{INSERT, Parameter, SET_USER, caller, insert, internal, key, query, uuid},
    proto::{CreateProjectRequest, CreateProjectResponse, project_service_server::ProjectService},
};

const PROCEDURE: &str = "/organization.v1.ProjectService/CreateProject";

const RESERVE: &str =
    "INSERT INTO benchmarks.by_hand (user_id, idempotency_key, procedure, request_hash) VALUES ($1, $2, $3, $4)
     ON CONFLICT (user_id, idempotency_key) DO NOTHING RETURNING true";

/// An inbox knows which messages were handled, and nothing else.
const RECEIVE: &str =
    "INSERT INTO benchmarks.inbox (message_id) VALUES ($1) ON CONFLICT (message_id) DO NOTHING RETURNING true";

const LOOK_UP: &str = "SELECT response FROM benchmarks.by_hand WHERE user_id = $1 AND idempotency_key = $2";

const LOCK: &str = "SELECT response FROM benchmarks.by_hand WHERE user_id = $1 AND idempotency_key = $2 FOR UPDATE";

const COMPLETE: &str =
    "UPDATE benchmarks.by_hand SET response = $3, completed = now() WHERE user_id = $1 AND idempotency_key = $2";

/// A record as the layer writes it.
const RECORD: &str = "INSERT INTO tenant.idempotency_keys
         (id, idempotency_key, user_id, token, procedure, request_hash, response_bytes, completed, expires, project_id)
     VALUES ($1, $2, $3, $4, $5, $6, $7, now(), now() + interval '24 hours', $8)";

/// The statements of a guard that is written by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Only the record, beside COMMIT, and the user beside BEGIN: nothing is guarded.
    Floor,
    /// An inbox: `INSERT … ON CONFLICT` of the message's id first in the transaction, and nothing at its end.
    Inbox,
    /// `INSERT … ON CONFLICT` first in the transaction, and an UPDATE at its end.
    InsertFirst,
    /// A SELECT, an INSERT, a SELECT FOR UPDATE, and an UPDATE at the end: the order of the article in the seed documents.
    Sequence,
}

/// A handler that inserts a project, as [`Projects`](super::handler::Projects) does, with a guard that is written by hand. It measures first calls: a
/// call whose key is there fails.
#[derive(Clone, Debug)]
pub(crate) struct ByHand {
    pool: Pool,
    way: Way,
}

impl ByHand {
    pub(crate) fn new(pool: Pool, way: Way) -> Self {
        Self { pool, way }
    }

    /// Sends each statement when the one before is answered.
    async fn guarded(&self, call: &Call) -> Result<CreateProjectResponse, Status> {
        let Call { user, key, hash, .. } = call;
        let mut connection = self.pool.get().await.map_err(internal)?;
        let transaction = connection.transaction().await.map_err(internal)?;
        query(&transaction, SET_USER, &[(&user.to_string(), Type::TEXT)]).await?;
        let id: [Parameter<'_>; 2] = [(user, Type::UUID), (key, Type::UUID)];
        if self.way == Way::Sequence && !query(&transaction, LOOK_UP, &id).await?.is_empty() {
            return Err(Status::aborted("the key was used"));
        }
        let what: [Parameter<'_>; 2] = [(&PROCEDURE, Type::TEXT), (hash, Type::BYTEA)];
        let is_new = match self.way {
            Way::Inbox => query(&transaction, RECEIVE, &id[1..]).await?,
            _ => query(&transaction, RESERVE, &[id.clone(), what].concat()).await?,
        };
        if is_new.is_empty() {
            return Err(Status::aborted("the key was used"));
        }
        if self.way == Way::Sequence {
            query(&transaction, LOCK, &id).await?;
        }
        let response = call.response(insert(&transaction, call.cluster, &call.name).await?);
        if self.way != Way::Inbox {
            let bytes = response.encode_to_vec();
            let [user, key] = id;
            query(&transaction, COMPLETE, &[user, key, (&bytes, Type::BYTEA)]).await?;
        }
        transaction.commit().await.map_err(internal)?;
        Ok(response)
    }

    async fn floor(&self, call: &Call) -> Result<CreateProjectResponse, Status> {
        let Call { user, key, hash, .. } = call;
        let connection = self.pool.get().await.map_err(internal)?;
        let set_user = connection.prepare_typed_cached(SET_USER, &[Type::TEXT]).await.map_err(internal)?;
        let insert = connection.prepare_typed_cached(INSERT, &[Type::UUID, Type::TEXT]).await.map_err(internal)?;
        let record = connection.prepare_cached(RECORD).await.map_err(internal)?;
        let text = user.to_string();
        let user_set: [&(dyn ToSql + Sync); 1] = [&text];
        let (begun, set) = join(connection.batch_execute("BEGIN"), connection.query(&set_user, &user_set)).await;
        begun.and(set).map_err(internal)?;
        let row = connection.query_one(&insert, &[&call.cluster, &call.name]).await.map_err(internal)?;
        let project: Uuid = row.try_get(0).map_err(internal)?;
        let response = call.response(project);
        let bytes = response.encode_to_vec();
        let (id, token) = (Uuid::now_v7(), Uuid::new_v4());
        let columns: [&(dyn ToSql + Sync); 8] = [&id, key, user, &token, &PROCEDURE, hash, &bytes, &project];
        let (recorded, committed) =
            join(connection.execute(&record, &columns), connection.batch_execute("COMMIT")).await;
        recorded.map_err(internal)?;
        committed.map_err(internal)?;
        Ok(response)
    }
}

/// A call, as its guard needs it.
struct Call {
    user: Uuid,
    key: Uuid,
    hash: Vec<u8>,
    cluster: Uuid,
    name: String,
    payload: Vec<u8>,
}

impl Call {
    fn response(&self, project: Uuid) -> CreateProjectResponse {
        CreateProjectResponse { project_id: project.to_string(), payload: self.payload.clone() }
    }
}

#[tonic::async_trait]
impl ProjectService for ByHand {
    async fn create_project(
        &self,
        request: Request<CreateProjectRequest>,
    ) -> Result<Response<CreateProjectResponse>, Status> {
        let (user, key) = (caller(&request)?, key(&request)?);
        let hash = Sha256::digest(request.get_ref().encode_to_vec()).to_vec();
        let CreateProjectRequest { cluster_id, name, payload } = request.into_inner();
        let call = Call { user, key, hash, cluster: uuid(&cluster_id)?, name, payload };
        let response = match self.way {
            Way::Floor => self.floor(&call).await?,
            Way::Inbox | Way::InsertFirst | Way::Sequence => self.guarded(&call).await?,
        };
        Ok(Response::new(response))
    }
}
