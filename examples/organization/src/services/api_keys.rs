//! API keys.

use std::fmt::Write;

use sha2::{Digest, Sha256};
use tokio_postgres::{Row, types::Type};
use tonic::{Request, Response, Status};

use crate::{
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
        let token = new_token()?;
        let hash = Sha256::digest(&token);
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

/// Returns a token of 256 random bits. Its prefix helps to recognise a leaked token.
fn new_token() -> Result<String, Status> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|error| {
        tracing::error!(%error, "cannot generate random numbers");
        Status::internal("cannot generate random numbers")
    })?;
    Ok(secret.iter().fold("org_".to_owned(), |mut token, byte| {
        // Writing to a String never fails.
        let _ = write!(token, "{byte:02x}");
        token
    }))
}

fn to_api_key(row: &Row) -> Result<ApiKey, Status> {
    Ok(ApiKey { id: id(row, "id")?, name: column(row, "name")?, created: created(row)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_and_unique() {
        let (one, other) = (new_token().expect("a token"), new_token().expect("a token"));
        assert_eq!(one.len(), 4 + 64);
        assert_ne!(one, other);
    }
}
