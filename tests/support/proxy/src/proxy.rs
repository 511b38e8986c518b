//! The proxy.

use std::{
    collections::HashSet,
    fmt, io,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use crate::{
    connection::Connection,
    cut::{ArmedCut, Cut},
    shared::Shared,
};

/// A TCP proxy at a port of the loopback interface. Dropped, it closes its connections and listens no more.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Starts a proxy in front of `server`, at a free port.
    ///
    /// # Errors
    ///
    /// No port is free.
    pub fn start(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(server));
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Ok(Self { address, shared })
    }

    /// The address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Leads new connections to another server. Those that there are go on.
    pub fn lead_to(&self, server: SocketAddr) {
        self.shared.state().server = server;
    }

    /// The ports of its connections to the server.
    pub fn ports(&self) -> HashSet<u16> {
        self.shared.state().connections.iter().map(|connection| connection.port).collect()
    }

    /// The number of requests to cancel a statement.
    pub fn cancellations(&self) -> usize {
        self.shared.cancellations.load(Ordering::SeqCst)
    }

    /// The number of connections that it has refused since it was [`cut`](Self::cut) for the first time.
    pub fn refusals(&self) -> usize {
        self.shared.refusals.load(Ordering::SeqCst)
    }

    /// How often a client has sent something after the server had answered: the round trips of each connection, added
    /// up.
    pub fn round_trips(&self) -> usize {
        self.shared.round_trips.load(Ordering::SeqCst)
    }

    /// Delays everything that the server sends from now on. Defaults to zero. The whole delay of a round trip is on the
    /// way back: for a client that waits for an answer it makes no difference.
    pub fn delay_answers(&self, delay: Duration) {
        self.shared.state().delay = delay;
    }

    /// Holds everything back, both ways, until [`release`](Self::release).
    pub fn hold(&self) {
        self.shared.set_held(true);
    }

    /// Holds back what is sent on the connections that there are, both ways, until [`release`](Self::release); new ones are not held up.
    pub fn stall_connections(&self) {
        self.shared.stall_connections();
    }

    /// Sends on what was held back, and everything after it.
    pub fn release(&self) {
        self.shared.set_held(false);
    }

    /// Cuts all connections, and refuses new ones until [`mend`](Self::mend).
    pub fn cut(&self) {
        self.shared.state().refusing = true;
        self.shared.cut_connections();
    }

    /// Accepts connections again.
    pub fn mend(&self) {
        self.shared.state().refusing = false;
    }

    /// Cuts all connections, and goes on accepting new ones.
    pub fn cut_connections(&self) {
        self.shared.cut_connections();
    }

    /// Silences all connections, and goes on accepting new ones: nothing that is sent on them arrives, not even their
    /// end, and both sides find them open. A firewall that has forgotten a connection does this, and a failover whose
    /// old server is gone. They stay silent until they are cut.
    pub fn silence_connections(&self) {
        self.shared.silence_connections();
    }

    /// Cuts the connections that are silent, as both sides do when nothing has answered them for long enough.
    pub fn cut_silent_connections(&self) {
        self.shared.cut_silent_connections();
    }

    /// Arms a cut, which happens after those that were armed before. `on_cut` is called when it happens, before a client
    /// can notice.
    pub fn cut_later(&self, cut: Cut, on_cut: impl FnOnce() + Send + 'static) {
        self.shared.state().armed.push_back(ArmedCut { cut, on_cut: Box::new(on_cut) });
    }

    /// Disarms the cuts that have not happened. An answer that is being waited for in order to be lost is lost.
    pub fn forget_cuts(&self) {
        self.shared.state().armed.clear();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        self.cut();
        // Wakes the thread that listens.
        let _ = TcpStream::connect(self.address);
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Gives each connection a thread, until the proxy is dropped.
fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming().flatten() {
        if shared.stopped.load(Ordering::SeqCst) {
            return;
        }
        if let Some(generation) = shared.admit() {
            let shared = Arc::clone(shared);
            // The client notices if the server cannot be reached.
            thread::spawn(move || Connection::run(client, &shared, generation));
        }
    }
}
