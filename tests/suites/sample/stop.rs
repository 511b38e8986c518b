//! The ways to stop the sample.

use std::{
    env,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use organization::proto::{
    CreateProjectRequest, CreateProjectResponse, ListProjectsRequest, project_service_client::ProjectServiceClient,
};
use tokio::task::JoinHandle;
use tokio_postgres::NoTls;
use tonic::{
    Code, Request, Response, Status,
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient};
use uuid::Uuid;

use super::{
    eventually::eventually,
    process::{Process, Ready},
    subject::NEVER,
};

/// The private server that the sample started from installed binaries.
#[derive(Debug)]
struct PrivateServer {
    directory: PathBuf,
    pid: String,
    url: String,
}

impl PrivateServer {
    /// `None` if there are no installed binaries, so that the server runs in a container.
    async fn of(ready: &Ready) -> Option<Self> {
        let (client, connection) = tokio_postgres::connect(&ready.database_url, NoTls).await.expect("a connection");
        tokio::spawn(connection);
        let select = "SELECT current_setting('data_directory'), split_part(pg_read_file('postmaster.pid'), E'\\n', 1)";
        let row = client.query_one(select, &[]).await.expect("the server's directory and process");
        let (directory, pid): (String, String) = (row.get(0), row.get(1));
        let server = Self { directory: directory.into(), pid, url: ready.database_url.clone() };
        if !server.directory.exists() {
            scratch_postgres::skip("installed-postgres", "the sample found no installed binaries and used a container");
            return None;
        }
        assert!(server.runs(), "{server:?}");
        Some(server)
    }

    fn runs(&self) -> bool {
        Command::new("kill").args(["-0", &self.pid]).output().expect("kill runs").status.success()
    }

    async fn assert_gone(&self) {
        assert!(!self.directory.exists(), "{} is still there", self.directory.display());
        let parent = self.directory.parent().unwrap_or(Path::new("/"));
        assert!(parent == env::temp_dir() || !parent.exists(), "{} is still there", parent.display());
        assert!(!self.runs(), "process {} is still there", self.pid);
        assert!(tokio_postgres::connect(&self.url, NoTls).await.is_err(), "the server still answers");
    }
}

async fn start_private(flags: &[&str]) -> Option<(Process, Ready, PrivateServer)> {
    let mut process = Process::spawn(None, &[&["--listen", "127.0.0.1:0"], flags].concat());
    let ready = process.ready().await;
    let server = PrivateServer::of(&ready).await?;
    Some((process, ready, server))
}

#[tokio::test]
async fn ctrl_c_and_sigterm_leave_nothing_behind() {
    for signal in ["INT", "TERM"] {
        let Some((mut process, _, server)) = start_private(&[]).await else { return };
        assert!(process.ready_file().exists());
        process.signal(signal);
        assert!(process.ended().await.success(), "{signal}");
        server.assert_gone().await;
        assert!(!process.ready_file().exists(), "{signal}");
    }
}

#[tokio::test]
async fn a_second_ctrl_c_does_not_wait_for_a_call_and_leaves_nothing_behind() {
    let Some((mut process, ready, server)) = start_private(&["--handler-delay", NEVER]).await else { return };
    let call = running(ready, &server).await;

    process.signal("INT");
    eventually("the first Ctrl-C is noticed", || async { process.stderr().contains("shutting down").then_some(()) })
        .await;
    process.signal("INT");
    assert!(process.ended().await.success());
    server.assert_gone().await;
    assert!(!process.ready_file().exists());
    assert!(call.await.expect("the call ends").is_err());
}

#[tokio::test]
async fn ctrl_c_waits_for_a_call() {
    let Some((mut process, ready, server)) = start_private(&["--handler-delay", "2s"]).await else { return };
    let call = running(ready, &server).await;

    process.signal("INT");
    call.await.expect("the call ends").expect("the call succeeds");
    assert!(process.ended().await.success());
    server.assert_gone().await;
}

/// A probe hears that it stops, also by a stream that is open, which does not keep the sample from ending.
#[tokio::test]
async fn says_at_the_first_signal_that_it_does_not_serve() {
    let Some((mut process, ready, server)) = start_private(&["--handler-delay", NEVER]).await else { return };
    let channel = channel(&ready).connect().await.expect("a connection");
    let request = HealthCheckRequest { service: "organization.v1.ProjectService".to_owned() };
    let mut watched = HealthClient::new(channel).watch(request).await.expect("a stream").into_inner();
    let mut next = async || watched.message().await.expect("an answer").map(|answer| answer.status());
    assert_eq!(next().await, Some(ServingStatus::Serving));
    let call = running(ready, &server).await;

    process.signal("TERM");
    assert_eq!([next().await, next().await], [Some(ServingStatus::NotServing), None]);
    process.signal("TERM");
    assert!(process.ended().await.success());
    assert!(call.await.expect("the call ends").is_err());
    server.assert_gone().await;
}

#[tokio::test]
async fn an_open_watch_does_not_delay_the_end() {
    let Some((mut process, ready, server)) = start_private(&[]).await else { return };
    let channel = channel(&ready).connect().await.expect("a connection");
    let watched = HealthClient::new(channel).watch(HealthCheckRequest::default()).await.expect("a stream");
    let begin = Instant::now();
    process.signal("TERM");
    assert!(process.ended().await.success());
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    server.assert_gone().await;
    drop(watched);
}

#[tokio::test]
async fn ctrl_c_does_not_wait_for_an_idle_client() {
    let Some((mut process, ready, server)) = start_private(&[]).await else { return };
    let mut client = ProjectServiceClient::new(channel(&ready).connect().await.expect("a connection"));
    let refused = client.list_projects(ListProjectsRequest {}).await.expect_err("no token");
    assert_eq!(refused.code(), Code::Unauthenticated);

    let begin = Instant::now();
    process.signal("INT");
    assert!(process.ended().await.success());
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    server.assert_gone().await;
    drop(client);
}

#[tokio::test]
async fn ctrl_c_while_it_starts_leaves_nothing_behind() {
    let temporary = env::temp_dir().join(format!("organization-{}", Uuid::new_v4()));
    fs::create_dir(&temporary).expect("a directory");
    // As root, the private server runs as another user.
    fs::set_permissions(&temporary, Permissions::from_mode(0o777)).expect("a directory for everybody");
    let entries = || fs::read_dir(&temporary).expect("the directory").count();

    let variables = [("TMPDIR", temporary.as_os_str())];
    let mut process = Process::spawn_with(None, &["--listen", "127.0.0.1:0"], &variables);
    eventually("a private server begins, or the sample serves on another", || {
        let begun = entries() > 0 || process.ready_file().exists();
        async move { begun.then_some(()) }
    })
    .await;
    process.signal("INT");
    assert!(process.ended().await.success());
    assert!(!process.ready_file().exists());
    eventually("all of it is removed", || async { (entries() == 0).then_some(()) }).await;
    fs::remove_dir(&temporary).expect("an empty directory");
}

#[tokio::test]
async fn reports_an_address_in_use_and_what_to_do() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("an address");
    let address = taken.local_addr().expect("an address").to_string();
    let mut process = Process::spawn(None, &["--listen", &address]);
    assert_eq!(process.ended().await.code(), Some(1));
    let stderr = process.stderr();
    assert!(stderr.contains(&address) && stderr.contains("--listen"), "{stderr}");
}

