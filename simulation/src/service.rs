//! The service of the simulation: the handlers, which do what the plan says.

use std::{
    fmt,
    future::pending,
    sync::{Arc, LazyLock},
    time::Duration,
};

use prost_reflect::DescriptorPool;
use tokio::time::{sleep, timeout};
use tonic::{Code, Request, Response, Status};
use tonic_idempotency::{
    Execution,
    store::driver::{Exclusive, Session as _},
};

use self::proto::{EnterReply, EnterRequest, ledger_server};
use crate::{
    database::{Connection, Database, Pool},
    headers::{CALL, DELIVERED, SCOPE, USER},
    job,
    ledger::Ledger,
    left::Left,
    plan::{Behaviour, End, Operation, Procedure, caller},
    world::{Link, Process, World},
};

/// The package `ledger.v1`.
#[allow(missing_docs, missing_debug_implementations, clippy::all, reason = "generated")]
pub mod proto {
    tonic::include_proto!("ledger.v1");

    impl EnterReply {
        /// Makes the reply of a run of an operation.
        pub fn new(run: u64, operation: &crate::plan::Operation) -> Self {
            let (owner, text) = (operation.owner().to_string(), operation.text());
            let project_id =
                if operation.procedure.creates() { crate::job::resource_of(run).to_string() } else { String::new() };
            Self { run, owner, text, project_id }
        }
    }

    impl prost::Name for EnterRequest {
        const NAME: &'static str = "EnterRequest";
        const PACKAGE: &'static str = "ledger.v1";
    }
}

/// The message of panics that the plan wants, and the beginning of that of errors.
pub const PLANNED: &str = "as planned";

/// Returns the number of the run that an error is of, by its message, if it is one that the plan wants.
pub fn run_of_error(message: &str) -> Option<usize> {
    message.strip_prefix(PLANNED)?.strip_prefix(", in run ")?.parse().ok()
}

fn planned(code: Code, run: usize) -> Status {
    Status::new(code, format!("{PLANNED}, in run {run}"))
}

/// How long a handler waits for the other system.
const OUTSIDE: Duration = Duration::from_secs(5);

/// The descriptors, with their options.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ledger.bin"));

/// Those of the first release, whose messages have fewer fields.
const FIRST_RELEASE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ledger-1.bin"));

/// Returns the message of an operation.
pub fn message_of(operation: &Operation) -> EnterRequest {
    let labels = ["color", "size", "weight"].map(|label| (label.to_owned(), operation.message.to_string()));
    // Each map has another order.
    let labels = labels.into_iter().collect();
    EnterRequest { operation: operation.message as u64, text: operation.text(), labels, ..EnterRequest::default() }
}

/// Returns the descriptors, of the first release or the second one. They are decoded once in a process.
///
/// # Panics
///
/// Never: they are the service's own.
pub fn descriptors(is_first_release: bool) -> DescriptorPool {
    static RELEASES: LazyLock<[DescriptorPool; 2]> = LazyLock::new(|| {
        [FILE_DESCRIPTOR_SET, FIRST_RELEASE]
            .map(|descriptors| DescriptorPool::decode(descriptors).expect("descriptors that are valid"))
    });
    RELEASES[usize::from(is_first_release)].clone()
}

/// The service of one process.
#[derive(Clone)]
pub struct Service {
    /// The world.
    pub world: World,
    /// The process that it runs in.
    pub process: Process,
    /// The network to the system where reserved handlers have their effects.
    pub outside: Link,
    /// The network to the database.
    pub to_database: Link,
    /// The operations, by their numbers.
    pub operations: Arc<Vec<Operation>>,
    /// The evidence.
    pub ledger: Ledger,
    /// The database, in which the observer looks.
    pub database: Database,
}

impl fmt::Debug for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("process", &self.process).finish_non_exhaustive()
    }
}

