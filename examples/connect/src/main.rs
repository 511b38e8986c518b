//! An order service of connectrpc, with its orders and its keys in PostgreSQL.
#![expect(clippy::print_stdout, reason = "it says where it listens")]

use std::{env, error::Error, sync::Arc, time::Duration};

use axum::{
    extract::Request,
    http::{StatusCode, header::AUTHORIZATION},
    middleware::{self, Next},
    response::Response,
};
use connectrpc::{ConnectRpcService, RequestContext, Router, ServiceRequest, ServiceResult};
use deadpool_postgres::{Manager, Pool};
use tokio::{net::TcpListener, signal};
use tokio_postgres::{NoTls, types::Type};
use tonic_idempotency::{
    Caller, IdempotencyLayer, Scope, Transaction, UserId,
    maintenance::Sweeper,
    store::{PostgresStore, ResourceTypes},
};
use tower_layer::Layer as _;
use uuid::Uuid;

use crate::proto::orders::v1::{CreateOrderRequest, CreateOrderResponse, OrderService};

#[allow(missing_debug_implementations, unreachable_pub, reason = "generated")]
mod proto {
    connectrpc::include_generated!();
}

const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/orders.bin"));

struct Orders;

#[expect(refining_impl_trait, reason = "its handlers return their own messages")]
impl OrderService for Orders {
    async fn create_order(
        &self,
        context: RequestContext,
        request: ServiceRequest<'_, CreateOrderRequest>,
    ) -> ServiceResult<CreateOrderResponse> {
        let transaction = Transaction::from_extensions(context.extensions())?;
        let insert = "INSERT INTO orders (item) VALUES ($1) RETURNING id";
        let id: Uuid = transaction.query_typed_one(insert, &[(&request.item, Type::TEXT)]).await?.get("id");
        // No COMMIT: the layer commits.
        connectrpc::Response::ok(CreateOrderResponse { order_id: id.to_string(), ..Default::default() })
    }
}

/// Names the caller, or refuses the call.
async fn authenticate(mut request: Request, next: Next) -> Result<Response, StatusCode> {
    let token = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let caller = token.and_then(caller_of).ok_or(StatusCode::UNAUTHORIZED)?;
    request.extensions_mut().insert(caller);
    Ok(next.run(request).await)
}

/// Your own: checks the token, and returns its user and tenant.
fn caller_of(token: &str) -> Option<Caller> {
    let (user, tenant) = (token == "alice-at-acme").then_some(("auth0|alice", "acme"))?;
    Some(Caller::new(UserId::from_text(user).ok()?).in_scope(Scope::from_text(tenant).ok()?))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = env::var("DATABASE_URL").map_err(|_| "DATABASE_URL is not set")?;
    let pool = Pool::builder(Manager::new(url.parse()?, NoTls)).build()?;
    let store = PostgresStore::new(pool, ResourceTypes::none());
    store.verify().await?; // says what is missing in the database
    let idempotency = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).store(store.clone()).build()?;
    let sweeper = Sweeper::new(store).spawn(); // deletes expired records once an hour

    let orders = ConnectRpcService::new(Router::new().add_service(Arc::new(Orders)));
    // A call first meets authentication, then idempotency, then its handler.
    let app = axum::Router::new().fallback_service(idempotency.layer(orders)).layer(middleware::from_fn(authenticate));
    let listener = TcpListener::bind(env::var("ADDRESS").as_deref().unwrap_or("127.0.0.1:50051")).await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, app).with_graceful_shutdown(async { signal::ctrl_c().await.unwrap_or(()) }).await?;

    let _unfinished = idempotency.shutdown(Duration::from_secs(30)).await; // calls whose clients are gone
    sweeper.stop().await;
    Ok(())
}
