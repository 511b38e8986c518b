//! A consumer: what is delivered to it, and is no call, it runs as an operation, with the same handlers: [`Consumer`].

use std::fmt;

use tonic::{Code, Extensions, Request, Response, Status};
use tonic_idempotency::{
    Caller, IdempotencyLayer,
    policy::{Mode, ProcedureBuilder},
    rejection::DOMAIN,
    run::{Operation, Prost, RunError},
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
    enter: Enter,
}

impl Consumer {
    /// Returns what its layer has to declare.
    pub fn operations() -> [ProcedureBuilder; 2] {
        let operation = tonic_idempotency::policy::Procedure::operation;
        [operation("ledger.v1/Send"), operation("ledger.v1/Enter").mode(Mode::Transactional)]
    }

    /// Makes the consumer of a layer, with the handlers of a service.
    ///
    /// # Panics
    ///
    /// The layer does not have its operations.
    pub fn new(layer: &IdempotencyLayer, service: Service) -> Self {
        let operation = |name| layer.operation(name).expect("an operation that is declared");
        Self { service, send: operation("ledger.v1/Send"), enter: operation("ledger.v1/Enter") }
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
        let (service, its_metadata, its_message) = (self.service.clone(), metadata.clone(), message.clone());
        let handler = move |call: tonic_idempotency::run::Call| async move {
            let extensions: Extensions = call.extensions().clone();
            let request = Request::from_parts(its_metadata, extensions, its_message);
            service.run(request, procedure).await.map(Response::into_inner)
        };
        let outcome = operation.run(caller, key, &message, handler).await.map_err(told)?;
        let is_replay = outcome.is_replay();
        let mut response = Response::new(outcome.into_inner());
        if is_replay {
            response.metadata_mut().insert("idempotent-replayed", "true".parse().expect("ASCII"));
        }
        Ok(response)
    }
}

/// Returns an error as a client is told of it.
fn told(error: RunError<Status>) -> Status {
    match error {
        RunError::Failed { error, .. } => error,
        RunError::Refused { reason, message, .. } => {
            let details = ErrorDetails::with_error_info(reason.as_str(), DOMAIN, []);
            Status::with_error_details(Code::Aborted, message, details)
        }
        error => Status::internal(error.to_string()),
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

    async fn enter(&self, request: Request<EnterRequest>) -> Result<Response<EnterReply>, Status> {
        self.take(request, &self.enter, Procedure::Enter).await
    }
}