#[tokio::test]
async fn reports_an_unreachable_database_url_and_tries_no_other_server() {
    let mut process = Process::spawn(Some("postgres://nobody@127.0.0.1:1/nothing"), &["--listen", "127.0.0.1:0"]);
    assert_eq!(process.ended().await.code(), Some(1));
    let stderr = process.stderr();
    assert!(stderr.contains("127.0.0.1:1") && stderr.contains("DATABASE_URL"), "{stderr}");
}

fn channel(ready: &Ready) -> Endpoint {
    Channel::from_shared(format!("http://{}", ready.address)).expect("an address")
}

/// Begins a call, and waits until its handler runs.
async fn running(ready: Ready, server: &PrivateServer) -> JoinHandle<Result<Response<CreateProjectResponse>, Status>> {
    let call = tokio::spawn(async move {
        let mut client = ProjectServiceClient::new(channel(&ready).connect().await.expect("a connection"));
        let (cluster_id, name) = (ready.cluster_id.to_string(), "shop".to_owned());
        let mut request = Request::new(CreateProjectRequest { cluster_id, name, ..Default::default() });
        let bearer = format!("Bearer {}", ready.tokens.alice).parse().expect("a header");
        request.metadata_mut().insert("authorization", bearer);
        client.create_project(request).await
    });
    let (client, connection) = tokio_postgres::connect(&server.url, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    eventually("the call runs", || async {
        let select = "SELECT FROM pg_stat_activity WHERE state = 'idle in transaction'";
        client.query_opt(select, &[]).await.expect("a look at the connections").map(drop)
    })
    .await;
    call
}
