//! Servers in containers.

use std::{env, fmt, time::Duration};

use testcontainers_modules::{
    postgres::Postgres,
    testcontainers::{
        ContainerAsync, ContainerRequest, ImageExt, core::error::TestcontainersError, runners::AsyncRunner,
    },
};
use tokio::{task, time};
use uuid::Uuid;

use crate::{
    background, connection,
    error::{Cause, chain},
    server::Started,
    settings::{self, Durability},
    supervisor::Supervisor,
};

/// The image that is used unless [`IMAGE_VARIABLE`] names another.
const IMAGE: &str = "postgres:17-alpine";

/// Names the image, `name:tag`.
const IMAGE_VARIABLE: &str = "IDEMPOTENCY_TEST_POSTGRES_IMAGE";

/// How long everything may take: the start and, where the image is not there yet, pulling it.
const PATIENCE: Duration = Duration::from_secs(300);

/// How long the start may take once the image is there.
const START: Duration = Duration::from_secs(60);

/// Removes the container when this process cannot; see there.
const SCRIPT: &str = include_str!("container.sh");

/// What the script removes it with: any of these.
const REMOVERS: [&str; 3] = ["docker", "podman", "curl"];

/// A running container, which this process removes, or the supervisor when this process ends without doing so.
pub(crate) struct Container {
    container: ContainerAsync<Postgres>,
    supervisor: Supervisor,
}

impl Container {
    /// Removes the container, and blocks the thread until it is gone. Not for a runtime's own threads.
    pub(crate) fn end(self) {
        let Self { container, mut supervisor } = self;
        let removed = background::runtime().block_on(container.rm());
        if removed.is_ok() {
            // Else the supervisor tries it another way.
            let _ = supervisor.tell("gone");
        }
        supervisor.end();
    }

    /// Waits until the server answers from outside of its container: its URL and version.
    async fn answers(&self, password: &str) -> Result<(String, String), Cause> {
        let host = match self.container.get_host().await?.to_string() {
            // The port is mapped for IPv4; the name may lead to IPv6 first.
            host if host == "localhost" => "127.0.0.1".to_owned(),
            host => host,
        };
        let port = self.container.get_host_port_ipv4(5432).await?;
        let url = format!("postgres://postgres:{password}@{host}:{port}/postgres");
        let version = connection::answers(&url, START, || false).await?;
        Ok((url, version))
    }
}

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Container").field("id", &self.container.id()).finish_non_exhaustive()
    }
}

/// Starts a server in a container that is removed with [`Container::end`].
///
/// # Errors
///
/// No engine answers, the image cannot be had, or the server does not answer within 60 s.
pub(crate) async fn start(durability: Durability) -> Result<Started<Container>, Cause> {
    let image = env::var(IMAGE_VARIABLE).unwrap_or_else(|_| IMAGE.to_owned());
    let name = format!("scratch-postgres-{}", Uuid::new_v4().simple());
    let password = Uuid::new_v4().simple().to_string();

    // First, so that there is no moment in which nobody would remove the container.
    let mut supervisor = Supervisor::spawn(SCRIPT, [&name], None)?;
    let starting = time::timeout(PATIENCE, request(&image, &name, &password, durability).start()).await;
    let outcome = match starting {
        Ok(outcome) => outcome.map_err(|error| why(&error, &image)),
        Err(_) => Err(format!("{image} did not start within {PATIENCE:?}; pull it beforehand").into()),
    };
    let container = match outcome {
        Ok(container) => container,
        Err(cause) => {
            // Nothing was made, or it is removed already, or the supervisor removes it later; no need to wait for that.
            std::thread::spawn(|| supervisor.end());
            return Err(cause);
        }
    };
    // If the supervisor is gone, so is one of several ways to remove the container.
    let _ = supervisor.tell("started");
    let container = Container { container, supervisor };
    match container.answers(&password).await {
        Ok((url, version)) => {
            let origin = format!("in a container of {image}, private");
            let removal = if REMOVERS.into_iter().any(is_on_path) {
                "removed at exit"
            } else {
                "removed when stopped, but not at exit for the want of a docker command"
            };
            Ok(Started { keeper: container, origin, removal, url, version })
        }
        Err(cause) => {
            let _ = task::spawn_blocking(|| container.end()).await;
            Err(cause)
        }
    }
}

fn request(image: &str, name: &str, password: &str, durability: Durability) -> ContainerRequest<Postgres> {
    let (image, tag) = name_and_tag(image);
    Postgres::default()
        .with_password(password)
        .with_name(image)
        .with_tag(tag)
        .with_container_name(name)
        .with_cmd(settings::arguments(durability))
        .with_startup_timeout(START)
}

/// Splits `registry:5000/name:tag`; without a tag it is `latest`.
fn name_and_tag(image: &str) -> (&str, &str) {
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (image, "latest"),
    }
}

fn is_on_path(program: &str) -> bool {
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|directory| directory.join(program).is_file()))
}

/// What went wrong, for somebody who may not know which engine was asked.
fn why(error: &TestcontainersError, image: &str) -> Cause {
    format!("{image} does not start: {}", chain(error)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_the_image_at_its_tag() {
        for (image, expected) in [
            ("postgres:17-alpine", ("postgres", "17-alpine")),
            ("postgres", ("postgres", "latest")),
            ("registry:5000/postgres", ("registry:5000/postgres", "latest")),
            ("registry:5000/postgres:15", ("registry:5000/postgres", "15")),
        ] {
            assert_eq!(name_and_tag(image), expected, "{image}");
        }
    }
}
