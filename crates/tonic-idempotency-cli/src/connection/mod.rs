//! The connection to the database, and what its answers mean for the exit status.

mod answers;
mod settings;
mod tls;

pub(crate) use self::tls::authorities;

use std::{future::Future, time::Duration};

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod};
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tokio_postgres::{
    Client, Config, Error,
    types::{ToSql, Type},
};
use tokio_postgres_rustls::MakeRustlsConnect;
use tonic_idempotency::store::Schema;

use self::{answers::Role, settings::Settings};
use crate::failure::Failure;

/// How long a statement may take on the server, and how long its answer may take.
const STATEMENT: &str = "SET LOCAL statement_timeout = '30s'";
const ANSWER: Duration = Duration::from_secs(40);

/// How long it may take to connect, if DATABASE_URL does not say.
const CONNECT: Duration = Duration::from_secs(10);

/// The options of all commands that connect.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ConnectionOptions {
    /// The schema of the tables and functions.
    #[arg(long, value_name = "NAME", default_value = "tenant")]
    schema: String,
    /// Prints one JSON object a line, with the names of the SQL columns, for programs.
    #[arg(long)]
    pub(crate) json: bool,
}

impl ConnectionOptions {
    pub(crate) fn schema(&self) -> Result<Schema, Failure> {
        Schema::new(&self.schema).map_err(|error| Failure::Input(format!("--schema: {error}")))
    }
}

/// Returns where and how to connect.
fn address() -> Result<(Config, MakeRustlsConnect), Failure> {
    let Settings { mut config, tls } = Settings::from_environment()?;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT);
    }
    config.application_name("tonic-idempotency");
    Ok((config, MakeRustlsConnect::new(tls.client_config()?)))
}

/// Returns a pool of one connection, for the library's store.
pub(crate) fn pool() -> Result<Pool, Failure> {
    let (config, tls) = address()?;
    let manager = Manager::from_config(config, tls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
    Pool::builder(manager).max_size(1).build().map_err(|error| Failure::Input(error.to_string()))
}

/// Parameters of a statement, with their types.
pub(crate) type Parameters<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

/// A row of an answer.
pub(crate) struct Answer<T> {
    /// As PostgreSQL writes it.
    pub(crate) json: String,
    pub(crate) row: T,
}

/// A transaction's isolation from others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Isolation {
    ReadCommitted,
    /// A row that has changed since the first statement is not changed again.
    RepeatableRead,
}

/// A connection. It keeps nothing from one transaction to the next, and so may go through PgBouncer.
pub(crate) struct Connection {
    client: Client,
    schema: Schema,
    role: Role,
}

impl Connection {
    /// Connects as an operator.
    pub(crate) async fn of_operator(options: &ConnectionOptions) -> Result<Self, Failure> {
        Self::open(options, Role::Operator).await
    }

    /// Connects as the API's role.
    pub(crate) async fn of_api(options: &ConnectionOptions) -> Result<Self, Failure> {
        Self::open(options, Role::Api).await
    }

    async fn open(options: &ConnectionOptions, role: Role) -> Result<Self, Failure> {
        let schema = options.schema()?;
        let (config, tls) = address()?;
        let refused = |error: Error| answers::failure_of(&error, &schema, role);
        // The time of the settings is that of each address.
        let (client, connection) =
            timeout(ANSWER, config.connect(tls)).await.map_err(|_| answers::silent())?.map_err(refused)?;
        tokio::spawn(connection);
        Ok(Self { client, schema, role })
    }

    /// Begins a transaction whose statements may take only so long.
    pub(crate) async fn begin(&self, isolation: Isolation) -> Result<(), Failure> {
        let level = match isolation {
            Isolation::ReadCommitted => "READ COMMITTED",
            Isolation::RepeatableRead => "REPEATABLE READ",
        };
        self.answered(self.client.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}; {STATEMENT}"))).await
    }

    pub(crate) async fn commit(&self) -> Result<(), Failure> {
        self.answered(self.client.batch_execute("COMMIT")).await
    }

    /// Rolls back. Its failure is of no interest: the connection is closed then.
    pub(crate) async fn roll_back(&self) {
        drop(self.answered(self.client.batch_execute("ROLLBACK")).await);
    }

    /// Returns the rows of a query in a transaction of its own.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Answer<T>>, Failure> {
        self.begin(Isolation::ReadCommitted).await?;
        let answers = self.query(sql, parameters).await?;
        self.commit().await?;
        Ok(answers)
    }

    /// Returns the rows of a query in the transaction that was begun. `tenant` in it is the schema.
    pub(crate) async fn query<T: DeserializeOwned>(
        &self,
        sql: &str,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Answer<T>>, Failure> {
        let sql = format!("SELECT pg_catalog.row_to_json(x)::text FROM ({}) x", self.in_schema(sql));
        let rows = self.answered(self.client.query_typed(&sql, parameters)).await?;
        let read = |row: &tokio_postgres::Row| {
            let json: String = row.try_get(0).map_err(|error| answers::failure_of(&error, &self.schema, self.role))?;
            let row = serde_json::from_str(&json).map_err(|error| answers::unknown(&error))?;
            Ok(Answer { json, row })
        };
        rows.iter().map(read).collect()
    }

    /// Runs a statement outside of a transaction. Returns its only row.
    pub(crate) async fn call(&self, sql: &str, parameters: Parameters<'_>) -> Result<tokio_postgres::Row, Failure> {
        let mut rows = self.answered(self.client.query_typed(&self.in_schema(sql), parameters)).await?;
        rows.pop().ok_or_else(|| answers::unknown(&"no row"))
    }

    fn in_schema(&self, sql: &str) -> String {
        // Its name needs no escape.
        sql.replace("tenant.", &format!("\"{}\".", self.schema.name()))
    }

    async fn answered<T>(&self, asked: impl Future<Output = Result<T, Error>>) -> Result<T, Failure> {
        match timeout(ANSWER, asked).await {
            Ok(answer) => answer.map_err(|error| answers::failure_of(&error, &self.schema, self.role)),
            Err(_) => Err(answers::silent()),
        }
    }
}
