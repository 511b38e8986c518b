//! The way of a server to its database.

use std::{collections::HashSet, io, net::SocketAddr, sync::Arc, time::Duration};

use tcp_proxy::{Cut, Proxy};

/// The way of one server to its database: a proxy in front of each address that connections may lead to. Whatever happens to the way
/// happens to all of them.
#[derive(Debug)]
pub(crate) struct Way {
    proxies: Vec<Proxy>,
}

impl Way {
    /// Starts a proxy in front of each of the entrances.
    ///
    /// # Errors
    ///
    /// No port is free.
    pub(crate) fn start(entrances: &[SocketAddr]) -> io::Result<Self> {
        let proxies = entrances.iter().map(|entrance| Proxy::start(*entrance)).collect::<Result<_, _>>()?;
        Ok(Self { proxies })
    }

    /// The addresses of the proxies, in the order of the entrances.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.proxies.iter().map(Proxy::address).collect()
    }

    /// The ports of the connections to the database.
    pub(crate) fn ports(&self) -> HashSet<u16> {
        self.proxies.iter().flat_map(Proxy::ports).collect()
    }

    /// Arms a cut on each of the proxies: on those that lead to a standby, it happens after a failover.
    pub(crate) fn cut_later(&self, cut: Cut, on_cut: impl Fn() + Send + Sync + 'static) {
        let on_cut = Arc::new(on_cut);
        for proxy in &self.proxies {
            let on_cut = Arc::clone(&on_cut);
            proxy.cut_later(cut, move || on_cut());
        }
    }

    /// Disarms the cuts that have not happened.
    pub(crate) fn forget_cuts(&self) {
        self.proxies.iter().for_each(Proxy::forget_cuts);
    }

    /// Cuts all connections, and refuses new ones until [`mend`](Self::mend).
    pub(crate) fn cut(&self) {
        self.proxies.iter().for_each(Proxy::cut);
    }

    /// Accepts connections again.
    pub(crate) fn mend(&self) {
        self.proxies.iter().for_each(Proxy::mend);
    }

    /// Cuts all connections, and goes on accepting new ones.
    pub(crate) fn cut_connections(&self) {
        self.proxies.iter().for_each(Proxy::cut_connections);
    }

    /// Silences all connections, and goes on accepting new ones.
    pub(crate) fn silence_connections(&self) {
        self.proxies.iter().for_each(Proxy::silence_connections);
    }

    /// Cuts the connections that are silent.
    pub(crate) fn cut_silent_connections(&self) {
        self.proxies.iter().for_each(Proxy::cut_silent_connections);
    }

    /// Holds back what is sent on the connections that there are, until [`release`](Self::release), and goes on accepting new ones.
    pub(crate) fn stall_connections(&self) {
        self.proxies.iter().for_each(Proxy::stall_connections);
    }

    /// Holds everything back, both ways, until [`release`](Self::release).
    pub(crate) fn hold(&self) {
        self.proxies.iter().for_each(Proxy::hold);
    }

    /// Sends on what was held back, and everything after it.
    pub(crate) fn release(&self) {
        self.proxies.iter().for_each(Proxy::release);
    }

    /// Delays all answers from now on.
    pub(crate) fn delay_answers(&self, delay: Duration) {
        self.proxies.iter().for_each(|proxy| proxy.delay_answers(delay));
    }
}
