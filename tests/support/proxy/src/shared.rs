//! The state that the connections of one proxy share.

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::{
    connection::Connection,
    cut::{ArmedCut, Direction},
};

/// The state that the connections of a proxy share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) cancellations: AtomicUsize,
    pub(crate) refusals: AtomicUsize,
    pub(crate) round_trips: AtomicUsize,
    state: Mutex<State>,
    /// Set when the proxy is dropped.
    pub(crate) stopped: AtomicBool,
    /// Wakes connections that wait for the end of a hold.
    woken: Condvar,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) armed: VecDeque<ArmedCut>,
    pub(crate) connections: Vec<Arc<Connection>>,
    /// How late answers are.
    pub(crate) delay: Duration,
    /// How often all connections were cut.
    generation: usize,
    held: bool,
    pub(crate) refusing: bool,
    /// The server to which new connections lead.
    pub(crate) server: SocketAddr,
}

/// How many of some bytes pass.
pub(crate) enum Passage {
    All,
    /// None, and nothing after them: the connection is closed.
    Closed,
    /// This many, and then the connection is cut.
    CutAfter(usize, ArmedCut),
    None,
}

impl Shared {
    pub(crate) fn new(server: SocketAddr) -> Self {
        Self {
            cancellations: AtomicUsize::new(0),
            refusals: AtomicUsize::new(0),
            round_trips: AtomicUsize::new(0),
            state: Mutex::new(State {
                armed: VecDeque::new(),
                connections: Vec::new(),
                delay: Duration::ZERO,
                generation: 0,
                held: false,
                refusing: false,
                server,
            }),
            stopped: AtomicBool::new(false),
            woken: Condvar::new(),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server to which a new connection leads.
    pub(crate) fn server(&self) -> SocketAddr {
        self.state().server
    }

    /// The generation of a connection that is accepted now; `None` if it is refused.
    pub(crate) fn admit(&self) -> Option<usize> {
        let state = self.state();
        if state.refusing {
            self.refusals.fetch_add(1, Ordering::SeqCst);
            return None;
        }
        Some(state.generation)
    }

    /// Adds a connection, unless it was cut before it had begun.
    pub(crate) fn add(&self, connection: &Arc<Connection>, generation: usize) -> bool {
        let mut state = self.state();
        let live = state.generation == generation;
        if live {
            state.connections.push(Arc::clone(connection));
        }
        live
    }

    /// Closes a connection, both ways.
    pub(crate) fn remove(&self, connection: &Arc<Connection>) {
        let mut state = self.state();
        state.connections.retain(|other| !Arc::ptr_eq(other, connection));
        connection.close();
        self.woken.notify_all();
    }

    /// Closes all connections.
    pub(crate) fn cut_connections(&self) {
        let mut state = self.state();
        state.generation += 1;
        state.connections.drain(..).for_each(|connection| connection.close());
        self.woken.notify_all();
    }

    /// Silences all connections that there are.
    pub(crate) fn silence_connections(&self) {
        self.state().connections.iter().for_each(|connection| connection.silence());
        self.woken.notify_all();
    }

    /// Closes the connections that are silent.
    pub(crate) fn cut_silent_connections(&self) {
        self.state().connections.extract_if(.., |connection| connection.is_silent()).for_each(|it| it.close());
        self.woken.notify_all();
    }

    /// Waits until a connection that is silent is cut.
    pub(crate) fn wait_while_silent(&self, connection: &Connection) {
        let waits = |_: &mut State| connection.is_silent() && !connection.is_closed();
        drop(self.woken.wait_while(self.state(), waits));
    }

    /// Holds back what is sent on the connections that there are.
    pub(crate) fn stall_connections(&self) {
        self.state().connections.iter().for_each(|connection| connection.set_stalled(true));
    }

    pub(crate) fn set_held(&self, held: bool) {
        let mut state = self.state();
        state.held = held;
        if !held {
            state.connections.iter().for_each(|connection| connection.set_stalled(false));
        }
        drop(state);
        self.woken.notify_all();
    }

    /// Waits for the end of a hold, and decides what happens to bytes that are about to go in this direction.
    pub(crate) fn passage(&self, connection: &Connection, direction: Direction, bytes: &[u8]) -> Passage {
        let is_held = |state: &State| state.held || connection.is_stalled();
        let waits = |state: &mut State| is_held(state) && !connection.is_closed() && !connection.is_silent();
        let mut state = self.woken.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner);
        if connection.is_closed() {
            return Passage::Closed;
        }
        if connection.is_silent() {
            return Passage::None;
        }
        let statements = match direction {
            Direction::Answers => Vec::new(),
            Direction::Requests => connection.statements().executed(bytes),
        };
        let mut lost_answer = connection.lost_answer();
        if lost_answer.is_some() && direction == Direction::Answers {
            // Bytes before that answer are lost, too.
            let answered = lost_answer.take_if(|armed| armed.cut.moment.is_answered_by(bytes));
            return answered.map_or(Passage::None, |armed| Passage::CutAfter(0, armed));
        }
        let next = state.armed.front_mut();
        let Some(passing) = next.and_then(|armed| armed.passing(direction, bytes, &statements)) else {
            return Passage::All;
        };
        match state.armed.pop_front() {
            Some(armed) if armed.cut.moment.is_after() => {
                *lost_answer = Some(armed);
                Passage::All
            }
            Some(armed) => Passage::CutAfter(passing, armed),
            None => Passage::All,
        }
    }
}
