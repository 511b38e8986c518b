//! Machines, and the processes that run on them: [`Host`], [`Process`].
//!
//! A process is killed by cutting it off, not by dropping its tasks: what a destructor does must not get out, as with `kill -9`. Whatever
//! leads out of a process passes its [gate](Process::gate), which never opens again. Its tasks stay, and wait there until the world ends.

use std::{
    fmt,
    future::pending,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use super::{Signal, World};

/// A machine, whose network and disk outlast its processes.
#[derive(Clone, Debug)]
pub struct Host(Arc<Machine>);

#[derive(Debug)]
struct Machine {
    world: World,
    name: String,
    processes: AtomicU32,
    running: Mutex<Option<Process>>,
}

impl Host {
    /// Makes a machine without a process.
    pub fn new(world: &World, name: impl Into<String>) -> Self {
        let (processes, running) = (AtomicU32::new(0), Mutex::new(None));
        Self(Arc::new(Machine { world: world.clone(), name: name.into(), processes, running }))
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Starts a process; one that still runs is killed.
    pub fn start(&self) -> Process {
        self.kill();
        let number = self.0.processes.fetch_add(1, Ordering::Relaxed) + 1;
        let state = Signal::new(State::default());
        let process = Process(Arc::new(Running { host: self.clone(), number, state }));
        *self.lock() = Some(process.clone());
        self.0.world.tell(format_args!("{}", self.name()), format_args!("starts process {number}"));
        process
    }

    /// Returns the process, if one runs.
    pub fn process(&self) -> Option<Process> {
        self.lock().clone().filter(Process::is_alive)
    }

    /// Kills the process, as `kill -9` does. Returns whether one ran.
    pub fn kill(&self) -> bool {
        let process = self.process();
        process.inspect(Process::kill).is_some()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Process>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    is_dead: bool,
    /// How many have paused it.
    pauses: usize,
}

/// One run of a program on a host. Clones are the same process.
#[derive(Clone)]
pub struct Process(Arc<Running>);

struct Running {
    host: Host,
    number: u32,
    state: Signal<State>,
}

impl Process {
    /// Returns the host that it runs on.
    pub fn host(&self) -> &Host {
        &self.0.host
    }

    /// Returns whether this is the same process.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns whether it was not killed.
    pub fn is_alive(&self) -> bool {
        !self.0.state.get().is_dead
    }

    /// Kills it, as `kill -9` does.
    pub fn kill(&self) {
        self.change("is killed", |state| {
            state.is_dead = true;
            true
        });
    }

    /// Stops it, as SIGSTOP does, until it is [resumed](Self::resume) as often. Nothing gets in or out meanwhile; what needs neither goes on.
    pub fn pause(&self) {
        self.change("is paused", |state| {
            state.pauses += 1;
            state.pauses == 1
        });
    }

    /// Lets it go on, as SIGCONT does.
    pub fn resume(&self) {
        self.change("goes on", |state| {
            state.pauses = state.pauses.saturating_sub(1);
            state.pauses == 0
        });
    }

    /// Returns once the process runs; never if it is dead. Passed before and after whatever leads out of it.
    pub async fn gate(&self) {
        if self.0.state.until(|state| state.is_dead || state.pauses == 0).await.is_dead {
            pending::<()>().await;
        }
    }

    /// Returns when the process is killed.
    pub async fn killed(&self) {
        self.0.state.until(|state| state.is_dead).await;
    }

    fn change(&self, event: &str, change: impl FnOnce(&mut State) -> bool) {
        if self.0.state.change(|state| !state.is_dead && change(state)) {
            self.0.host.0.world.tell(format_args!("{}", self.host().name()), format_args!("{event}"));
        }
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}#{}", self.host().name(), self.0.number)
    }
}
