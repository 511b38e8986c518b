//! A page of operations at once, compared with as many gRPC calls, and as many operations, one after another.

use std::time::Instant;

use futures_util::future::try_join_all;
use organization::CLUSTER;
use prost::Message as _;
use tonic::{Request, Response, Status, metadata::MetadataMap};
use tonic_idempotency::{
    Caller, IdempotencyLayer, UserId,
    policy::Procedure,
    run::{Bytes, Call, Operation},
    store::PostgresStore,
};
use uuid::Uuid;

use crate::{
    context::Context,
    database::{
        contender::{Contender, Guard, Layer, RESERVED, TRANSACTIONAL},
        handler::Projects,
        proto::{CreateProjectRequest, CreateProjectResponse, project_service_server::ProjectService},
        world::{Served, World, behind_layer, store, user},
    },
    error::Error,
    report::{Bound, Goal, Section, Spread, table},
};

/// The operations of a page.
const PAGE: usize = 100;

const ROUNDS: usize = 7;

const IMPORT: &str = "benchmarks.v1/ImportProject";

const TEXT: &str = "\
A hundred messages that are handled at once, as by a consumer that joins the runs of a page: each an operation with a key of its own, on a \
private PostgreSQL server. They are compared with as many calls of the same handler by gRPC, and with as many runs, one after another. A \
handler inserts a row: in reserved mode in a transaction of its own, or nothing, as if its effect were elsewhere. Of the time of each page, \
in turns.";

/// A mode, and a handler.
struct Subject {
    name: &'static str,
    contender: Contender,
    inserts: bool,
    /// The least ratio to calls; `None` if the handler, and not the layer, decides on it.
    at_least: Option<f64>,
}

const SUBJECTS: [Subject; 3] = [
    Subject { name: "reserved, nothing to write", contender: RESERVED, inserts: false, at_least: Some(8.0) },
    Subject { name: "reserved", contender: RESERVED, inserts: true, at_least: None },
    Subject { name: "transactional", contender: TRANSACTIONAL, inserts: true, at_least: None },
];

/// The seconds of a page in each round: of calls and of runs one after another, and of runs at once.
#[derive(Default)]
struct Seconds {
    calls: Vec<f64>,
    runs: Vec<f64>,
    at_once: Vec<f64>,
}

/// Measures the part.
pub(crate) async fn measure(context: &Context) -> Result<Section, Error> {
    let world = World::start().await?;
    let (mut rows, mut goals) = (Vec::new(), Vec::new());
    for subject in SUBJECTS {
        context.progress(subject.name);
        let Seconds { calls, runs, at_once } = subject.measure(context, &world).await?;
        let [of_calls, of_runs] = [&calls, &runs].map(|others| Spread::of_ratios(others, &at_once));
        let [calls, runs, at_once] =
            [calls, runs, at_once].map(|seconds| Spread::of(seconds.iter().map(|it| it * 1e3)).with_decimals(0));
        let [over_calls, over_runs] = [of_calls, of_runs].map(|ratio| ratio.with_decimals(1));
        rows.push([subject.name.to_owned(), calls, runs, at_once, over_calls, over_runs]);
        goals.extend(subject.at_least.map(|least| {
            let measure = format!("{PAGE} operations at once, {}: throughput", subject.name);
            Goal::new(measure, Bound::AtLeast(least), of_calls, "× calls one after another")
        }));
    }
    world.stop().await;
    let columns = ["mode", "calls, ms", "runs, ms", "runs at once, ms", "× calls", "× runs"];
    let tables = vec![table(&format!("A page of {PAGE}"), columns, rows)];
    Ok(Section { title: "Operations at once", text: TEXT.to_owned(), tables, goals, ..Section::default() })
}

impl Subject {
    async fn measure(&self, context: &Context, world: &World) -> Result<Seconds, Error> {
        let Guard::Layer(layer) = self.contender.guard else { return Err("an operation has the layer".into()) };
        let near = world.address()?;
        let handler = Handler(if self.inserts { Some(Projects::new(world.pool(near)?)) } else { None });
        let mut calls =
            Served::start(behind_layer(handler.clone(), store(world.pool(near)?, layer), layer, |it| it)?).await?;
        let import = Import::new(store(world.pool(near)?, layer), layer, handler)?;
        let (mut seconds, rounds) = (Seconds::default(), context.rounds(ROUNDS));
        // The first round opens the connections, and prepares their statements.
        for round in 0..=rounds {
            let begun = Instant::now();
            for _ in 0..PAGE {
                calls.create_project(Uuid::new_v4(), Vec::new()).await?;
            }
            let called = Instant::now();
            for _ in 0..PAGE {
                import.run(Uuid::new_v4()).await?;
            }
            let ran = Instant::now();
            try_join_all((0..PAGE).map(|_| import.run(Uuid::new_v4()))).await?;
            if round > 0 {
                seconds.calls.push((called - begun).as_secs_f64());
                seconds.runs.push((ran - called).as_secs_f64());
                seconds.at_once.push(ran.elapsed().as_secs_f64());
            }
        }
        Ok(seconds)
    }
}

/// The operation whose handler is that of the calls.
pub(crate) struct Import {
    operation: Operation<Bytes>,
    handler: Handler,
}

impl Import {
    pub(crate) fn new(store: PostgresStore, layer: Layer, handler: Handler) -> Result<Self, Error> {
        let declared = Procedure::operation(IMPORT).mode(layer.mode).effect(layer.effect);
        let built = IdempotencyLayer::builder([]).store(store).procedure(declared).build()?;
        Ok(Self { operation: built.operation(IMPORT)?, handler })
    }

    pub(crate) async fn run(&self, key: Uuid) -> Result<(), Error> {
        let handler = self.handler.clone();
        let message =
            CreateProjectRequest { cluster_id: CLUSTER.to_string(), name: "project".to_owned(), payload: Vec::new() };
        let request = message.encode_to_vec();
        let handle = move |call: Call| async move {
            let mut extensions = call.extensions().clone();
            extensions.insert(organization::Caller { user: user(key) });
            let request = Request::from_parts(MetadataMap::new(), extensions, message);
            Ok::<_, Status>(handler.create_project(request).await?.into_inner().encode_to_vec())
        };
        let caller = Caller::new(UserId::new(user(key)));
        self.operation.run(&caller, &key.to_string(), &request, handle).await?;
        Ok(())
    }
}

/// Inserts a project, or nothing.
#[derive(Clone)]
pub(crate) struct Handler(pub(crate) Option<Projects>);

#[tonic::async_trait]
impl ProjectService for Handler {
    async fn create_project(
        &self,
        request: Request<CreateProjectRequest>,
    ) -> Result<Response<CreateProjectResponse>, Status> {
        match &self.0 {
            Some(projects) => projects.create_project(request).await,
            None => {
                let project_id = Uuid::new_v4().to_string();
                Ok(Response::new(CreateProjectResponse { project_id, payload: Vec::new() }))
            }
        }
    }
}
