//! Ctrl-C and SIGTERM.

use std::io;

use tokio::sync::watch;

/// The count of Ctrl-C and SIGTERM: the first starts the shutdown, the second ends all waiting.
#[derive(Clone, Debug)]
pub(crate) struct Signals {
    seen: watch::Receiver<usize>,
}

impl Signals {
    /// Starts to listen. From then on, these signals no longer end the process by themselves.
    pub(crate) fn listen() -> io::Result<Self> {
        let (count, seen) = watch::channel(0);
        let mut source = Source::new()?;
        tokio::spawn(async move {
            loop {
                source.next().await;
                count.send_modify(|seen| *seen += 1);
            }
        });
        Ok(Self { seen })
    }

    /// Waits for the first signal.
    pub(crate) async fn first(&self) {
        self.at_least(1).await;
    }

    /// Waits for the second signal.
    pub(crate) async fn second(&self) {
        self.at_least(2).await;
    }

    async fn at_least(&self, count: usize) {
        if self.seen.clone().wait_for(|seen| *seen >= count).await.is_err() {
            // The listening task has ended, which happens only when the runtime shuts down.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(unix)]
struct Source {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Source {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Source;

#[cfg(not(unix))]
impl Source {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
