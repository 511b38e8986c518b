//! One connection through the proxy.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use crate::{
    cut::{ArmedCut, Direction},
    shared::{Passage, Shared},
    statements::Statements,
};

/// A client's connection to the proxy, and the one to the server that belongs to it.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Whether the server has sent something since the client did.
    answered: AtomicBool,
    client: TcpStream,
    closed: AtomicBool,
    /// The cut that happens when the answer to a COMMIT or to a statement arrives, which the client does not get.
    lost_answer: Mutex<Option<ArmedCut>>,
    /// The port of the connection to the server.
    pub(crate) port: u16,
    server: TcpStream,
    silent: AtomicBool,
    stalled: AtomicBool,
    statements: Mutex<Statements>,
}

/// The begin of a request to cancel: its length, and its code.
const CANCEL: [u8; 8] = [0, 0, 0, 16, 4, 210, 22, 46];

/// Bytes on their way, and when they are sent on.
type Piece = (Instant, Vec<u8>);

impl Connection {
    /// Connects a client to the server, and forwards what they send until one of them closes, or the connection is cut.
    pub(crate) fn run(client: TcpStream, shared: &Shared, generation: usize) -> io::Result<()> {
        let server = TcpStream::connect(shared.server())?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let connection = Arc::new(Self {
            answered: AtomicBool::new(true),
            client,
            closed: AtomicBool::new(false),
            lost_answer: Mutex::default(),
            port: server.local_addr()?.port(),
            server,
            silent: AtomicBool::new(false),
            stalled: AtomicBool::new(false),
            statements: Mutex::default(),
        });
        if shared.add(&connection, generation) {
            thread::scope(|scope| {
                scope.spawn(|| connection.forward(Direction::Requests, shared));
                connection.forward(Direction::Answers, shared);
            });
        }
        Ok(())
    }

    /// Closes both connections. Only [`Shared`] calls it, which then forgets the connection.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        // A socket that is closed already is no error.
        let _ = (self.client.shutdown(Shutdown::Both), self.server.shutdown(Shutdown::Both));
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Drops what is sent from now on, both ways, and leaves both sockets open.
    pub(crate) fn silence(&self) {
        self.silent.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_silent(&self) -> bool {
        self.silent.load(Ordering::SeqCst)
    }

    /// Sets whether bytes are held back.
    pub(crate) fn set_stalled(&self, stalled: bool) {
        self.stalled.store(stalled, Ordering::SeqCst);
    }

    pub(crate) fn is_stalled(&self) -> bool {
        self.stalled.load(Ordering::SeqCst)
    }

    pub(crate) fn lost_answer(&self) -> MutexGuard<'_, Option<ArmedCut>> {
        self.lost_answer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn statements(&self) -> MutexGuard<'_, Statements> {
        self.statements.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forwards bytes in one direction, and closes the connection once there are no more. Each piece is delayed from
    /// its own arrival on, so that several can be on their way at once.
    fn forward(self: &Arc<Self>, direction: Direction, shared: &Shared) {
        let (from, to) = match direction {
            Direction::Answers => (&self.server, &self.client),
            Direction::Requests => (&self.client, &self.server),
        };
        thread::scope(|scope| {
            let (sender, pieces) = mpsc::channel();
            scope.spawn(move || self.receive(from, direction, shared, &sender));
            // A peer that has gone ends the connection, too.
            let _ = self.send(to, direction, shared, pieces);
            // The end of a silent connection is not heard either.
            shared.wait_while_silent(self);
            shared.remove(self);
        });
    }

    fn receive(&self, mut from: &TcpStream, direction: Direction, shared: &Shared, pieces: &mpsc::Sender<Piece>) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let delay = match direction {
                Direction::Answers => {
                    self.answered.store(true, Ordering::SeqCst);
                    shared.state().delay
                }
                Direction::Requests => {
                    if buffer[..read].starts_with(&CANCEL) {
                        shared.cancellations.fetch_add(1, Ordering::SeqCst);
                    }
                    if self.answered.swap(false, Ordering::SeqCst) {
                        shared.round_trips.fetch_add(1, Ordering::SeqCst);
                    }
                    Duration::ZERO
                }
            };
            if pieces.send((Instant::now() + delay, buffer[..read].to_vec())).is_err() {
                return;
            }
        }
    }

    fn send(
        &self,
        mut to: &TcpStream,
        direction: Direction,
        shared: &Shared,
        pieces: mpsc::Receiver<Piece>,
    ) -> io::Result<()> {
        for (due, bytes) in pieces {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            match shared.passage(self, direction, &bytes) {
                Passage::All => to.write_all(&bytes)?,
                Passage::Closed => return Ok(()),
                Passage::CutAfter(passing, armed) => {
                    let written = to.write_all(&bytes[..passing]);
                    (armed.on_cut)();
                    if armed.cut.all {
                        shared.cut_connections();
                    }
                    return written;
                }
                Passage::None => {}
            }
        }
        Ok(())
    }
}
