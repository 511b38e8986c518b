//! The code of a client process: a generated client with the layer and a journal, and the points at which it dies.

use std::{
    io::Write as _,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use clap::Parser;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use organization::proto::{CreateClusterRequest, cluster_service_client::ClusterServiceClient};
use prost::Message as _;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, stdin},
    time,
};
use tonic::{
    body::Body,
    transport::{self, Channel, Endpoint},
};
use tonic_idempotency_client::{
    IdempotencyClientLayer, Unresolved,
    journal::{Change, Journal, JournalError, JournalStore, Outcome, RedbStore, Resumed},
};
use tower::{Service, ServiceExt as _, service_fn};
use tower_layer::Layer as _;
use uuid::Uuid;

use super::step::ClientStep;
use crate::{
    error::Error,
    named::name,
    operation::{NAME, Operation, Variant},
    server::die,
};

/// The interval between two looks whether the journal is empty.
const LOOK: Duration = Duration::from_millis(10);

/// The length of the head of a message's frame.
const HEAD: usize = 5;

/// The arguments of a client process.
#[derive(Clone, Debug, Parser)]
pub struct CallArgs {
    /// The file of its journal.
    #[arg(long)]
    pub(crate) file: PathBuf,
    /// The address of the server.
    #[arg(long)]
    pub(crate) server: SocketAddr,
    /// The step at which it dies.
    #[arg(long, value_enum)]
    pub(crate) die_at: Option<ClientStep>,
    /// When it dies: the number of times that it passes the step.
    #[arg(long, default_value_t = 1)]
    pub(crate) nth: u32,
    /// Give each attempt a key of its own.
    #[arg(long)]
    pub(crate) without_key: bool,
    /// Take an answer without a gRPC status for a success.
    #[arg(long)]
    pub(crate) without_status: bool,
}

/// The point at which the process dies.
#[derive(Clone, Debug)]
struct Point {
    step: Option<ClientStep>,
    left: Arc<AtomicU32>,
}

impl Point {
    fn pass(&self, step: ClientStep) {
        if self.step == Some(step) && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            say(&format!("reached {}", name(step)));
            die();
        }
    }
}

/// Carries out the operations whose numbers are on standard input, and what the journal has; returns when it is told to stop and the
/// journal is empty. The process dies at its step, or if its standard input ends.
///
/// # Errors
///
/// The journal cannot be opened.
pub async fn call(args: &CallArgs) -> Result<(), Error> {
    let point = Point { step: args.die_at, left: Arc::new(AtomicU32::new(args.nth)) };
    let store = MortalStore { point: point.clone(), store: RedbStore::open(&args.file)? };
    let journal = Journal::builder().pauses(Duration::from_millis(20), Duration::from_millis(500));
    let journal = journal.on_outcome(async |resumed| resumed_ended(&resumed)).store(store)?;
    for entry in journal.entries().await? {
        say(&format!("found {}", number_in(&entry.message()).ok_or("an entry without an operation")?));
    }
    say("ready");
    let layer = IdempotencyClientLayer::builder(organization::FILE_DESCRIPTOR_SET).journal(journal.clone());
    let layer = layer.backoff(Duration::from_millis(10), Duration::from_millis(300)).max_attempts(8);
    let layer = layer.attempt_timeout(Duration::from_secs(2)).build()?;
    let channel = Endpoint::from_shared(format!("http://{}", args.server))?.connect_lazy();
    let service = layer.layer(watched(channel, point, args.clone()));
    let worker = journal.spawn(service.clone());
    let client = ClusterServiceClient::new(service);
    let mut lines = BufReader::new(stdin()).lines();
    loop {
        match lines.next_line().await? {
            None => die(),
            Some(line) if line == "stop" => break,
            Some(line) => drop(tokio::spawn(carry_out(client.clone(), line.parse()?))),
        }
    }
    while !journal.entries().await?.is_empty() {
        time::sleep(LOOK).await;
    }
    worker.shut_down().await;
    say("left 0");
    Ok(())
}

/// Calls once. The layer tries again, and the journal after it.
async fn carry_out<S>(mut client: ClusterServiceClient<S>, number: u32)
where
    S: tonic::client::GrpcService<
            Body,
            Error: Into<Error>,
            ResponseBody: http_body::Body<Data = Bytes, Error: Into<Error> + Send> + Send + 'static,
        >,
{
    let name = Operation::name_of(number, Variant::Asked);
    let request = CreateClusterRequest { name, region: "nl-1".to_owned(), ..Default::default() };
    match client.create_cluster(request).await {
        Ok(_) => say(&format!("ended {number} ok")),
        Err(status) if Unresolved::of(&status).is_some() => {}
        Err(status) => say(&format!("ended {number} {:?}", status.code())),
    }
}

