//! Servers in containers.

use std::{env, fmt, time::Duration};

use testcontainers_modules::{
    postgres::Postgres,
    testcontainers::{
        ContainerAsync, ContainerRequest, ImageExt,
        core::{Mount, error::TestcontainersError},
        runners::AsyncRunner,
    },
};
use tokio::{task, time};
use uuid::Uuid;

use crate::{
    background, connection,
    error::{Cause, chain},
    memory,
    server::Started,
    settings::{self, Durability},
    supervisor::Supervisor,
};

/// The image, unless [`IMAGE_VARIABLE`] names another.
const IMAGE: &str = "postgres:17-alpine";

/// The variable with the image, `name:tag`.
const IMAGE_VARIABLE: &str = "IDEMPOTENCY_TEST_POSTGRES_IMAGE";

/// The directory for files in memory in the container. In the usual place, images have a volume on a disk.
const MEMORY: &str = "/scratch";

/// The time for the start and for pulling a missing image.
const PATIENCE: Duration = Duration::from_secs(300);

/// The time for the start once the image is there.
const START: Duration = Duration::from_secs(120);

/// Removes the container if this process cannot; described in the file.
const SCRIPT: &str = include_str!("container.sh");

/// The programs of which the script needs one to remove the container.
const REMOVERS: [&str; 3] = ["docker", "podman", "curl"];

/// A running container. This process removes it; if the process ends without doing so, the supervisor does.
pub(crate) struct Container {
    container: ContainerAsync<Postgres>,
    supervisor: Supervisor,
}

impl Container {
    /// Removes the container, and blocks the thread until it is gone. Must not run on a runtime's thread.
    pub(crate) fn end(self) {
        let Self { container, mut supervisor } = self;
        let removed = background::runtime().block_on(container.rm());
        if removed.is_ok() {
            // If the removal failed, the supervisor tries it another way.
            let _ = supervisor.tell("gone");
        }
        supervisor.end();
    }

    /// Waits until the server answers from outside its container. Returns its URL and version.
    async fn answers(&self, password: &str) -> Result<(String, String), Cause> {
        let host = match self.container.get_host().await?.to_string() {
            // The port is mapped for IPv4, and the name may resolve to IPv6 first.
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
/// No engine answers, the image is not available, or the server does not answer within 120 s.
pub(crate) async fn start(durability: Durability) -> Result<Started<Container>, Cause> {
    let image = env::var(IMAGE_VARIABLE).unwrap_or_else(|_| IMAGE.to_owned());
    let name = format!("scratch-postgres-{}", Uuid::new_v4().simple());
    let password = Uuid::new_v4().simple().to_string();

    // Starts the supervisor first, so that at every moment something can remove the container.
    let mut supervisor = Supervisor::spawn(SCRIPT, [&name], None)?;
    let starting = time::timeout(PATIENCE, request(&image, &name, &password, durability).start()).await;
    let outcome = match starting {
        Ok(outcome) => outcome.map_err(|error| why(&error, &image)),
        Err(_) => Err(format!("{image} did not start within {PATIENCE:?}; pull it beforehand").into()),
    };
    let container = match outcome {
        Ok(container) => container,
        Err(cause) => {
            // Either no container was created, or it is removed already, or the supervisor removes it later; none of
            // this needs waiting.
            std::thread::spawn(|| supervisor.end());
            return Err(cause);
        }
    };
    // If the supervisor has ended, one of several ways to remove the container is missing.
    let _ = supervisor.tell("started");
    let container = Container { container, supervisor };
    match container.answers(&password).await {
        Ok((url, version)) => {
            let origin = format!("in a container of {image}, private");
            let removal = if REMOVERS.into_iter().any(is_on_path) {
                "removed at exit"
            } else {
                "removed when stopped, but not at exit because there is no docker command"
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
    let request = Postgres::default()
        .with_password(password)
        .with_name(image)
        .with_tag(tag)
        .with_container_name(name)
        .with_cmd(settings::arguments(durability))
        .with_startup_timeout(START);
    // Of this machine's memory, which is the engine's, too, if it is not a virtual machine's or another's.
    if durability == Durability::Nothing && memory::has_room() {
        request.with_mount(Mount::tmpfs_mount(MEMORY)).with_env_var("PGDATA", format!("{MEMORY}/data"))
    } else {
        request
    }
}

/// Splits `registry:5000/name:tag`; the default tag is `latest`.
fn name_and_tag(image: &str) -> (&str, &str) {
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (image, "latest"),
    }
}

fn is_on_path(program: &str) -> bool {
    env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|directory| directory.join(program).is_file()))
}

/// The error, in terms that do not depend on the engine.
fn why(error: &TestcontainersError, image: &str) -> Cause {
    format!("{image} does not start: {}", chain(error)).into()
}
