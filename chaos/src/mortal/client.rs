//! The lives of one client.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    net::SocketAddr,
    ops::AddAssign,
    path::PathBuf,
    pin::pin,
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use clap::ValueEnum as _;
use rand::{RngExt as _, rngs::ChaCha8Rng};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::mpsc,
    time,
};

use super::step::ClientStep;
use crate::{args::Without, error::Error, journal::Journal, named::name, pace::Pace};

/// The number of operations that a client carries out at the same time.
const AT_ONCE: usize = 4;

/// The longest life of a client that is killed at a random moment.
const LIFE: Duration = Duration::from_millis(1500);

/// One client, which is started again whenever it has died.
#[derive(Debug)]
pub(super) struct Client {
    file: PathBuf,
    journal: Arc<Journal>,
    number: usize,
    numbers: mpsc::Receiver<u32>,
    rng: ChaCha8Rng,
    server: SocketAddr,
    without: Option<Without>,
    /// The operations that were handed out and have not ended, and whether they are in the journal.
    open: BTreeMap<u32, bool>,
    ends: Ends,
    is_last: bool,
}

/// The ends of a client's lives and of its operations.
#[derive(Clone, Debug, Default)]
pub(super) struct Ends {
    /// The deaths by where they happened.
    pub(super) deaths: BTreeMap<String, usize>,
    /// The operations by how they ended.
    pub(super) ended: BTreeMap<String, usize>,
    /// Entries that a new life has found.
    pub(super) found: usize,
    /// Operations that were not written before the client died, and handed out again.
    pub(super) again: usize,
    /// Clients whose journal was empty in the end.
    pub(super) empty: usize,
}

impl AddAssign for Ends {
    fn add_assign(&mut self, other: Self) {
        for (all, more) in [(&mut self.deaths, other.deaths), (&mut self.ended, other.ended)] {
            for (name, count) in more {
                *all.entry(name).or_default() += count;
            }
        }
        self.found += other.found;
        self.again += other.again;
        self.empty += other.empty;
    }
}

/// One life of a client.
struct Life {
    child: Child,
    input: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    /// The entries of the journal at its beginning.
    found: BTreeSet<u32>,
    /// Whether the journal was empty at its end.
    is_empty: bool,
    /// The step that it has reached.
    reached: Option<String>,
}

impl Client {
    pub(super) fn new(
        number: u32,
        file: PathBuf,
        server: SocketAddr,
        pace: &Arc<Pace>,
        journal: &Arc<Journal>,
        rng: ChaCha8Rng,
        without: Option<Without>,
    ) -> Self {
        // The channel keeps a number that was handed out, even if the client no longer waits for it.
        let (give, numbers) = mpsc::channel(1);
        let (pace, journal) = (Arc::clone(pace), Arc::clone(journal));
        tokio::spawn(async move {
            while let Some(number) = pace.next().await
                && give.send(number).await.is_ok()
            {}
        });
        let (open, ends) = Default::default();
        Self { file, journal, number: number as usize, numbers, rng, server, without, open, ends, is_last: false }
    }

    /// Runs one life after the other until all operations have ended.
    pub(super) async fn run(mut self) -> Result<Ends, Error> {
        let mut lives = 0;
        loop {
            let step = step_of(self.number, lives).filter(|_| !self.is_last);
            let step = step.map(|step| (step, self.rng.random_range(1..8)));
            let kill_after = (!self.is_last && step.is_none()).then(|| self.rng.random_range(Duration::ZERO..LIFE));
            lives += 1;
            let mut life = self.start(step).await?;
            if self.live(&mut life, kill_after).await? {
                self.ends.empty = usize::from(life.is_empty);
                return Ok(self.ends);
            }
            let place = life.reached.take().map_or("at a random moment".to_owned(), |step| format!("at {step}"));
            *self.ends.deaths.entry(place).or_default() += 1;
            life.child.wait().await?;
            if self.without == Some(Without::Journal) {
                fs::remove_file(&self.file)?;
            }
        }
    }