fn resumed_ended(resumed: &Resumed) {
    let Some(number) = number_in(&resumed.request) else { return };
    match &resumed.outcome {
        Outcome::Answered(reply) => {
            say(&format!("ended {number} {}", if reply.delivery.replayed { "replayed" } else { "resumed" }));
        }
        Outcome::Failed(status) => say(&format!("ended {number} {:?}", status.code())),
        _ => say(&format!("ended {number} too old")),
    }
}

/// The number of the operation in an encoded message, or in an entry that has one.
pub(super) fn number_in(message: &[u8]) -> Option<u32> {
    let place = message.windows(NAME.len()).position(|window| window == NAME.as_bytes())? + NAME.len();
    str::from_utf8(message.get(place..place + 6)?).ok()?.parse().ok()
}

fn say(text: &str) {
    // Fails if the harness has ended.
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// The way to the server, with the points around an attempt.
fn watched(
    channel: Channel,
    point: Point,
    args: CallArgs,
) -> impl Service<Request<Body>, Response = Response<Body>, Error = transport::Error, Future: Send>
+ Clone
+ Send
+ Sync
+ 'static {
    service_fn(move |mut request: Request<Body>| {
        let (channel, point, args) = (channel.clone(), point.clone(), args.clone());
        async move {
            if args.without_key {
                request = with_another_key(request).await;
            }
            point.pass(ClientStep::BeforeSend);
            let response = channel.oneshot(request).await;
            point.pass(ClientStep::AfterAnswer);
            if args.without_status { response.map(taken_for_a_success) } else { response }
        }
    })
}

/// The response, or an empty message for one that is none of gRPC.
fn taken_for_a_success(response: Response<Body>) -> Response<Body> {
    if response.headers().get("content-type").is_some_and(|it| it.as_bytes().starts_with(b"application/grpc")) {
        return response;
    }
    let mut taken = Response::new(Body::new(Full::new(Bytes::from_static(&[0; HEAD]))));
    taken.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    taken.headers_mut().insert("grpc-status", HeaderValue::from_static("0"));
    taken
}

/// Gives an attempt a key of its own, in its header and in its message.
async fn with_another_key(request: Request<Body>) -> Request<Body> {
    let (mut parts, body) = request.into_parts();
    let frame = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut message = CreateClusterRequest::decode(frame.slice(HEAD..)).unwrap_or_default();
    message.request_id = Uuid::new_v4().to_string();
    if let Ok(key) = HeaderValue::from_str(&message.request_id) {
        parts.headers.insert("idempotency-key", key);
    }
    let encoded = message.encode_to_vec();
    let length = u32::try_from(encoded.len()).unwrap_or_default().to_be_bytes();
    Request::from_parts(parts, Body::new(Full::new(Bytes::from([&[0][..], &length, &encoded].concat()))))
}

/// A store that dies around its commits, and tells what is durable.
struct MortalStore {
    point: Point,
    store: RedbStore,
}

impl JournalStore for MortalStore {
    fn commit(&self, changes: &[Change]) -> Result<(), JournalError> {
        let written: Vec<_> = changes.iter().filter_map(|change| number_in(record(change)?)).collect();
        let ends = changes.iter().any(|change| matches!(change, Change::Remove { .. }));
        let pass = |on_write, on_end| {
            if !written.is_empty() {
                self.point.pass(on_write);
            }
            if ends {
                self.point.pass(on_end);
            }
        };
        pass(ClientStep::BeforeWrite, ClientStep::BeforeEnd);
        self.store.commit(changes)?;
        for number in &written {
            say(&format!("written {number}"));
        }
        pass(ClientStep::AfterWrite, ClientStep::AfterEnd);
        Ok(())
    }

    fn ids(&self) -> Result<Vec<u64>, JournalError> {
        self.store.ids()
    }

    fn read(&self, id: u64) -> Result<Option<Bytes>, JournalError> {
        self.store.read(id)
    }
}

fn record(change: &Change) -> Option<&[u8]> {
    match change {
        Change::Put { record, .. } => Some(record),
        _ => None,
    }
}
