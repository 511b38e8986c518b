//! The way between one server and the database, which can be cut and held up.

mod link;
mod pipe;

use std::{
    collections::{HashSet, VecDeque},
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use crate::schedule::{Cut, Direction, Manner, Stall};

/// A TCP proxy on the loopback interface. Dropped, it is gone with all its connections.
#[derive(Debug)]
pub(crate) struct Proxy {
    accepting: JoinHandle<()>,
    address: SocketAddr,
    road: Arc<Road>,
}

impl Proxy {
    /// A proxy in front of `upstream`, at a free port.
    ///
    /// # Errors
    ///
    /// There is no port.
    pub(crate) async fn start(upstream: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let road = Arc::new(Road::default());
        let accepting = tokio::spawn(link::accept(listener, upstream, Arc::clone(&road)));
        Ok(Self { accepting, address, road })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Arms a cut: it happens when that many bytes have passed. Those that were armed before come first.
    pub(crate) fn cut_later(&self, cut: Cut) {
        self.road.cuts().push_back(cut);
    }

    /// Forgets the cuts that have not happened.
    pub(crate) fn forget_cuts(&self) {
        self.road.cuts().clear();
    }

    /// Cuts all connections, and refuses new ones until [`mend`](Self::mend).
    pub(crate) fn part(&self) {
        self.road.state.send_modify(|state| {
            state.refusing = true;
            state.generation += 1;
        });
    }

    /// Takes connections again.
    pub(crate) fn mend(&self) {
        self.road.state.send_modify(|state| state.refusing = false);
    }

    /// Makes the connections unusable for a while.
    pub(crate) async fn stall(&self, stall: Stall) {
        let set = |late, held| {
            self.road.state.send_modify(|state| {
                state.late = late;
                state.held = held;
            });
        };
        match stall.manner {
            Manner::Held | Manner::HeldAndCut => set(Duration::ZERO, true),
            Manner::Late(late) => set(late, false),
        }
        tokio::time::sleep(stall.hold).await;
        if stall.manner == Manner::HeldAndCut {
            self.road.cut_all();
        }
        set(Duration::ZERO, false);
    }

    /// The ports that its connections have at the database.
    pub(crate) fn ports(&self) -> HashSet<u16> {
        self.road.ports().clone()
    }

    /// The cuts that have happened: whether all connections were cut, or one.
    pub(crate) fn done(&self) -> watch::Receiver<Done> {
        self.road.done.subscribe()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.road.cut_all();
    }
}

/// How many cuts have happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    pub(crate) of_all: usize,
    pub(crate) of_one: usize,
}

/// What the connections of a proxy share.
#[derive(Debug, Default)]
struct Road {
    cuts: Mutex<VecDeque<Cut>>,
    done: watch::Sender<Done>,
    ports: Mutex<HashSet<u16>>,
    state: watch::Sender<State>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// Which connections may live: those that began in it.
    generation: usize,
    /// Whether nothing passes.
    held: bool,
    /// How late answers are.
    late: Duration,
    refusing: bool,
}

impl Road {
    /// How many of the `size` bytes that are about to go in this direction may still pass, if the connection is cut then.
    fn cut_within(&self, direction: Direction, size: usize) -> Option<usize> {
        let cut = {
            let mut cuts = self.cuts();
            let cut = cuts.front_mut().filter(|cut| cut.direction == direction)?;
            if cut.after >= size {
                cut.after -= size;
                return None;
            }
            cuts.pop_front()?
        };
        if cut.all {
            self.cut_all();
        }
        self.done.send_modify(|done| if cut.all { done.of_all += 1 } else { done.of_one += 1 });
        Some(cut.after)
    }

    fn cut_all(&self) {
        self.state.send_modify(|state| state.generation += 1);
    }

    fn cuts(&self) -> MutexGuard<'_, VecDeque<Cut>> {
        self.cuts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ports(&self) -> MutexGuard<'_, HashSet<u16>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
