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

use crate::{
    fault::FaultKind,
    journal::{Journal, Whom},
    schedule::{Cut, Direction, Manner, Moment, Stall},
};

/// A TCP proxy on the loopback interface. Dropped, it is gone with all its connections.
#[derive(Debug)]
pub(crate) struct Proxy {
    accepting: JoinHandle<()>,
    address: SocketAddr,
    road: Arc<Road>,
}

impl Proxy {
    /// A proxy in front of `upstream`, at a free port, for the server in a slot.
    ///
    /// # Errors
    ///
    /// There is no port.
    pub(crate) async fn start(upstream: SocketAddr, slot: usize, journal: Arc<Journal>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let road = Arc::new(Road {
            cuts: Mutex::default(),
            journal,
            ports: Mutex::default(),
            slot,
            state: watch::Sender::default(),
        });
        let accepting = tokio::spawn(link::accept(listener, upstream, Arc::clone(&road)));
        Ok(Self { accepting, address, road })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Arms a cut: it happens at its moment, and is in the journal then. Those that were armed before come first.
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
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.road.cut_all();
    }
}

/// What the connections of a proxy share.
#[derive(Debug)]
struct Road {
    cuts: Mutex<VecDeque<Cut>>,
    journal: Arc<Journal>,
    ports: Mutex<HashSet<u16>>,
    /// Whose way it is.
    slot: usize,
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

/// What becomes of some bytes.
enum Passage {
    /// They pass.
    All,
    /// So many of them pass, and then the connection is cut.
    CutAfter(usize),
    /// They pass, and the answer to the COMMIT among them does not.
    LoseAnswer,
}

impl Road {
    /// What becomes of bytes that are about to go in this direction.
    fn passage(&self, direction: Direction, bytes: &[u8]) -> Passage {
        let mut cuts = self.cuts();
        let Some(cut) = cuts.front_mut() else { return Passage::All };
        let commits = || direction == Direction::Requests && has_commit(bytes);
        let passage = match &mut cut.moment {
            Moment::AfterCommit if commits() => Passage::LoseAnswer,
            Moment::BeforeCommit if commits() => Passage::CutAfter(0),
            Moment::Bytes { direction: of, left } if *of == direction => {
                if *left >= bytes.len() {
                    *left -= bytes.len();
                    return Passage::All;
                }
                Passage::CutAfter(*left)
            }
            _ => return Passage::All,
        };
        let cut = *cut;
        cuts.pop_front();
        drop(cuts);
        match (cut.moment, cut.all) {
            // Not before the answer is there to be lost.
            (Moment::AfterCommit, _) => {}
            (Moment::BeforeCommit, _) => self.note(FaultKind::BeforeCommitCut),
            (Moment::Bytes { .. }, false) => self.note(FaultKind::ConnectionCut),
            (Moment::Bytes { .. }, true) => {
                self.cut_all();
                self.note(FaultKind::ConnectionsCut);
            }
        }
        passage
    }

    fn note(&self, kind: FaultKind) {
        self.journal.fault(kind, Whom::Slot(self.slot), self.journal.now());
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

/// Whether there is a COMMIT among these messages, as a statement or as the answer to one: both end so.
fn has_commit(bytes: &[u8]) -> bool {
    const COMMIT: &[u8] = b"COMMIT\0";
    bytes.windows(COMMIT.len()).any(|window| window == COMMIT)
}

#[cfg(test)]
mod tests;
