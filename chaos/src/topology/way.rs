//! The way of a server to its database.

use std::{io, net::SocketAddr, sync::Arc};

use tcp_proxy::{Cut, Proxy};

/// The way of one server to its database: a proxy in front of each address that connections may lead to. Whatever happens to the way
/// happens to all of them.
#[derive(Debug)]
pub(crate) struct Way(Vec<Proxy>);

impl Way {
    /// Starts a proxy in front of each of the entrances.
    pub(crate) fn start(entrances: &[SocketAddr]) -> io::Result<Self> {
        Ok(Self(entrances.iter().map(|entrance| Proxy::start(*entrance)).collect::<Result<_, _>>()?))
    }

    /// The addresses of the proxies, in the order of the entrances.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.0.iter().map(Proxy::address).collect()
    }

    /// Arms a cut on each of the proxies: on those that lead to a standby, it happens after a failover.
    pub(crate) fn cut_later(&self, cut: Cut, on_cut: impl Fn() + Send + Sync + 'static) {
        let on_cut = Arc::new(on_cut);
        for proxy in &self.0 {
            let on_cut = Arc::clone(&on_cut);
            proxy.cut_later(cut, move || on_cut());
        }
    }

    /// Does something to each of the proxies.
    pub(crate) fn each(&self, deed: impl Fn(&Proxy)) {
        self.0.iter().for_each(deed);
    }
}
