//! The quickstart's service on the drivers beside tokio-postgres: one program for each, with its pool, its layer and its handler. This is
//! all else that they need.
#![expect(clippy::print_stdout, reason = "it shows what happens")]

use quickstart::proto::{
    CreateOrderRequest,
    order_service_client::OrderServiceClient,
    order_service_server::{OrderService, OrderServiceServer},
};
use scratch_postgres::{Server as DatabaseServer, Source};
use tokio::net::TcpListener;
use tokio_postgres::NoTls;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, service::InterceptorLayer, transport::Server};
use tonic_idempotency::{IdempotencyLayer, UserId, migrations, store::Schema};
use uuid::Uuid;

/// The reason why an example ends, readable for a person.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The role of a service: the layer refuses a superuser, to which row-level security does not apply.
const SERVICE_ROLE: &str = "service";

/// The own migration of the service with orders.
pub const ORDERS: &str = "CREATE TABLE orders (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), item text NOT NULL)";

/// A private server with the tables of the service and of the layer. It is removed when this is dropped.
#[derive(Debug)]
pub struct Database {
    server: DatabaseServer,
}

impl Database {
    /// Starts the server, and migrates its database: with this migration of the service's own, whose tables it may read and write.
    ///
    /// # Errors
    ///
    /// There are neither PostgreSQL's server binaries nor a container engine.
    pub async fn start(migration: &str) -> Result<Self, Error> {
        let server = DatabaseServer::start(&[Source::Installed, Source::Container]).await?;
        let (mut owner, connection) = tokio_postgres::connect(server.url(), NoTls).await?;
        tokio::spawn(connection);
        let role = format!(
            "CREATE ROLE {SERVICE_ROLE} LOGIN PASSWORD 'service';
             ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT ON TABLES TO {SERVICE_ROLE}"
        );
        owner.batch_execute(&role).await?;
        owner.batch_execute(migration).await?;
        migrations::run(&mut owner, &Schema::default()).await?;
        migrations::grant(&owner, &Schema::default(), SERVICE_ROLE).await?;
        Ok(Self { server })
    }

    /// Returns the URL with which the service logs in.
    pub fn url(&self) -> String {
        let (_, host) = self.server.url().split_once('@').unwrap_or_default();
        format!("postgres://{SERVICE_ROLE}:service@{host}")
    }
}

/// Serves these orders behind the layer, and calls them: a first call, its retry, and another request with the same key.
///
/// # Errors
///
/// The server does not start, or is not reached.
pub async fn call(orders: impl OrderService, idempotency: IdempotencyLayer) -> Result<(), Error> {
    // In front of the layer: authentication, which names the user. Here, one user for all calls.
    let authenticate = InterceptorLayer::new(|mut request: Request<()>| {
        request.extensions_mut().insert(UserId::new(Uuid::from_u128(1)));
        Ok(request)
    });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let routes = OrderServiceServer::new(orders);
    let server = Server::builder().layer(authenticate).layer(idempotency).add_service(routes);
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));

    let mut orders = OrderServiceClient::connect(format!("http://{address}")).await?;
    let key = Uuid::new_v4().to_string();
    for (attempt, item) in [("first attempt", "a lamp"), ("retry", "a lamp"), ("same key, another request", "a chair")]
    {
        let mut request = Request::new(CreateOrderRequest { item: item.to_owned() });
        request.metadata_mut().insert("idempotency-key", key.parse()?);
        match orders.create_order(request).await {
            Ok(response) => {
                let replayed = response.metadata().contains_key("idempotent-replayed");
                println!("{attempt}: answered {}, replayed: {replayed}", response.into_inner().order_id);
            }
            Err(status) => println!("{attempt}: refused: {}", status.message()),
        }
    }
    Ok(())
}
