//! A database for one test.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    sync::mpsc,
    time::Duration,
};

use tokio_postgres::{Client, NoTls, error::SqlState};

use crate::{
    Server, Source, background, connection,
    error::{Cause, chain},
    leftovers, test_server, url,
};

/// How long a drop waits for the database to be gone.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often a template may be in use by somebody who is about to leave; PostgreSQL itself waits 5 s each time.
const ATTEMPTS: usize = 3;

/// A database of its own on the [server of the tests](test_server()), a copy of `template` (another's
/// [name](TestDatabase::name)) or empty.
///
/// # Panics
///
/// There is no server, or the database cannot be made.
pub async fn database(template: Option<&str>) -> TestDatabase {
    match TestDatabase::create(test_server().await, template).await {
        Ok(database) => database,
        Err(cause) => panic!("a database for the test cannot be made: {}", chain(cause.as_ref())),
    }
}

/// A database that is dropped with this value, whoever is still connected to it.
#[derive(Debug)]
pub struct TestDatabase {
    name: String,
    server: Source,
    server_url: String,
    url: String,
}

impl TestDatabase {
    /// Makes a database on `server`, a copy of `template` or empty.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, its role may not create databases, or somebody is connected to the template.
    pub async fn create(
        server: &Server,
        template: Option<&str>,
    ) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        static NUMBER: AtomicUsize = AtomicUsize::new(1);
        let name = leftovers::name(NUMBER.fetch_add(1, Ordering::Relaxed));
        let database = Self {
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

    /// The database's name, which can be the template of others as long as nobody is connected to it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The database's address, with the role of the [server's](Server::url).
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
        let (url, name) = (self.server_url.clone(), self.name.clone());
        let (done, wait) = mpsc::sync_channel(1);
        background::runtime().spawn(async move {
            if let Ok(client) = connection::connect(&url).await {
                let _ = drop_by_name(&client, &name).await;
            }
            let _ = done.send(());
        });
        // A private server goes with everything in it, so that nobody has to wait.
        if let Source::Url(_) = self.server {
            let _ = wait.recv_timeout(PATIENCE);
        }
    }
}

/// Drops the database `name`, whoever is connected to it.
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

/// `name` as an SQL identifier.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
