//! The connections of a process: [`Pool`].

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicUsize},
    time::Duration,
};

use tokio::{
    select,
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tonic_idempotency::store::driver::{AcquireError, AcquireErrorKind};

use super::{
    server::{Database, Login},
    session::Session,
    wire::Wire,
};
use crate::world::{Cut, Link, Process, Signal};

/// How long a task waits for a free connection, and for a new one.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// The pool of one process. Clones share it.
#[derive(Clone)]
pub struct Pool(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub(super) database: Database,
    pub(super) process: Process,
    pub(super) link: Link,
    pub(super) max_connections: usize,
    sends_together: bool,
    pub(super) places: Arc<Semaphore>,
    /// The one that was used last comes last.
    idle: Mutex<Vec<Wire>>,
    /// How many tasks wait for a connection that is being made.
    pub(super) connecting: AtomicUsize,
}

impl Database {
    /// Makes the pool of a process.
    pub fn pool(&self, process: &Process, link: Link, connections: usize) -> Pool {
        Pool::new(self.clone(), process.clone(), link, connections)
    }
}

impl Pool {
    fn new(database: Database, process: Process, link: Link, max_connections: usize) -> Self {
        Self(Arc::new(Shared {
            database,
            process,
            link,
            max_connections,
            sends_together: true,
            places: Arc::new(Semaphore::new(max_connections)),
            idle: Mutex::default(),
            connecting: AtomicUsize::new(0),
        }))
    }

    /// Returns an empty pool that sends BEGIN, what follows it, and COMMIT one after the other, as some client libraries have to. Defaults to
    /// sending them together.
    #[must_use]
    pub fn one_by_one(&self) -> Self {
        let Shared { database, process, link, max_connections, .. } = &*self.0;
        let Self(shared) = Self::new(database.clone(), process.clone(), link.clone(), *max_connections);
        let shared = Arc::into_inner(shared).expect("it is new");
        Self(Arc::new(Shared { sends_together: false, ..shared }))
    }

    /// Returns how many connections are in use.
    pub fn in_use(&self) -> usize {
        self.0.max_connections - self.0.places.available_permits()
    }

    pub(super) fn database(&self) -> &Database {
        &self.0.database
    }

    pub(super) fn process(&self) -> &Process {
        &self.0.process
    }

    pub(super) fn link(&self) -> &Link {
        &self.0.link
    }

    pub(super) fn sends_together(&self) -> bool {
        self.0.sends_together
    }

    pub(super) async fn connect_wire(&self) -> Result<Wire, AcquireError> {
        let cut = self.0.link.next_cut();
        let connecting = async {
            self.0.process.gate().await;
            let logged_in = self.logged_in().await;
            self.0.process.gate().await;
            logged_in
        };
        select! {
            biased;
            connected = timeout(PATIENCE, connecting) => match connected {
                Ok(wire) => wire,
                Err(_) => Err(unreachable("the server does not answer")),
            },
            () = cut => Err(was_cut(Cut)),
        }
    }

    async fn logged_in(&self) -> Result<Wire, AcquireError> {
        let Shared { database, process, link, .. } = &*self.0;
        link.carry().await.map_err(was_cut)?;
        let cut = link.next_cut();
        let made = match database.log_in(process) {
            Login::Session(number) => {
                let (requests, receiver) = mpsc::unbounded_channel();
                let ended = Arc::new(Signal::new(None));
                let watched = Arc::clone(&ended);
                let (database, process, link) = (database.clone(), process.clone(), link.clone());
                let session = Session { number, database, process, link, requests: receiver, ended };
                tokio::spawn(session.live(cut));
                Ok(Wire::new(number, requests, watched))
            }
            Login::Refused(code) => {
                Err(AcquireError::new(AcquireErrorKind::Login(code.to_owned()), "the login was refused"))
            }
            Login::Unreachable => Err(unreachable("connection refused")),
        };
        link.carry().await.map_err(was_cut)?;
        made
    }

    pub(super) fn idle(&self) -> MutexGuard<'_, Vec<Wire>> {
        self.0.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn give_back(&self, wire: Wire) {
        if !wire.has_ended() {
            if wire.is_quiet() {
                self.0.database.lock().look_at_returned(wire.session, &self.0.process);
            }
            self.idle().push(wire);
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("process", &self.0.process)
            .field("max_connections", &self.0.max_connections)
            .field("in_use", &self.in_use())
            .finish_non_exhaustive()
    }
}

fn was_cut(_: Cut) -> AcquireError {
    unreachable("the connection was cut")
}

fn unreachable(why: &'static str) -> AcquireError {
    AcquireError::new(AcquireErrorKind::Unreachable, why)
}
