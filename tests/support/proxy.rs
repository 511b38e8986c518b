use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// A TCP proxy in front of a server: counts round trips, and can be cut.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    round_trips: AtomicUsize,
    /// Which generation of connections may live; a cut begins the next.
    generation: watch::Sender<usize>,
    refusing: AtomicBool,
}

impl Proxy {
    /// A proxy on a free port of the loopback interface.
    pub async fn start(upstream: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            round_trips: AtomicUsize::new(0),
            generation: watch::Sender::new(0),
            refusing: AtomicBool::new(false),
        });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if !shared.refusing.load(Ordering::SeqCst) {
                    tokio::spawn(forward(client, upstream, Arc::clone(&shared)));
                }
            }
        });
        Ok(Self { address, state })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How often the client has sent something after the server had answered: the round trips of one connection in use.
    pub fn round_trips(&self) -> usize {
        self.state.round_trips.load(Ordering::SeqCst)
    }

    /// Cuts all connections, and refuses new ones until [`mend`](Self::mend).
    pub fn cut(&self) {
        self.state.refusing.store(true, Ordering::SeqCst);
        self.state.generation.send_modify(|generation| *generation += 1);
    }

    /// Takes connections again.
    pub fn mend(&self) {
        self.state.refusing.store(false, Ordering::SeqCst);
    }
}

async fn forward(mut client: TcpStream, upstream: SocketAddr, state: Arc<State>) {
    let mut cut = state.generation.subscribe();
    let Ok(mut server) = TcpStream::connect(upstream).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let answered = AtomicBool::new(true);
    let requests = copy(&mut from_client, &mut to_server, || {
        if answered.swap(false, Ordering::SeqCst) {
            state.round_trips.fetch_add(1, Ordering::SeqCst);
        }
    });
    let answers = copy(&mut from_server, &mut to_client, || answered.store(true, Ordering::SeqCst));
    tokio::select! {
        _ = requests => {}
        _ = answers => {}
        _ = cut.changed() => {}
    }
}

async fn copy(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    seen: impl Fn(),
) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        seen();
        to.write_all(&buffer[..read]).await?;
    }
}
