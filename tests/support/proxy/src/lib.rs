//! A TCP proxy in front of a PostgreSQL server, for the tests, the fault harness and the benchmarks.
//!
//! | [`Proxy`] | does |
//! |---|---|
//! | [`round_trips`](Proxy::round_trips), [`cancellations`](Proxy::cancellations), [`refusals`](Proxy::refusals), [`ports`](Proxy::ports) | count round trips, requests to cancel and connections that were refused, and tell its connections from others |
//! | [`delay_answers`](Proxy::delay_answers) | make the server seem further away |
//! | [`hold`](Proxy::hold), [`release`](Proxy::release) | let nothing pass for a while |
//! | [`silence_connections`](Proxy::silence_connections) | drop what is sent on them, and leave them open |
//! | [`cut_silent_connections`](Proxy::cut_silent_connections) | cut those, and no others |
//! | [`cut`](Proxy::cut), [`mend`](Proxy::mend), [`cut_connections`](Proxy::cut_connections) | cut the connections now |
//! | [`cut_later`](Proxy::cut_later), [`forget_cuts`](Proxy::forget_cuts) | cut them in the middle of a message, or around a COMMIT or another statement |
//!
//! ```
//! # fn main() -> std::io::Result<()> {
//! # let server = std::net::TcpListener::bind(("127.0.0.1", 0))?;
//! use std::{net::TcpStream, time::Duration};
//! use tcp_proxy::Proxy;
//!
//! let proxy = Proxy::start(server.local_addr()?)?;
//! proxy.delay_answers(Duration::from_millis(1));
//! let client = TcpStream::connect(proxy.address())?;
//! assert_eq!(proxy.round_trips(), 0);
//! # Ok(())
//! # }
//! ```
//!
//! It is our own because libraries such as `noxious` and `tokio-netem` neither count round trips nor cut at a COMMIT, and
//! their delays are tokio's timers, which are only as precise as the millisecond that the benchmarks add. A thread
//! sleeps more precisely, so each connection has threads instead of tasks.

mod connection;
mod cut;
mod proxy;
mod shared;
mod statements;

pub use cut::{Cut, Direction, Moment};
pub use proxy::Proxy;
