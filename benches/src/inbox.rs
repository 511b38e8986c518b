//! A consumer of NATS JetStream that runs operations, compared with one whose inbox is written by hand.

use std::time::Instant;

use async_nats::jetstream::{
    Context as JetStream,
    consumer::{PullConsumer, pull},
    stream,
};
use consumer::Nats;
use futures_util::{StreamExt as _, TryStreamExt as _, future::try_join_all};
use organization::CLUSTER;
use tonic::Request;
use uuid::Uuid;

use crate::{
    context::Context,
    database::{
        by_hand::{ByHand, Way},
        contender::{Guard, TRANSACTIONAL},
        handler::Projects,
        proto::{CreateProjectRequest, project_service_server::ProjectService as _},
        world::{World, store, user},
    },
    error::Error,
    operations::{Handler, Import},
    report::{Bound, Goal, Section, Spread, table},
};

/// The messages of a round.
const MESSAGES: usize = 2000;

/// How many of them are handled at once.
const WORKERS: usize = 16;

const ROUNDS: usize = 9;

const SUBJECT: &str = "projects";

const TEXT: &str = "\
Sixteen workers take messages from NATS JetStream, each of which inserts a row in its transaction, on a private PostgreSQL server. They run \
operations in transactional mode; or they insert the message's id first (`INSERT … ON CONFLICT`), as an inbox does that is written by hand: it \
keeps no response, compares no request, and its rows are nobody's. In turns.";

/// The sides of the comparison.
enum Worker {
    Operation(Import),
    Inbox(ByHand),
}

/// Measures the part.
pub(crate) async fn measure(context: &Context) -> Result<Section, Error> {
    let Guard::Layer(layer) = TRANSACTIONAL.guard else { return Err("an operation has the layer".into()) };
    let world = World::start().await?;
    let (_nats, jet_stream) = Nats::start().await?;
    let consumer = create(&jet_stream).await?;
    let pool = || world.pool(world.address()?);
    let handler = Handler(Some(Projects::new(pool()?)));
    let operation = Worker::Operation(Import::new(store(pool()?, layer), layer, handler)?);
    let sides = [operation, Worker::Inbox(ByHand::new(pool()?, Way::Inbox))];
    let mut rates = [Vec::new(), Vec::new()];
    // The first round opens the connections, and prepares their statements.
    for round in 0..=context.rounds(ROUNDS) {
        for (side, rates) in sides.iter().zip(&mut rates) {
            publish(&jet_stream).await?;
            let begun = Instant::now();
            side.work(&consumer).await?;
            if round > 0 {
                rates.push(MESSAGES as f64 / begun.elapsed().as_secs_f64());
            }
        }
    }
    world.stop().await;
    let [operation, inbox] = &rates;
    let ratio = Spread::of_ratios(operation, inbox);
    let row = |name: &str, rates: &Vec<f64>| [name.to_owned(), Spread::of(rates.iter().copied()).with_decimals(0)];
    let caption = format!("{WORKERS} workers, {MESSAGES} messages in each round");
    let rows = [row("operations, transactional", operation), row("inbox by hand", inbox)];
    let tables = vec![table(&caption, ["consumer", "messages a second"], rows)];
    let goals = vec![Goal::new("a consumer: throughput", Bound::AtLeast(0.95), ratio, "× an inbox by hand")];
    Ok(Section { title: "A consumer", text: TEXT.to_owned(), tables, goals, ..Section::default() })
}

async fn create(jet_stream: &JetStream) -> Result<PullConsumer, Error> {
    let projects =
        stream::Config { name: SUBJECT.to_owned(), subjects: vec![SUBJECT.to_owned()], ..Default::default() };
    let workers = pull::Config { durable_name: Some("workers".to_owned()), ..Default::default() };
    Ok(jet_stream.create_stream(projects).await?.create_consumer(workers).await?)
}

async fn publish(jet_stream: &JetStream) -> Result<(), Error> {
    let publish = |_| async {
        let key = Uuid::new_v4().into_bytes().to_vec();
        Ok::<_, Error>(jet_stream.publish(SUBJECT, key.into()).await?.await?)
    };
    try_join_all((0..MESSAGES).map(publish)).await?;
    Ok(())
}

impl Worker {
    async fn work(&self, consumer: &PullConsumer) -> Result<(), Error> {
        let messages = consumer.stream().max_messages_per_batch(WORKERS).messages().await?.take(MESSAGES);
        let handled = messages.map_err(Error::from).try_for_each_concurrent(WORKERS, |message| async move {
            self.handle(Uuid::from_slice(&message.payload)?).await?;
            message.ack().await
        });
        handled.await
    }

    async fn handle(&self, key: Uuid) -> Result<(), Error> {
        match self {
            Self::Operation(import) => import.run(key).await,
            Self::Inbox(by_hand) => {
                let name = "project".to_owned();
                let message = CreateProjectRequest { cluster_id: CLUSTER.to_string(), name, payload: Vec::new() };
                let mut request = Request::new(message);
                request.metadata_mut().insert("idempotency-key", key.to_string().parse()?);
                request.extensions_mut().insert(organization::Caller { user: user(key) });
                by_hand.create_project(request).await?;
                Ok(())
            }
        }
    }
}
