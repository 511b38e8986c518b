//! The driver: [`Pool`].

use std::{
    error::Error,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{
    select,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::timeout,
};
use tonic_idempotency::store::driver::{
    AcquireError, AcquireErrorKind, ConnectionPool, Driver, DriverError, Exclusive,
};

use super::{
    connection::{Connection, Wire},
    server::{Database, Login},
    session::Session,
    statement::Action,
};
use crate::world::{Cut, Link, Process, Signal};

/// How long a task waits for a free connection, and for a new one.
const PATIENCE: Duration = Duration::from_secs(5);

/// The pool of one process. Clones share it.
#[derive(Clone)]
pub struct Pool(Arc<Shared>);

struct Shared {
    database: Database,
    process: Process,
    link: Link,
    max_connections: usize,
    sends_together: bool,
    places: Arc<Semaphore>,
    /// The one that was used last comes last.
    idle: Mutex<Vec<Wire>>,
    /// How many tasks wait for a connection that is being made.
    connecting: AtomicUsize,
}

impl Pool {
    pub(super) fn new(database: Database, process: Process, link: Link, max_connections: usize) -> Self {
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

    /// Makes a connection that does not belong to the pool.
    pub(super) async fn connect(&self) -> Result<Connection, AcquireError> {
        Ok(Connection::new(self.clone(), self.connect_wire().await?, None))
    }

    async fn connect_wire(&self) -> Result<Wire, AcquireError> {
        let unreachable = |why: &'static str| AcquireError::new(AcquireErrorKind::Unreachable, why);
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
                Ok(Ok(wire)) => wire,
                Ok(Err(Cut)) => Err(unreachable("the connection was cut")),
                Err(_) => Err(unreachable("the server does not answer")),
            },
            () = cut => Err(unreachable("the connection was cut")),
        }
    }

    async fn logged_in(&self) -> Result<Result<Wire, AcquireError>, Cut> {
        let Shared { database, process, link, .. } = &*self.0;
        link.carry().await?;
        let cut = link.next_cut();
        let made = match database.log_in() {
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
            Login::Unreachable => Err(AcquireError::new(AcquireErrorKind::Unreachable, "connection refused")),
        };
        link.carry().await?;
        Ok(made)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Wire>> {
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

impl Driver for Pool {
    type Session = Exclusive<Self>;

    fn is_conflict(error: &(dyn Error + 'static)) -> bool {
        error.downcast_ref().is_some_and(DriverError::is_worth_another_run)
    }
}

impl ConnectionPool for Pool {
    type Connection = Connection;

    async fn acquire(&self) -> Result<Connection, AcquireError> {
        self.0.process.gate().await;
        let places = Arc::clone(&self.0.places);
        let place: OwnedSemaphorePermit = match timeout(PATIENCE, places.acquire_owned()).await {
            Ok(place) => place.expect("never closed"),
            Err(elapsed) => return Err(AcquireError::new(AcquireErrorKind::NoneFree, elapsed)),
        };
        loop {
            let Some(wire) = self.idle().pop() else { break };
            if !wire.has_ended() {
                return Ok(Connection::new(self.clone(), wire, Some(place)));
            }
        }
        let connecting = Connecting::new(&self.0);
        let wire = self.connect_wire().await?;
        drop(connecting);
        Ok(Connection::new(self.clone(), wire, Some(place)))
    }

    fn max_connections(&self) -> usize {
        self.0.max_connections
    }

    fn has_idle(&self) -> bool {
        !self.idle().is_empty()
    }

    fn is_exhausted(&self) -> bool {
        self.0.places.available_permits() == 0 && self.0.connecting.load(Ordering::Relaxed) == 0
    }

    async fn ask_apart(&self, begin: &str, sql: &str) -> Result<String, DriverError> {
        let age = Action::age(begin, sql);
        let _connection = self.connect().await.map_err(DriverError::lost)?;
        // BEGIN, the question, ROLLBACK.
        for _ in 0..2 {
            self.cross().await?;
        }
        let running = self.0.database.running(age);
        self.cross().await?;
        self.0.process.gate().await;
        Ok(running.to_string())
    }

    fn distrust(&self, since: Instant) -> usize {
        let mut idle = self.idle();
        let before = idle.len();
        idle.retain(|wire| wire.used >= since);
        before - idle.len()
    }

    fn forget_if_stale(&self, error: &DriverError) -> bool {
        error.is_stale()
    }
}

impl Pool {
    async fn cross(&self) -> Result<(), DriverError> {
        self.0.link.carry().await.map_err(|Cut| DriverError::lost("the connection was cut"))
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

/// Counts a task that waits for a connection to be made.
struct Connecting<'a>(&'a Shared);

impl<'a> Connecting<'a> {
    fn new(pool: &'a Shared) -> Self {
        pool.connecting.fetch_add(1, Ordering::Relaxed);
        Self(pool)
    }
}

impl Drop for Connecting<'_> {
    fn drop(&mut self) {
        self.0.connecting.fetch_sub(1, Ordering::Relaxed);
    }
}
