//! API keys.

use sqlx::{FromRow, Row as _, postgres::PgRow};
use tonic::{Request, Response, Status};
use uuid::Uuid;

use super::{created, database::Database, failure::of_statement, id};
use crate::{
    api_token::ApiToken,
    auth::Caller,
    call::Call,
    fields,
    proto::{
        ApiKey, CreateApiKeyRequest, CreateApiKeyResponse, ListApiKeysRequest, ListApiKeysResponse,
        api_key_service_server::ApiKeyService,
    },
};

const INSERT_API_KEY: &str = "INSERT INTO tenant.api_keys (name, token_hash) VALUES ($1, $2) RETURNING id";

const SELECT_API_KEYS: &str = "SELECT id, name, created FROM tenant.api_keys ORDER BY id DESC LIMIT 1000";

/// The `APIKeyService`.
#[derive(Debug)]
pub(super) struct ApiKeys {
    database: Database,
}

impl ApiKeys {
    pub(super) fn new(database: Database) -> Self {
        Self { database }
    }
}

#[tonic::async_trait]
impl ApiKeyService for ApiKeys {
    async fn create_api_key(
        &self,
        request: Request<CreateApiKeyRequest>,
    ) -> Result<Response<CreateApiKeyResponse>, Status> {
        let call = Call::of(&request)?;
        let request = request.into_inner();
        let name = fields::text("name", &request.name)?;
        let ApiToken { token, hash } = ApiToken::new()?;

        let mut connection = self.database.create(&call).await?;
        let insert = self.database.query_scalar(INSERT_API_KEY).bind(name).bind(hash);
        let api_key: Uuid = insert.fetch_one(&mut *connection).await.map_err(of_statement)?;
        self.database.created(&call, connection, "api_key", api_key).await?;
        Ok(Response::new(CreateApiKeyResponse { id: api_key.to_string(), token }))
    }

    async fn list_api_keys(
        &self,
        request: Request<ListApiKeysRequest>,
    ) -> Result<Response<ListApiKeysResponse>, Status> {
        let mut connection = self.database.read(Caller::of(&request)?).await?;
        let api_keys =
            self.database.query_as(SELECT_API_KEYS).fetch_all(&mut *connection).await.map_err(of_statement)?;
        Ok(Response::new(ListApiKeysResponse { api_keys }))
    }
}

impl FromRow<'_, PgRow> for ApiKey {
    fn from_row(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok(Self { id: id(row, "id")?, name: row.try_get("name")?, created: created(row)? })
    }
}