impl Service {
    /// Runs the handler.
    pub(crate) async fn run(
        &self,
        request: Request<EnterRequest>,
        procedure: Procedure,
    ) -> Result<Response<EnterReply>, Status> {
        self.process.gate().await;
        let execution = Execution::from_request(&request);
        let (metadata, extensions, message) = request.into_parts();
        let call = metadata.get(CALL).and_then(|call| call.to_str().ok()?.parse().ok());
        let call = call.ok_or_else(|| Status::internal("no such call"))?;
        let user = metadata.get(USER).and_then(|user| user.to_str().ok()?.parse().ok());
        let scope = metadata.get(SCOPE).and_then(|scope| scope.to_str().ok()?.parse().ok());
        let is_it = |operation: &&Operation| {
            (operation.message as u64, operation.user) == (message.operation, user)
                && operation.procedure == procedure
                && operation.is_delivered == metadata.contains_key(DELIVERED)
                && operation.scope == scope.unwrap_or(operation.scope)
        };
        let operation = self.operations.iter().find(is_it);
        let operation = operation.ok_or_else(|| Status::internal("no such operation"))?;
        let number = operation.number;
        let owner = operation.user.map(|user| *caller(user, operation.scope).owner().as_uuid());
        let had_key = owner.is_some_and(|owner| self.database.is_reserved(owner, operation.stored));
        let (run, before) = self.ledger.begin(number, call, self.process.clone(), self.world.time(), had_key);
        let _attention = Attention { world: self.world.clone(), ledger: self.ledger.clone(), run };
        let mut behaviour = operation.behaviour(before);
        // What the layer passes through has no end but the service's own.
        behaviour.hangs &= operation.has_key || procedure == Procedure::Enter;
        if before > 0 {
            self.world.count("run", "again");
        }
        self.tell(run, number, format_args!("begins: {:?}", behaviour.end));
        let (end, ended) = match procedure {
            Procedure::Send | Procedure::Insert => self.send(run, behaviour, operation, &execution).await,
            Procedure::Enter => (behaviour.end, self.enter(run, behaviour, operation, &extensions).await),
        };
        if let (true, Procedure::Enter, Some(left)) = (behaviour.is_left, procedure, extensions.get::<Left>()) {
            left.leave().await;
        }
        self.ledger.end(run, self.world.time(), end);
        match &ended {
            Ok(()) => self.tell(run, number, format_args!("is done")),
            Err(status) => self.tell(run, number, format_args!("fails: {:?}, {}", status.code(), status.message())),
        }
        let panics = end == End::Panic || end == End::ErrorAfterEffect && behaviour.panics;
        assert!(!panics, "{PLANNED}");
        ended?;
        Ok(Response::new(EnterReply { text: message.text, ..EnterReply::new(run as u64, operation) }))
    }

    /// Has its effect in another system, which is told and answers, or on the server of the records. Returns how it ends, and what it answers.
    async fn send(
        &self,
        run: usize,
        behaviour: Behaviour,
        operation: &Operation,
        execution: &Execution,
    ) -> (End, Result<(), Status>) {
        let is_here = operation.procedure == Procedure::Insert;
        let mut connection = None;
        if is_here && behaviour.connects_first {
            match self.connect().await {
                Ok(made) => connection = Some(made),
                Err(error) => return (End::Error, Err(error)),
            }
        }
        let works = async {
            self.work(behaviour.before).await;
            if behaviour.hangs && !behaviour.writes_first {
                self.hang().await;
            }
        };
        if behaviour.heeds_lease {
            if execution.lease_lost().run_until_cancelled(works).await.is_none() {
                self.world.count("run", "loses its lease");
                self.ledger.lose_lease(run, self.world.time());
                return (End::Error, Err(planned(Code::Internal, run)));
            }
        } else {
            works.await;
        }
        if behaviour.end == End::Panic {
            return (End::Panic, Ok(()));
        }
        if let Err(error) = fails_before(behaviour.end, run) {
            return (behaviour.end, Err(error));
        }
        if is_here && connection.is_none() {
            match self.connect().await {
                Ok(made) => connection = Some(made),
                Err(error) => return (End::Error, Err(error)),
            }
        }
        let had = match connection {
            None => self.have_effect(run, behaviour, execution, self.send_outside(run)).await,
            Some(connection) => {
                self.have_effect(run, behaviour, execution, self.insert(run, operation, connection)).await
            }
        };
        match had {
            Err(error) => (End::ErrorAfterEffect, Err(error)),
            Ok(()) => (behaviour.end, Ok(())),
        }
    }

    /// Connects to the server of the records.
    async fn connect(&self) -> Result<Connection, Status> {
        let connected = self.database.connect(&self.process, &self.to_database).await;
        connected.map_err(|_| Status::unavailable("the database cannot be reached"))
    }

    /// Tells the other system. Returns whether it answers.
    async fn send_outside(&self, run: usize) -> bool {
        let told = async {
            self.outside.carry().await?;
            self.ledger.effect(run, self.world.time());
            self.outside.carry().await
        };
        told.await.is_ok()
    }

