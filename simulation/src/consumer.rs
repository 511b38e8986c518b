//! A consumer: what is delivered to it, and is no call, it runs as an operation, with the same handlers: [`Consumer`].

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    time::Duration,
};

use prost::Message as _;
use tonic::{Code, Extensions, Request, Response, Status};
use tonic_idempotency::{
    Caller, IdempotencyLayer,
    policy::{EffectPolicy, Mode, ProcedureBuilder},
    rejection::{DOMAIN, Reason},
    run::{Operation, Outcome, Prost, RunError, Settlement},
};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::{
    plan::Procedure,
    service::{
        Service,
        proto::{EnterReply, EnterRequest, ledger_server},
    },
};

type Enter = Operation<Prost<EnterRequest, EnterReply>>;

/// The consumer of one process. Its deliveries arrive as requests do, and it answers them: that is the acknowledgement.
pub struct Consumer {
    service: Service,
    send: Enter,
    insert: Enter,
    enter: Enter,
}

impl Consumer {
    /// Returns what its layer has to declare.
    pub fn operations(handler_timeout: Duration) -> [ProcedureBuilder; 3] {
        let operation = |procedure: Procedure| {
            tonic_idempotency::policy::Procedure::operation(procedure.operation()).handler_timeout(handler_timeout)
        };
        [
            operation(Procedure::Send),
            operation(Procedure::Insert).effect(EffectPolicy::SameServer),
            operation(Procedure::Enter).mode(Mode::Transactional),
        ]
    }

    /// Makes the consumer of a layer, with the handlers of a service.
    ///
    /// # Panics
    ///
    /// The layer does not have its operations.
    pub fn new(layer: &IdempotencyLayer, service: Service) -> Self {
        let operation =
            |procedure: Procedure| layer.operation(procedure.operation()).expect("an operation that is declared");
        let [send, insert, enter] = Procedure::ALL.map(operation);
        Self { service, send, insert, enter }
    }

    async fn take(
        &self,
        delivery: Request<EnterRequest>,
        operation: &Enter,
        procedure: Procedure,
    ) -> Result<Response<EnterReply>, Status> {
        let (metadata, extensions, message) = delivery.into_parts();
        let caller = extensions.get::<Caller>().ok_or_else(|| Status::internal("no caller"))?;
        let key = metadata.get("idempotency-key").and_then(|key| key.to_str().ok()).unwrap_or_default();
        let (service, its_metadata) = (self.service.clone(), metadata.clone());
        let handler = move |call: tonic_idempotency::run::Call, message| async move {
            let extensions: Extensions = call.extensions().clone();
            let request = Request::from_parts(its_metadata, extensions, message);
            service.run(request, procedure).await.map(Response::into_inner)
        };
        let outcome = settle(operation.receive(caller, |_| key, &payload(message), handler).await)?;
        let is_replay = outcome.is_replay();
        let mut response = Response::new(outcome.into_inner());
        if is_replay {
            response.metadata_mut().insert("idempotent-replayed", "true".parse().expect("ASCII"));
        }
        Ok(response)
    }
}

/// The bytes of a message, the same in each delivery: they begin with the fields that servers of the first release do not know, which keep
/// them as they come, while those of the second one sort them.
fn payload(message: EnterRequest) -> Vec<u8> {
    let labels: BTreeMap<_, _> = message.labels.into_iter().collect();
    let labels = labels.into_iter().map(|label| EnterRequest { labels: [label].into(), ..EnterRequest::default() });
    let new = [
        EnterRequest { campaign: "spring".to_owned(), ..EnterRequest::default() },
        EnterRequest { channel: "shop".to_owned(), ..EnterRequest::default() },
    ];
    let old = EnterRequest { labels: HashMap::new(), ..message };
    new.into_iter().chain([old]).chain(labels).flat_map(|part| part.encode_to_vec()).collect()
}

/// Tells a client what a queue would be told.
fn settle(ended: Result<Outcome<EnterReply>, RunError<Status>>) -> Result<Outcome<EnterReply>, Status> {
    match (Settlement::of(&ended), ended) {
        (_, Ok(outcome)) => Ok(outcome),
        (_, Err(RunError::Refused { reason: Reason::NotStored, message, .. })) => {
            let details = ErrorDetails::with_error_info(Reason::NotStored.as_str(), DOMAIN, []);
            Err(Status::with_error_details(Code::FailedPrecondition, message, details))
        }
        // It is gone from the queue, so it has to have taken effect, though nothing tells in which run.
        (Settlement::Acknowledge, Err(_)) => Ok(Outcome::First(EnterReply { run: u64::MAX, ..EnterReply::default() })),
        (_, Err(RunError::Failed { error, .. })) => Err(error),
        (_, Err(RunError::Unreadable { error, .. })) => Err(Status::failed_precondition(error.to_string())),
        (settlement, Err(RunError::Refused { reason, message, .. })) => {
            let details = ErrorDetails::with_error_info(reason.as_str(), DOMAIN, []);
            let code = match settlement {
                Settlement::Redeliver { .. } => Code::Aborted,
                _ => Code::FailedPrecondition,
            };
            Err(Status::with_error_details(code, message, details))
        }
        (_, Err(error)) => Err(Status::internal(error.to_string())),
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("service", &self.service).finish_non_exhaustive()
    }
}

#[tonic::async_trait]
impl ledger_server::Ledger for Consumer {
    async fn send(&self, request: Request<EnterRequest>) -> Result<Response<EnterReply>, Status> {
        self.take(request, &self.send, Procedure::Send).await
    }

    async fn insert(&self, request: Request<EnterRequest>) -> Result<Response<EnterReply>, Status> {
        self.take(request, &self.insert, Procedure::Insert).await
    }

    async fn enter(&self, request: Request<EnterRequest>) -> Result<Response<EnterReply>, Status> {
        self.take(request, &self.enter, Procedure::Enter).await
    }
}
