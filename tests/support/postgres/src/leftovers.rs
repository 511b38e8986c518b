//! Removes databases of earlier processes from a server that is not private.
//!
//! A [`TestDatabase`](crate::TestDatabase) is dropped with its value, but not if it is in a `static` or its process was
//! killed. Each process holds an advisory lock while it lives, and its databases have the lock's number in their names.
//! The next process drops the databases whose lock is free.

use std::sync::LazyLock;

use tokio::sync::OnceCell;
use tokio_postgres::Client;
use uuid::Uuid;

use crate::{
    background, connection,
    error::{Cause, chain},
    test_database,
};

/// The prefix of the names of all test databases.
const PREFIX: &str = "scratch_";

/// Takes the lock of a database's owner. It has two keys: PostgreSQL keeps such locks apart from those with one key.
const LOCK: &str = "SELECT pg_try_advisory_lock(1936880241, $1)";

/// Selects databases with such a name. The backslash makes `_` literal.
const NAMES: &str = r"SELECT datname::text FROM pg_database WHERE datname LIKE 'scratch\_%'";

/// The number of this process.
static OWNER: LazyLock<u32> = LazyLock::new(|| Uuid::new_v4().as_fields().0);

/// The name of this process's database `number`.
pub(crate) fn name(number: usize) -> String {
    format!("{PREFIX}{:08x}_{number}", *OWNER)
}

/// Marks this process as alive on the server at `url`, and drops the databases of processes that have ended.
///
/// # Errors
///
/// The server cannot be reached. A database that cannot be dropped is left there.
pub(crate) async fn remove(url: &str) -> Result<(), String> {
    let url = url.to_owned();
    let removing = background::runtime().spawn(async move { remove_in_background(&url).await });
    let outcome = removing.await.map_err(|error| error.to_string())?;
    outcome.map_err(|cause| format!("cannot look for databases of earlier tests: {}", chain(cause.as_ref())))
}

async fn remove_in_background(url: &str) -> Result<(), Cause> {
    /// Holds the lock for as long as the process lives.
    static ALIVE: OnceCell<Client> = OnceCell::const_new();
    let alive = ALIVE
        .get_or_try_init(|| async {
            let client = connection::connect(url).await?;
            is_free(&client, *OWNER).await?;
            Ok::<_, Cause>(client)
        })
        .await?;
    // Its locks are released when it is dropped.
    let client = connection::connect(url).await?;
    for row in alive.query(NAMES, &[]).await? {
        let name: &str = row.try_get(0)?;
        let Some(owner) = owner(name) else { continue };
        if owner != *OWNER && is_free(&client, owner).await? {
            let _ = test_database::drop_by_name(&client, name).await;
        }
    }
    Ok(())
}

/// Takes the lock of `owner` if it is free.
async fn is_free(client: &Client, owner: u32) -> Result<bool, Cause> {
    Ok(client.query_one(LOCK, &[&owner.cast_signed()]).await?.try_get(0)?)
}

/// The owner in a database's name; `None` if [`name`] did not make the name.
fn owner(name: &str) -> Option<u32> {
    let (owner, number) = name.strip_prefix(PREFIX)?.split_once('_')?;
    number.parse::<usize>().ok()?;
    (owner.len() == 8).then(|| u32::from_str_radix(owner, 16).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Server, Source, skip};

    #[test]
    fn recognises_its_own_names_only() {
        assert_eq!(owner(&name(7)), Some(*OWNER));
        for other in ["scratch_pad", "scratch_0000000a", "scratch_0000000a_x", "scratch_a_1", "app_0000000a_1"] {
            assert_eq!(owner(other), None, "{other}");
        }
    }

    #[tokio::test]
    async fn drops_the_databases_of_processes_that_ended_and_of_no_others() {
        let Ok(server) = Server::start(&[Source::Installed]).await else {
            return skip("installed-postgres", "no server to leave something on");
        };
        let client = connection::connect(server.url()).await.expect("it answers");
        let alive = OWNER.wrapping_add(1);
        assert!(is_free(&client, alive).await.expect("an answer"));
        let of_ended = format!("{PREFIX}{:08x}_1", OWNER.wrapping_add(2));
        let kept = [name(1), format!("{PREFIX}{alive:08x}_1"), format!("{PREFIX}pad")];
        for name in kept.iter().chain([&of_ended]) {
            client.batch_execute(&format!("CREATE DATABASE {name}")).await.expect("a database");
        }

        remove(server.url()).await.expect("the server answers");

        let rows = client.query(NAMES, &[]).await.expect("an answer");
        let mut left: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        left.sort();
        let mut kept = kept.to_vec();
        kept.sort();
        assert_eq!(left, kept);
    }
}