    /// Writes to the server of the records, in a transaction of its own. Returns whether it is told that it is committed.
    async fn insert(&self, run: usize, operation: &Operation, mut connection: Connection) -> bool {
        let inserted = connection.insert_effect(operation.owner(), operation.stored, run as u64).await.is_ok();
        if inserted {
            self.world.count("run", "writes to the server of the records");
            self.create(run, operation);
        }
        inserted
    }

    /// Notes the effect of a run, and has the work begin behind what it has created.
    fn create(&self, run: usize, operation: &Operation) {
        self.ledger.effect(run, self.world.time());
        operation.job.into_iter().for_each(|job| job::begin(&self.world, &self.database, &self.ledger, run, job));
    }

    async fn have_effect(
        &self,
        run: usize,
        behaviour: Behaviour,
        execution: &Execution,
        told: impl Future<Output = bool>,
    ) -> Result<(), Status> {
        // From here on it may have happened.
        execution.effect_committed();
        self.ledger.send(run);
        let answered = timeout(OUTSIDE, told).await;
        self.process.gate().await;
        if answered != Ok(true) {
            return Err(Status::unavailable("the other system does not answer"));
        }
        self.work(behaviour.after).await;
        if behaviour.hangs {
            self.hang().await;
        }
        fails_after(behaviour.end, run)
    }

    /// Has its effect in the transaction of the call.
    async fn enter(
        &self,
        run: usize,
        behaviour: Behaviour,
        operation: &Operation,
        extensions: &tonic::Extensions,
    ) -> Result<(), Status> {
        self.work(behaviour.before).await;
        if behaviour.hangs && !behaviour.writes_first {
            self.hang().await;
        }
        if !behaviour.writes_first {
            if behaviour.end == End::Panic {
                return Ok(());
            }
            fails_before(behaviour.end, run)?;
        }
        let transaction = Exclusive::<Pool>::from_extensions(extensions);
        let transaction = transaction.map_err(|kind| Status::internal(format!("no transaction: {kind:?}")))?;
        {
            let connection = transaction.lock().await;
            let mut connection = connection.map_err(|kind| Status::unavailable(format!("{kind:?}")))?;
            let written = connection.insert_effect(operation.owner(), operation.stored, run as u64).await;
            match written {
                Ok(()) => self.create(run, operation),
                Err(_) if behaviour.ignores_failure => {}
                Err(error) => {
                    transaction.note(&error);
                    return Err(Status::unavailable(error.to_string()));
                }
            }
        }
        self.work(behaviour.after).await;
        if behaviour.hangs {
            self.hang().await;
        }
        fails_before(behaviour.end, run)?;
        fails_after(behaviour.end, run)
    }

    /// Works for this time, and for as long as the process is paused.
    async fn work(&self, time: Duration) {
        sleep(time).await;
        self.process.gate().await;
    }

    /// Does not end.
    async fn hang(&self) {
        self.world.count("run", "hangs");
        pending::<()>().await;
    }

    fn tell(&self, run: usize, operation: usize, event: fmt::Arguments<'_>) {
        let host = self.process.host().name();
        self.world.tell(format_args!("{host}"), format_args!("run {run} of operation {operation} {event}"));
    }
}

/// The time that a run is attended to, until this is dropped.
struct Attention {
    world: World,
    ledger: Ledger,
    run: usize,
}

impl Drop for Attention {
    fn drop(&mut self) {
        self.ledger.drop_run(self.run, self.world.time());
    }
}

fn fails_before(end: End, run: usize) -> Result<(), Status> {
    match end {
        End::Error => Err(planned(Code::Internal, run)),
        End::FinalError => Err(planned(Code::FailedPrecondition, run)),
        End::Panic | End::Response | End::ErrorAfterEffect => Ok(()),
    }
}

fn fails_after(end: End, run: usize) -> Result<(), Status> {
    match end {
        End::ErrorAfterEffect => Err(planned(Code::Internal, run)),
        _ => Ok(()),
    }
}

#[tonic::async_trait]
impl ledger_server::Ledger for Service {
    async fn send(&self, request: Request<EnterRequest>) -> Result<Response<EnterReply>, Status> {
        self.run(request, Procedure::Send).await
    }

    async fn insert(&self, request: Request<EnterRequest>) -> Result<Response<EnterReply>, Status> {
        self.run(request, Procedure::Insert).await
    }

    async fn enter(&self, request: Request<EnterRequest>) -> Result<Response<EnterReply>, Status> {
        self.run(request, Procedure::Enter).await
    }
}