    async fn start(&self, step: Option<(ClientStep, u32)>) -> Result<Life, Error> {
        let mut command = Command::new(env::current_exe()?);
        command.arg("call").arg("--file").arg(&self.file).arg("--server").arg(self.server.to_string());
        if let Some((step, nth)) = step {
            command.args(["--die-at", &name(step), "--nth", &nth.to_string()]);
        }
        match self.without {
            Some(Without::Key) => drop(command.arg("--without-key")),
            Some(Without::Status) => drop(command.arg("--without-status")),
            Some(Without::Journal) | None => {}
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let input = child.stdin.take().ok_or("the client has no standard input")?;
        let output = child.stdout.take().ok_or("the client has no standard output")?;
        let lines = BufReader::new(output).lines();
        Ok(Life { child, input, lines, found: BTreeSet::new(), is_empty: false, reached: None })
    }

    /// Runs one life. Returns whether the client has stopped because everything has ended.
    async fn live(&mut self, life: &mut Life, kill_after: Option<Duration>) -> Result<bool, Error> {
        let mut kill = pin!(time::sleep(kill_after.unwrap_or_default()));
        let (mut is_ready, mut kill_armed, mut is_stopping) = (false, kill_after.is_some(), false);
        loop {
            if is_ready && self.is_last && self.open.is_empty() && !is_stopping {
                is_stopping = true;
                life.tell("stop").await;
            }
            tokio::select! {
                line = life.lines.next_line() => match line? {
                    Some(line) if line == "ready" => {
                        is_ready = true;
                        self.take_stock(life).await;
                    }
                    Some(line) => self.hear(life, &line),
                    None => return Ok(life.child.wait().await?.success()),
                },
                number = self.numbers.recv(), if is_ready && !self.is_last && self.open.len() < AT_ONCE => match number {
                    Some(number) => {
                        self.open.insert(number, false);
                        life.tell(&number.to_string()).await;
                    }
                    None => self.is_last = true,
                },
                () = &mut kill, if kill_armed => {
                    kill_armed = false;
                    // It may have died by itself.
                    let _ = life.child.start_kill();
                }
            }
        }
    }

    /// Compares the journal of a new life with what the last one has said.
    async fn take_stock(&mut self, life: &mut Life) {
        self.ends.found += life.found.len();
        for (number, was_written) in std::mem::take(&mut self.open) {
            if life.found.contains(&number) {
                self.open.insert(number, true);
            } else if was_written {
                // It died between the end of the entry and telling of it.
                self.count("before its client died");
            } else {
                self.ends.again += 1;
                self.open.insert(number, false);
                life.tell(&number.to_string()).await;
            }
        }
    }

    fn hear(&mut self, life: &mut Life, line: &str) {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (number, how) = rest.split_once(' ').unwrap_or((rest, ""));
        match (verb, number.parse()) {
            ("found", Ok(number)) => drop(life.found.insert(number)),
            ("written", Ok(number)) => {
                if let Some(is_written) = self.open.get_mut(&number) {
                    *is_written = true;
                }
            }
            ("ended", Ok(number)) => self.ended(number, how),
            ("left", Ok(0)) => life.is_empty = true,
            ("reached", _) => life.reached = Some(rest.to_owned()),
            _ => {}
        }
    }

    fn ended(&mut self, number: u32, how: &str) {
        // A life that died before it could strike an entry out tells of it again.
        if self.open.remove(&number).is_some() {
            self.count(how);
        }
    }

    fn count(&mut self, how: &str) {
        *self.ends.ended.entry(how.to_owned()).or_default() += 1;
        self.journal.entries().done += 1;
    }
}

/// Returns the step at which a client dies in one of its lives; `None` if that is at a random moment. The first lives end at each step
/// in turn. Each client begins with a different step, so that a short run has them all.
fn step_of(client: usize, life: usize) -> Option<ClientStep> {
    let steps = ClientStep::value_variants();
    let nth = if life < steps.len() { life } else { life.is_multiple_of(2).then_some(life / 2)? };
    Some(steps[(client + nth) % steps.len()])
}

impl Life {
    /// Sends a line. Has no effect if the client has died.
    async fn tell(&mut self, line: &str) {
        let _ = self.input.write_all(format!("{line}\n").as_bytes()).await;
    }
}
