//! What calls in flight hold, in memory that the system gave to a server: one in a process of its own, this binary once more.

use std::{
    net::{Ipv4Addr, SocketAddr},
    process::Stdio,
    time::Duration,
};

use clap::ValueEnum;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, stdin, stdout},
    process::{Child, Command},
    task::JoinSet,
    time::{sleep, timeout},
};
use tonic_idempotency::MemoryStore;

use super::{
    echo::{Saying, bare, connect, message, proto::HeldRequest, serve, wrapped},
    heap::CALLS,
    way::Way,
};
use crate::{Error, context::Context};

const ROUNDS: usize = 5;

/// As many calls as a connection's HTTP/2 streams allow, with room to spare.
const CALLS_PER_CONNECTION: usize = 100;

/// Longer than any server takes to start, or calls to arrive.
const PATIENCE: Duration = Duration::from_secs(30);

/// Which server the child process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServerKind {
    Bare,
    Wrapped,
}

/// Serves until standard input ends; says on standard output at which port.
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

/// What a call holds while its handler runs, in bytes, round by round: bare, and with a key. `None` where the system does not say
/// how much memory a process has.
pub(super) async fn while_handlers_run(context: &Context) -> Result<Option<[Vec<f64>; 2]>, Error> {
    let mut rounds: [Vec<f64>; 2] = Default::default();
    for _ in 0..context.rounds(ROUNDS) {
        for (kind, way, figures) in [(ServerKind::Bare, Way::Bare, 0), (ServerKind::Wrapped, Way::First, 1)] {
            match bytes_per_call(kind, way, context.count(CALLS)).await? {
                Some(bytes) => rounds[figures].push(bytes),
                None => return Ok(None),
            }
        }
    }
    Ok(Some(rounds))
}

/// How much a server grows with each of some calls.
async fn bytes_per_call(kind: ServerKind, way: Way, calls: usize) -> Result<Option<f64>, Error> {
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
    let Some(before) = resident(&child) else { return Ok(None) };
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
    let after = resident(&child).ok_or("the system says how much memory a process has")?;
    child.kill().await?;
    Ok(Some((after - before) / calls as f64))
}

/// The memory that a process has, in bytes.
fn resident(process: &Child) -> Option<f64> {
    let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", process.id()?)).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}
