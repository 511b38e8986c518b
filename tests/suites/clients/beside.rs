//! A server in Go beside the sample, on one table: its interceptor is the one of the founding design.

use std::{net::SocketAddr, process::Stdio};

use futures_util::future::join_all;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, ChildStdin, Command},
    sync::watch,
};
use uuid::Uuid;

use crate::{
    call::{Call, Reply},
    clients::go_program,
    protocol::Protocol,
    sample::Sample,
    tonic_client::TonicClient,
};

/// The codes of a call whose key another call has, and of one beyond the calls that a caller may have at once.
const LATER: [u64; 2] = [10, 8];

/// The role of the sample's API.
const ROLE: &str = "organization_api";

const KEYS: usize = 20;

/// The calls with one key at each server.
const CALLS: usize = 10;

/// The server, until it is dropped.
struct GoServer {
    address: SocketAddr,
    _process: Child,
    /// Ends the server when it is closed.
    _input: ChildStdin,
}

impl GoServer {
    /// `None` if Go is not installed.
    async fn start(sample: &Sample) -> Option<Self> {
        let mut command = Command::new(go_program("server").await?);
        command.arg(sample.descriptors.path()).arg(sample.database_url()).arg(ROLE);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = command.spawn().expect("it starts");
        let mut lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        let line = lines.next_line().await.expect("its output").expect("its address");
        let input = process.stdin.take().expect("its input");
        Some(Self { address: line.parse().expect("an address"), _process: process, _input: input })
    }
}

/// Calls again while the call is told to come later, whenever another call has settled.
async fn settled(server: &TonicClient, call: &Call, settled: &watch::Sender<usize>) -> Reply {
    let mut others = settled.subscribe();
    loop {
        others.borrow_and_update();
        let reply = server.call(Protocol::Grpc, call).await.expect("an answer");
        match reply.code {
            0 => {
                settled.send_modify(|count| *count += 1);
                return reply;
            }
            code if LATER.contains(&code) => others.changed().await.expect("it is not closed"),
            _ => panic!("{reply:?}"),
        }
    }
}

#[tokio::test]
async fn a_server_in_go_and_the_sample_replay_each_others_calls() {
    let sample = &Sample::start().await;
    let Some(go) = GoServer::start(sample).await else { return };
    let servers = &[sample.ready.address, go.address].map(|at| TonicClient::new(at, sample.descriptors.pool.clone()));
    let count = &watch::Sender::new(0);
    let keys = (0..KEYS).map(|number| async move {
        let name = format!("shop {number}");
        let call = &sample.create_project(sample.ready.cluster_id, &name).key(Uuid::new_v4());
        // The first call comes to one server alone, or with all others at once.
        if let Some(first) = servers.get(number % 3) {
            settled(first, call, count).await;
        }
        let calls = (0..2 * CALLS).map(|number| settled(&servers[number % 2], call, count));
        let replies = join_all(calls).await;
        assert!(replies.iter().all(|reply| reply.body == replies[0].body), "{name}: {replies:?}");
        let statuses = replies.iter().map(|reply| reply.header("idempotency-status"));
        assert!(statuses.into_iter().all(|status| status == Some("processing")), "{name}: {replies:?}");
        assert_eq!(sample.projects(&name).await, 1, "{name}");
    });
    join_all(keys).await;
}
