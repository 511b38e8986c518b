//! A database for one test.

use std::{
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use tokio_postgres::{Client, Config, NoTls, error::SqlState};

use crate::{
    Server, Source, background, connection,
    error::{Cause, chain},
    leftovers, test_server, url,
};

/// The time that a drop waits until the database is gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// The number of attempts to copy a template that is in use; PostgreSQL itself waits 5 s for each.
const ATTEMPTS: usize = 3;

/// Creates a database on the [server of the tests](test_server()), empty or as a copy of `template` (the
/// [name](TestDatabase::name) of another).
///
/// # Panics
///
/// There is no server, or the database cannot be created.
pub async fn database(template: Option<&str>) -> TestDatabase {
    match TestDatabase::create(test_server().await, template).await {
        Ok(database) => database,
        Err(cause) => panic!("cannot create a database for the test: {}", chain(cause.as_ref())),
    }
}

/// A database that is dropped with this value, even if clients are still connected to it.
#[derive(Debug)]
pub struct TestDatabase {
    /// Whether it was there before.
    is_given: bool,
    name: String,
    server: Source,
    server_url: String,
    url: String,
}

impl TestDatabase {
    /// Creates a database on `server`, empty or as a copy of `template`.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, its role may not create databases, or a client is connected to the template.
    pub async fn create(
        server: &Server,
        template: Option<&str>,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        static NUMBER: AtomicUsize = AtomicUsize::new(1);
        let name = leftovers::name(NUMBER.fetch_add(1, Ordering::Relaxed));
        let database = Self {
            is_given: false,
            url: url::with_database(server.url(), &name),
            name,
            server: server.source().clone(),
            server_url: server.url().to_owned(),
        };
        let statement = match template {
            Some(template) => format!("CREATE DATABASE {} TEMPLATE {}", quoted(&database.name), quoted(template)),
            None => format!("CREATE DATABASE {}", quoted(&database.name)),
        };
        let url = database.server_url.clone();
        background::runtime().spawn(async move { create(&url, &statement).await }).await??;
        Ok(database)
    }

    /// A database that exists, and is not dropped with this value.
    ///
    /// # Errors
    ///
    /// This is not a connection string with a database.
    pub fn given(url: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let name = url.parse::<Config>()?.get_dbname().ok_or("no database is named")?.to_owned();
        let (server, server_url, url) = (Source::Url(url.to_owned()), url.to_owned(), url.to_owned());
        Ok(Self { is_given: true, name, server, server_url, url })
    }

    /// The database's name. It can be the template of other databases while no client is connected to it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The database's URL, with the role of the [server's](Server::url).
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Connects. The connection lives on the caller's runtime.
    ///
    /// # Panics
    ///
    /// The database cannot be reached.
    pub async fn connect(&self) -> Client {
        match tokio_postgres::connect(&self.url, NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                client
            }
            Err(error) => panic!("{} cannot be reached: {}", url::place(&self.url), chain(&error)),
        }
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if self.is_given {
            return;
        }
        let (url, name) = (self.server_url.clone(), self.name.clone());
        let (done, wait) = mpsc::sync_channel(1);
        background::runtime().spawn(async move {
            if let Ok(client) = connection::connect(&url).await {
                let _ = drop_by_name(&client, &name).await;
            }
            let _ = done.send(());
        });
        // A private server is removed with all its databases, so there is no need to wait.
        if let Source::Url(_) = self.server {
            let _ = wait.recv_timeout(PATIENCE);
        }
    }
}

/// Drops the database `name`, even if clients are connected.
pub(crate) async fn drop_by_name(client: &Client, name: &str) -> Result<(), tokio_postgres::Error> {
    client.batch_execute(&format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", quoted(name))).await
}

async fn create(url: &str, statement: &str) -> Result<(), Cause> {
    let client = connection::connect(url).await?;
    let mut attempts = 0;
    loop {
        attempts += 1;
        match client.batch_execute(statement).await {
            Err(error) if error.code() == Some(&SqlState::OBJECT_IN_USE) && attempts < ATTEMPTS => {}
            outcome => return Ok(outcome?),
        }
    }
}

/// Quotes `name` as an SQL identifier.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
