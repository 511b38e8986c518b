//! The resident memory of calls in flight, in a server with a process of its own: this binary, started again.

use std::{
    net::{Ipv4Addr, SocketAddr},
    process::Stdio,
    time::Duration,
};

use clap::ValueEnum;
use procfs::process::Process;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, stdin, stdout},
    process::{Child, Command},
    task::JoinSet,
    time::{sleep, timeout},
};
use tonic_idempotency::store::MemoryStore;

use super::{
    echo::{Saying, bare, connect, message, proto::HeldRequest, serve, wrapped},
    heap::CALLS,
    way::Way,
};
use crate::{Error, context::Context};

const ROUNDS: usize = 5;

/// The calls that share a connection, well below its limit of HTTP/2 streams.
const CALLS_PER_CONNECTION: usize = 100;

/// More time than a server needs to start, or calls to arrive.
const PATIENCE: Duration = Duration::from_secs(30);

/// The service of the child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServerKind {
    Bare,
    Wrapped,
}

/// Writes its port to standard output, and serves until standard input ends.
pub(crate) async fn serve_until_input_ends(kind: ServerKind) -> Result<(), Error> {
    let handler = Saying::default();
    let address = match kind {
        ServerKind::Bare => serve(bare(&handler)).await?,
        ServerKind::Wrapped => serve(wrapped(&handler, MemoryStore::new())?).await?,
    };
    let mut output = stdout();
    output.write_all(format!("{}\n", address.port()).as_bytes()).await?;
    output.flush().await?;
    stdin().read_to_end(&mut Vec::new()).await?;
    Ok(())
}

/// Measures the memory of a call while its handler runs, in bytes, round by round: bare, and with a key.
pub(super) async fn while_handlers_run(context: &Context) -> Result<[Vec<f64>; 2], Error> {
    let mut rounds: [Vec<f64>; 2] = Default::default();
    for _ in 0..context.rounds(ROUNDS) {
        for (kind, way, figures) in [(ServerKind::Bare, Way::Bare, 0), (ServerKind::Wrapped, Way::First, 1)] {
            rounds[figures].push(bytes_per_call(kind, way, context.count(CALLS)).await?);
        }
    }
    Ok(rounds)
}

/// Returns the growth of a server with each call in flight, in bytes.
async fn bytes_per_call(kind: ServerKind, way: Way, calls: usize) -> Result<f64, Error> {
    let kind = kind.to_possible_value().ok_or("a server of a known kind")?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--layer-server", kind.get_name()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let mut port = String::new();
    let output = child.stdout.take().ok_or("the server's output is a pipe")?;
    timeout(PATIENCE, BufReader::new(output).read_line(&mut port)).await??;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.trim().parse()?));

    let mut clients = Vec::new();
    for _ in 0..calls.div_ceil(CALLS_PER_CONNECTION) {
        let mut client = connect(address).await?;
        for _ in 0..10 {
            client.say(message(way.key())?).await?;
        }
        clients.push(client);
    }
    let before = resident(&child)?;
    let mut held = JoinSet::new();
    for call in 0..calls {
        let (mut client, mut request) = (clients[call / CALLS_PER_CONNECTION].clone(), message(way.key())?);
        request.get_mut().hold = true;
        held.spawn(async move { client.say(request).await });
    }
    let all_held = async {
        while clients[0].held(HeldRequest {}).await?.get_ref().calls < calls as u64 {
            sleep(Duration::from_millis(5)).await;
        }
        Ok::<_, Error>(())
    };
    timeout(PATIENCE, all_held).await??;
    let after = resident(&child)?;
    child.kill().await?;
    Ok((after - before) / calls as f64)
}

/// Returns the resident memory of a process, in bytes.
fn resident(process: &Child) -> Result<f64, Error> {
    let pid = process.id().ok_or("the server has ended")?;
    let rollup = Process::new(pid.try_into()?)?.smaps_rollup()?;
    let bytes = rollup.memory_map_rollup.iter().find_map(|map| map.extension.map.get("Rss"));
    Ok(*bytes.ok_or("the system does not report the memory of processes")? as f64)
}
