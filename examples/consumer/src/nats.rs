//! A private NATS server with JetStream, its stream of orders, and its dead letters.

use std::time::Duration;

use async_nats::jetstream::{
    self, Context,
    consumer::{PullConsumer, pull},
    stream::{self, Stream},
};
use scratch_postgres::Supervisor;
use tokio::time;

use crate::{Error, fit};

/// Runs and removes the server; described in the file.
const SCRIPT: &str = include_str!("nats.sh");

/// The subject of the orders' events.
pub(crate) const SUBJECT: &str = "orders.placed";

/// The server says there which messages were terminated: the dead letters.
const TERMINATED: &str = "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.orders.billing";

/// How long the server waits for an acknowledgement, before it delivers a message again.
pub(crate) const ACK_WAIT: Duration = Duration::from_secs(2);

/// How long the stream keeps a message.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// How often the server is asked whether it is up, and the pause between two attempts.
const ATTEMPTS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(50);

/// A private server. It is removed when this is dropped, and however this process ends.
#[derive(Debug)]
pub struct Nats {
    _supervisor: Supervisor,
    url: String,
}

impl Nats {
    /// Starts it, and connects to it.
    ///
    /// # Errors
    ///
    /// It is not installed, or cannot start.
    pub async fn start() -> Result<(Self, Context), Error> {
        let program = scratch_postgres::find_program("nats-server")
            .map_err(|why| format!("{why}; install it: `apt-get install nats-server`, or see https://docs.nats.io"))?;
        let port = scratch_postgres::free_ports(1)?[0].to_string();
        let supervisor = Supervisor::start(SCRIPT, [program.as_os_str(), port.as_ref()])?;
        let nats = Self { _supervisor: supervisor, url: format!("nats://127.0.0.1:{port}") };
        for _ in 1..ATTEMPTS {
            if let Ok(context) = connect(&nats.url).await {
                return Ok((nats, context));
            }
            time::sleep(PAUSE).await;
        }
        let context = connect(&nats.url).await?;
        Ok((nats, context))
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

pub(crate) async fn connect(url: &str) -> Result<Context, Error> {
    Ok(jetstream::new(async_nats::connect(url).await?))
}

/// Makes the stream of orders, its consumer, and the stream of dead letters, which it returns.
pub(crate) async fn create(context: &Context, max_deliver: i64) -> Result<Stream, Error> {
    let orders = stream::Config {
        name: "orders".to_owned(),
        subjects: vec![SUBJECT.to_owned()],
        max_age: MAX_AGE,
        ..Default::default()
    };
    let dead =
        stream::Config { name: "dead-letters".to_owned(), subjects: vec![TERMINATED.to_owned()], ..Default::default() };
    let billing = pull::Config {
        durable_name: Some("billing".to_owned()),
        ack_wait: ACK_WAIT,
        max_deliver,
        ..Default::default()
    };
    context.create_stream(orders).await?.create_consumer(billing).await?;
    Ok(context.create_stream(dead).await?)
}

/// Returns the consumer of the orders, if it fits the operation.
pub(crate) async fn consumer(context: &Context) -> Result<PullConsumer, Error> {
    let orders = context.get_stream("orders").await?;
    let billing: PullConsumer = orders.get_consumer("billing").await?;
    fit::check(&orders.cached_info().config, &billing.cached_info().config)?;
    Ok(billing)
}
