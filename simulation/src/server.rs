//! The servers: processes with the product's layer, store and recovery around the simulated service.

use std::{
    convert::Infallible,
    fmt,
    future::poll_fn,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use tokio::time::sleep;
use tonic::{Status, body::Body};
use tonic_idempotency::{
    Caller, IdempotencyLayer,
    maintenance::{RecoveryHandle, Sweeper, SweeperHandle},
    policy::{Limit, Limits},
    rejection::Reason,
    store::SqlStore,
};
use tower::{Layer as _, Service as _, util::BoxCloneSyncService};

use crate::{
    consumer::Consumer,
    database::{Database, Pool, Trouble, resource_types},
    headers::{ATTEMPT, CALL, DELIVERED, SCOPE, USER},
    keys::Keys,
    ledger::{Call, Ledger, Strike},
    left::Left,
    plan::{Kind, LONGEST_RESPONSE, Operation, Procedure, Role, Settings, caller},
    reconciler::Witness,
    service::{Service, descriptors, proto::ledger_server::LedgerServer},
    until::until,
    world::{Host, Link, Process, World},
};

/// A time in which every call ends, when there are no faults.
const LONGEST: Duration = Duration::from_secs(60);

/// How long a process lives after its shutdown.
const LINGERS: Duration = Duration::from_secs(2);

/// A machine that runs a server, or not.
#[derive(Clone)]
pub struct Server {
    world: World,
    number: usize,
    host: Host,
    database: Database,
    /// The network to the database.
    pub to_database: Link,
    /// The network to the system where reserved handlers have their effects.
    pub outside: Link,
    settings: Arc<Settings>,
    operations: Arc<Vec<Operation>>,
    ledger: Ledger,
    /// The keys, and the role of the next process.
    keys: Option<Keys>,
    role: Arc<Mutex<Role>>,
    instance: Arc<Mutex<Option<Instance>>>,
}

/// The most outcomes that wait to be recorded, with narrow limits.
pub const UNRECORDED: usize = 4;

/// The instances that share the count of requests while one is stopped: the server's, and the one that stops it.
const INSTANCES: usize = 2;

/// The layer around the service, or what runs its operations.
type Served = BoxCloneSyncService<Request<Body>, Response<Body>, Infallible>;

/// A server that runs.
#[derive(Clone)]
struct Instance {
    process: Process,
    role: Role,
    layer: IdempotencyLayer,
    service: Served,
    consumer: Served,
    pools: Vec<Pool>,
    background: Arc<Mutex<Option<(RecoveryHandle, SweeperHandle)>>>,
    /// Shared with each request that it has.
    requests: Arc<()>,
}

impl Server {
    /// Makes a machine whose server does not run yet.
    pub fn new(
        world: &World,
        number: usize,
        database: &Database,
        settings: &Arc<Settings>,
        keys: Option<&Keys>,
        operations: &Arc<Vec<Operation>>,
        ledger: &Ledger,
    ) -> Self {
        let link = |to: &str| Link::new(world.random(&format!("link from server {number} to {to}")));
        Self {
            world: world.clone(),
            number,
            host: Host::new(world, format!("server {number}")),
            database: database.clone(),
            to_database: link("database"),
            outside: link("outside"),
            settings: Arc::clone(settings),
            operations: Arc::clone(operations),
            ledger: ledger.clone(),
            keys: keys.cloned(),
            role: Arc::new(Mutex::new(settings.sealing.as_ref().map_or(Role::Plain, |it| it.role(0, number)))),
            instance: Arc::default(),
        }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        self.host.name()
    }

    /// Starts a process with the server.
    pub fn start(&self) {
        let process = self.host.start();
        let settings = &self.settings;
        let of_server = &settings.of_servers[self.number];
        let pool = |connections| {
            let pool = self.database.pool(&process, self.to_database.clone(), connections);
            if of_server.one_by_one { pool.one_by_one() } else { pool }
        };
        let pools: Vec<_> =
            [Some(settings.connections), settings.transaction_connections].into_iter().flatten().map(pool).collect();
        let mut store = SqlStore::<Pool>::new(pools[0].clone(), resource_types())
            .timeout(settings.timeout)
            .max_batch(of_server.max_batch)
            .common_path(of_server.common_path);
        if let Some(pool) = pools.get(1) {
            store = store.transaction_pool(pool.clone());
        }
        let sweeper = Sweeper::new(store.clone()).interval(settings.sweep).spawn();
        let mut builder = IdempotencyLayer::builder(descriptors(of_server.is_first_release))
            .store(store)
            .policies(settings.policies)
            .request_body_timeout(settings.body_timeout)
            .replay_cache_bytes(of_server.replay_cache_bytes);
        let mut limits = Limits { records: settings.records, ..Limits::default() };
        if settings.is_narrow {
            let (in_flight, waiting, unrecorded) = (Limit::new(12, 6), Limit::new(6, 3), Limit::new(UNRECORDED, 3));
            limits = Limits { in_flight, waiting, unrecorded, ..limits };
        }
        builder = builder.limits(limits);
        if settings.has_response_limit {
            builder = builder.max_response_bytes(LONGEST_RESPONSE);
        }
        for procedure in Procedure::ALL {
            let (operations, ledger, world) = (Arc::clone(&self.operations), self.ledger.clone(), self.world.clone());
            let witness = Witness { operations, ledger, world, database: self.database.clone() };
            builder = builder.reconciler(procedure.path(), witness.clone()).reconciler(procedure.operation(), witness);
        }
        for operation in Consumer::operations(settings.policies.handler_timeout) {
            builder = builder.procedure(operation);
        }
        let role = *self.role.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keys) = &self.keys {
            let ring = keys.at(self.number, &self.world, &self.ledger);
            builder = match role {
                Role::Plain => builder,
                Role::Opens => builder.open_sealed(ring),
                Role::Seals => builder.seal(ring),
            };
            self.ledger.lock().roles.push((process.clone(), role));
        }
        let layer = builder.build().expect("settings that are valid");
        let service = Service {
            world: self.world.clone(),
            process: process.clone(),
            outside: self.outside.clone(),
            to_database: self.to_database.clone(),
            operations: Arc::clone(&self.operations),
            ledger: self.ledger.clone(),
            database: self.database.clone(),
        };
        let recovery = layer.recovery().interval(settings.recovery).spawn();
        let consumer = BoxCloneSyncService::new(LedgerServer::new(Consumer::new(&layer, service.clone())));
        let service = BoxCloneSyncService::new(layer.layer(LedgerServer::new(service)));
        let background = Arc::new(Mutex::new(Some((recovery, sweeper))));
        let instance =
            Instance { process, role, layer, service, consumer, pools, background, requests: Arc::default() };
        *self.lock() = Some(instance);
    }

    /// Kills it. Returns whether it ran.
    pub fn kill(&self) -> bool {
        self.host.kill()
    }

    /// Returns the process, if one runs.
    pub fn process(&self) -> Option<Process> {
        self.host.process()
    }

    /// Starts it unless it runs.
    pub fn start_if_down(&self) {
        if self.process().is_none() {
            self.start();
        }
    }

    /// Restarts it in a role: stops it well, unless it is down, until a process runs that has the role.
    pub async fn deploy(&self, role: Role) {
        *self.role.lock().unwrap_or_else(PoisonError::into_inner) = role;
        while self.lock().as_ref().is_none_or(|it| it.role != role || !it.process.is_alive()) {
            let (process, from) = (self.process(), self.world.time());
            let is_stopped = self.stop(false).await;
            if process.is_some() {
                let (kind, trouble, to) = (Kind::Stop(self.number), Trouble::NONE, self.world.time());
                self.ledger.strike(Strike { kind, trouble, process, from, to });
            }
            if is_stopped {
                self.start_if_down();
            } else {
                // It was killed, and is started when that is over.
                sleep(LINGERS).await;
            }
        }
    }

    /// Stops it well: it takes no further calls, ends those that run, and gives its connections back. Notes what is left.
    /// Returns whether it was stopped by this, rather than killed.
    pub async fn stop(&self, must_end: bool) -> bool {
        let instance = self.lock().clone().filter(|instance| instance.process.is_alive());
        let Some(Instance { process, layer, pools, background, requests, .. }) = instance else { return false };
        let patience = if must_end { LONGEST } else { self.settings.shutdown };
        let stopped = async move {
            let background = background.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some((recovery, sweeper)) = background {
                recovery.stop().await;
                sweeper.stop().await;
            }
            layer.shutdown(patience).await
        };
        let Some(shutdown) = alive(&process, stopped).await else { return false };
        let unfinished = shutdown.unfinished.len();
        self.world.tell(format_args!("{}", self.name()), format_args!("has shut down, with {unfinished} calls left"));
        if unfinished == 0 {
            self.ledger.lock().stopped.push((process.clone(), self.world.time()));
        }
        if must_end {
            // What is given back in the background.
            let is_left = || Arc::strong_count(&requests) > INSTANCES || pools.iter().any(|pool| pool.in_use() > 0);
            until(|| !is_left(), LONGEST).await;
            let mut left = Vec::new();
            if unfinished > 0 {
                left.push(format!("{} calls of {process:?} never end", unfinished));
            }
            let others = Arc::strong_count(&requests) - INSTANCES;
            if others > 0 {
                left.push(format!("{others} requests of {process:?} are never answered"));
            }
            for pool in pools {
                let taken = pool.in_use();
                if taken > 0 {
                    left.push(format!("{taken} connections of {process:?} are never given back"));
                }
            }
            self.ledger.lock().leftovers.extend(left);
        }
        if !must_end {
            // It is not noticed at once that it may be ended.
            sleep(LINGERS).await;
        }
        let is_alive = process.is_alive();
        process.kill();
        is_alive
    }

    /// Serves a request, which has arrived. `None` if no process accepts it, or it dies meanwhile. If the future is dropped, the
    /// server sees the client hang up.
    pub async fn serve(&self, mut request: Request<Body>) -> Option<Response<Body>> {
        let instance = self.lock().clone().filter(|instance| instance.process.is_alive())?;
        if let Some(caller) = caller_of(request.headers()) {
            request.extensions_mut().insert(caller);
        }
        let Instance { process, service, consumer, requests, .. } = instance;
        let mut service = if request.headers().contains_key(DELIVERED) { consumer } else { service };
        process.gate().await;
        let visit = self.visit(&process, &mut request);
        let left = Left::default();
        request.extensions_mut().insert(left.clone());
        let served = async move {
            let _is_served = requests;
            let Ok(()) = poll_fn(|context| service.poll_ready(context)).await;
            let Ok(response) = service.call(request).await;
            let (parts, body) = response.into_parts();
            let body = body.collect().await.map(Body::new);
            Response::from_parts(parts, body.unwrap_or_else(|_| Body::empty()))
        };
        let response = tokio::select! {
            biased;
            () = left.noticed() => None,
            response = alive(&process, served) => response,
        }?;
        let refusal = Status::from_header_map(response.headers());
        if refusal.and_then(|status| Reason::of(&status)) == Some(Reason::InProgress) {
            self.ledger.is_behind(visit.call);
        }
        process.gate().await;
        Some(response)
    }

    /// Notes that a call has arrived, and numbers it for the service.
    fn visit(&self, process: &Process, request: &mut Request<Body>) -> Visit {
        let attempt = request.headers().get(ATTEMPT).and_then(|attempt| attempt.to_str().ok()?.parse().ok());
        let attempt = attempt.expect("each client numbers its attempts");
        let (server, process, arrived) = (self.number, process.clone(), self.world.time());
        let call = self.ledger.arrive(Call { attempt, server, process, arrived, left: None, is_behind: false });
        request.headers_mut().insert(CALL, call.into());
        Visit { world: self.world.clone(), ledger: self.ledger.clone(), call }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Instance>> {
        self.instance.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("host", &self.host).finish_non_exhaustive()
    }
}

/// The time that a call is at a server, until this is dropped.
struct Visit {
    world: World,
    ledger: Ledger,
    call: usize,
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.ledger.leave(self.call, self.world.time());
    }
}

/// The authentication of the simulation.
fn caller_of(headers: &http::HeaderMap) -> Option<Caller> {
    let text = |name| headers.get(name)?.to_str().ok();
    Some(caller(text(USER)?.parse().ok()?, text(SCOPE)?.parse().ok()?))
}

/// Waits for something that a process does; `None` if the process is killed before.
async fn alive<T>(process: &Process, does: impl Future<Output = T> + Send + 'static) -> Option<T>
where
    T: Send + 'static,
{
    // Boxed: a killed process drops nothing, so what it was doing is left to the end of the world.
    let mut does: BoxFuture<'static, T> = Box::pin(does);
    tokio::select! {
        biased;
        () = process.killed() => {
            tokio::spawn(async move {
                let _forgotten = does;
                std::future::pending::<()>().await;
            });
            None
        }
        done = &mut does => Some(done),
    }
}
