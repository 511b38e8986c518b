//! The procedures by which callers look up their calls, wait for their ends, and ask for the policies of a procedure.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::Instant;
use tonic::{Request, Response, Status};
use tonic_idempotency_wire::grpc_timeout;

use super::{message::operation, question::Question, shared_question::SharedQuestions, wait::WaitLimits};
use crate::{
    IdempotencyLayer,
    duration::from_proto,
    engine::shared::state::Engine,
    key::{IdempotencyKey, KeyFormat},
    layer::route::KnownCaller,
    policy,
    proto::v1::{
        DescribeProcedureRequest, GetOperationRequest, Operation, Procedure, Until, WaitOperationRequest,
        operation_service_server::OperationService as Service,
    },
    rejection::Rejection,
    telemetry::ProcedureTelemetry,
};

pub(crate) const DESCRIBE: &str = "/idempotency.v1.OperationService/DescribeProcedure";
const GET: &str = "/idempotency.v1.OperationService/GetOperation";
const WAIT: &str = "/idempotency.v1.OperationService/WaitOperation";

/// Tells callers the state of their own calls: `idempotency.v1.OperationService`. Made by
/// [`IdempotencyLayer::operations`].
///
/// | the request | is answered with |
/// |---|---|
/// | without a user, or without a scope where each call needs one | `UNAUTHENTICATED` |
/// | with a malformed key | `INVALID_ARGUMENT`, `IDEMPOTENCY_KEY_INVALID` |
/// | for a key that the caller has not used | `STATE_ABSENT`, also if another user has |
/// | for a call whose replay the application's [`ReplayAuthorizer`](crate::policy::ReplayAuthorizer) withholds | the authorizer's status |
/// | beyond a limit of requests in flight, or that wait | `UNAVAILABLE` or `RESOURCE_EXHAUSTED`, `IDEMPOTENCY_OVERLOADED` |
/// | that waits during a shutdown of the layer | `UNAVAILABLE`, `IDEMPOTENCY_SHUTTING_DOWN` |
/// | while the store cannot be asked, or fails | as a call ([`StoreErrorKind`](crate::store::StoreErrorKind)) |
/// | for the policies of a procedure that the layer does not protect, whether or not the server has it | `NOT_FOUND` |
/// | for those of a procedure that it protects | a `Procedure`, with each policy that has an effect |
/// | any other | an `Operation` |
///
/// A key is a UUID in any of its forms, or any other text of 1–255 visible ASCII characters, as with
/// [`KeyFormat::Any`]: the same text is the same key under either format.
#[derive(Clone)]
pub struct OperationService {
    layer: IdempotencyLayer,
    waiting: WaitLimits,
    questions: Arc<SharedQuestions>,
    telemetry: Arc<Telemetry>,
}

/// The telemetry of each procedure.
struct Telemetry {
    describe: ProcedureTelemetry,
    get: ProcedureTelemetry,
    wait: ProcedureTelemetry,
}

impl OperationService {
    pub(super) fn new(layer: IdempotencyLayer, waiting: WaitLimits) -> Self {
        let [describe, get, wait] = [DESCRIBE, GET, WAIT].map(|path| ProcedureTelemetry::new(path.into()));
        let telemetry = Arc::new(Telemetry { describe, get, wait });
        Self { layer, waiting, questions: Arc::default(), telemetry }
    }

    fn engine(&self) -> Result<&Arc<Engine>, Status> {
        self.layer.engine().ok_or_else(|| Status::unimplemented("the idempotency layer of this server has no store"))
    }

    fn caller<T>(&self, request: &Request<T>, telemetry: &ProcedureTelemetry) -> Result<KnownCaller, Rejection> {
        self.layer.caller_of(request.metadata().as_ref(), request.extensions(), telemetry)
    }

    /// Returns the question of a caller for a call of its own.
    fn question<'a>(
        &'a self,
        caller: KnownCaller,
        key: &str,
        path: &'static str,
        telemetry: &'a ProcedureTelemetry,
    ) -> Result<Question<'a>, Status> {
        let KnownCaller { caller, owner, session } = caller;
        let (layer, engine, key) = (&self.layer, self.engine()?, parse(key, telemetry)?.id());
        Ok(Question { layer, engine, owner, key, caller, session, telemetry, path })
    }
}

#[tonic::async_trait]
impl Service for OperationService {
    async fn get_operation(&self, request: Request<GetOperationRequest>) -> Result<Response<Operation>, Status> {
        let telemetry = &self.telemetry.get;
        let caller = self.caller(&request, telemetry)?;
        let GetOperationRequest { key } = request.into_inner();
        let question = self.question(caller, &key, GET, telemetry)?;
        let _admitted =
            question.engine.admission.admit(Some(question.owner)).map_err(|limit| limit.reject(telemetry))?;
        let record = question.look_up().await?;
        question.authorize(&record).await?;
        Ok(Response::new(operation(key, &question.with_work(record).await)))
    }

    async fn wait_operation(&self, request: Request<WaitOperationRequest>) -> Result<Response<Operation>, Status> {
        let telemetry = &self.telemetry.wait;
        let caller = self.caller(&request, telemetry)?;
        let of_caller = grpc_timeout(request.metadata().as_ref());
        let WaitOperationRequest { key, until, timeout } = request.into_inner();
        let until = Until::try_from(until).map_err(|_| Status::invalid_argument("until: unknown value"))?;
        let deadline = Instant::now() + self.waiting.time(timeout.map(duration).transpose()?, of_caller);
        let question = self.question(caller, &key, WAIT, telemetry)?;
        let _watcher = question.engine.admission.watch(question.owner).map_err(|limit| limit.reject(telemetry))?;
        let known = self.waiting.wait(&question, &self.questions, until, deadline).await?;
        Ok(Response::new(operation(key, &known)))
    }

    async fn describe_procedure(
        &self,
        request: Request<DescribeProcedureRequest>,
    ) -> Result<Response<Procedure>, Status> {
        let telemetry = &self.telemetry.describe;
        let KnownCaller { owner, .. } = self.caller(&request, telemetry)?;
        let _admitted = self.engine()?.admission.admit(Some(owner)).map_err(|limit| limit.reject(telemetry))?;
        let path = policy::path(request.into_inner().procedure);
        let procedure = self.layer.protected(&path).ok_or_else(unprotected)?;
        Ok(Response::new(procedure.describe()))
    }
}

/// The answer for a procedure that the layer does not protect.
fn unprotected() -> Status {
    Status::not_found(
        "the idempotency layer of this server does not protect the procedure: opt it in with the option (idempotency.v1.procedure), or in code",
    )
}

/// Reads the key of a request.
fn parse(key: &str, telemetry: &ProcedureTelemetry) -> Result<IdempotencyKey, Rejection> {
    IdempotencyKey::new(key, KeyFormat::Any).map_err(|invalid| {
        let rejection = Rejection::KeyFieldInvalid { field: "key".to_owned(), key: invalid };
        telemetry.rejected(rejection.reason().as_str());
        rejection
    })
}

fn duration(timeout: prost_types::Duration) -> Result<Duration, Status> {
    from_proto(timeout).ok_or_else(|| Status::invalid_argument("timeout: it is negative, or not a duration"))
}

impl fmt::Debug for OperationService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperationService").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}
