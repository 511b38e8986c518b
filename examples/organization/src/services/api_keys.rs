//! API keys.

use tokio_postgres::{Row, types::Type};
use tonic::{Request, Response, Status};

use crate::{
    api_token::ApiToken,
    auth::Caller,
    call::Call,
    database::{Database, Insert},
    fields,
    proto::{
        ApiKey, CreateApiKeyRequest, CreateApiKeyResponse, ListApiKeysRequest, ListApiKeysResponse,
        api_key_service_server::ApiKeyService,
    },
    services::{column, created, id},
};

const INSERT_API_KEY: Insert =
    Insert { resource: "api_key", sql: "INSERT INTO tenant.api_keys (name, token_hash) VALUES ($1, $2) RETURNING id" };

const SELECT_API_KEYS: &str = "SELECT id, name, created FROM tenant.api_keys ORDER BY id DESC LIMIT 1000";

/// The `APIKeyService`.
#[derive(Debug)]
pub(crate) struct ApiKeys {
    database: Database,
}

impl ApiKeys {
    pub(crate) fn new(database: Database) -> Self {
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
        let api_key = self
            .database
            .create(&call, &INSERT_API_KEY, &[(&name, Type::TEXT), (&hash.as_slice(), Type::BYTEA)])
            .await?;
        Ok(Response::new(CreateApiKeyResponse { id: api_key.to_string(), token }))
    }

    async fn list_api_keys(
        &self,
        request: Request<ListApiKeysRequest>,
    ) -> Result<Response<ListApiKeysResponse>, Status> {
        let rows = self.database.select(Caller::of(&request)?, SELECT_API_KEYS, &[]).await?;
        Ok(Response::new(ListApiKeysResponse { api_keys: rows.iter().map(to_api_key).collect::<Result<_, _>>()? }))
    }
}

fn to_api_key(row: &Row) -> Result<ApiKey, Status> {
    Ok(ApiKey { id: id(row, "id")?, name: column(row, "name")?, created: created(row)? })
}
