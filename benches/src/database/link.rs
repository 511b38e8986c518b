//! A TCP link in front of a server: each way takes some time, and round trips are counted.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// A link on threads of its own, which sleep more precisely than a runtime's timers. It lives as long as the process does.
#[derive(Debug)]
pub(crate) struct Link {
    address: SocketAddr,
    round_trips: Arc<AtomicUsize>,
}

impl Link {
    /// A link on a free port of the loopback interface, which adds so much to each round trip.
    pub(crate) fn start(server: SocketAddr, round_trip: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let round_trips = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&round_trips);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A connection that cannot be made shows on the client's side.
                let _ = connect(client, server, round_trip, &counter);
            }
        });
        Ok(Self { address, round_trips })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How often a client has sent something after the server had answered.
    pub(crate) fn round_trips(&self) -> usize {
        self.round_trips.load(Ordering::SeqCst)
    }
}

fn connect(client: TcpStream, server: SocketAddr, round_trip: Duration, counter: &Arc<AtomicUsize>) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let answered = Arc::new(AtomicBool::new(true));
    let (asked, counter) = (Arc::clone(&answered), Arc::clone(counter));
    carry(client.try_clone()?, server.try_clone()?, Duration::ZERO, move || {
        if asked.swap(false, Ordering::SeqCst) {
            counter.fetch_add(1, Ordering::SeqCst);
        }
    });
    // All of the delay is on the way back: to whoever waits for an answer it is the same.
    carry(server, client, round_trip, move || answered.store(true, Ordering::SeqCst));
    Ok(())
}

/// Carries what comes from one end to the other, each piece after the same delay.
fn carry(mut from: TcpStream, mut to: TcpStream, delay: Duration, seen: impl Fn() + Send + 'static) {
    let (sender, pieces) = mpsc::channel::<(Instant, Vec<u8>)>();
    thread::spawn(move || {
        for (due, piece) in pieces {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&piece).is_err() {
                return;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
    thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            seen();
            if sender.send((Instant::now() + delay, buffer[..read].to_vec())).is_err() {
                return;
            }
        }
    });
}
