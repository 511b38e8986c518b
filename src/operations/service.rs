//! [`OperationService`].

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::Instant;
use tonic::{Request, Response, Status};

use super::{
    message::operation,
    question::Question,
    release::{self, Operators},
    shared_question::SharedQuestions,
    wait::Waiting,
    waiters::Waiters,
};
use crate::{
    IdempotencyLayer,
    caller::{Caller, UserId},
    duration::from_proto,
    engine::state::Engine,
    grpc::grpc_timeout,
    key::{IdempotencyKey, KeyFormat},
    layer::route::KnownCaller,
    proto::v1::{
        GetOperationRequest, Operation, ReleaseOperationRequest, Until, WaitOperationRequest,
        operation_service_server::OperationService as Service,
    },
    rejection::Rejection,
    store::{CallSession, OperatorRelease},
    telemetry::ProcedureTelemetry,
};

const GET: &str = "/idempotency.v1.OperationService/GetOperation";
const WAIT: &str = "/idempotency.v1.OperationService/WaitOperation";
const RELEASE: &str = "/idempotency.v1.OperationService/ReleaseOperation";

/// Tells callers what became of their own calls: `idempotency.v1.OperationService`. Made by
/// [`IdempotencyLayer::operations`].
///
/// | the request | is answered with |
/// |---|---|
/// | without a user, or without a scope where each call needs one | `UNAUTHENTICATED` |
/// | with a malformed key | `INVALID_ARGUMENT`, `IDEMPOTENCY_KEY_INVALID` |
/// | for a key that the caller has not used | `STATE_ABSENT`, also if another user has |
/// | for a call whose replay the application's [`ReplayAuthorizer`](crate::policy::ReplayAuthorizer) withholds | its status |
/// | beyond a limit of requests in flight, or that wait | `UNAVAILABLE` or `RESOURCE_EXHAUSTED`, `IDEMPOTENCY_OVERLOADED` |
/// | that waits during a shutdown of the layer | `UNAVAILABLE`, `IDEMPOTENCY_SHUTTING_DOWN` |
/// | while the store cannot be asked, or fails | as a call ([`StoreErrorKind`](crate::store::StoreErrorKind)) |
/// | to release a key, not from an operator | `PERMISSION_DENIED` |
/// | to release a key, without a store that can | `UNIMPLEMENTED` |
/// | to release a key that a transaction or another token holds, or whose call has an outcome | `FAILED_PRECONDITION` |
/// | any other | an `Operation` |
///
/// A key is a UUID in any of its forms, or any other text of 1–255 visible ASCII characters, as with
/// [`KeyFormat::Any`]: the same text is the same key under either format.
#[derive(Clone)]
pub struct OperationService {
    layer: IdempotencyLayer,
    waiting: Waiting,
    waiters: Arc<Waiters>,
    questions: Arc<SharedQuestions>,
    operators: Arc<Operators>,
    telemetry: Arc<Telemetry>,
}

/// That of each procedure.
struct Telemetry {
    get: ProcedureTelemetry,
    wait: ProcedureTelemetry,
    release: ProcedureTelemetry,
}

impl OperationService {
    pub(super) fn new(
        layer: IdempotencyLayer,
        waiting: Waiting,
        waiters: Arc<Waiters>,
        operators: Arc<Operators>,
    ) -> Self {
        let [get, wait, release] = [GET, WAIT, RELEASE].map(|path| ProcedureTelemetry::new(path.into()));
        let telemetry = Arc::new(Telemetry { get, wait, release });
        Self { layer, waiting, waiters, questions: Arc::default(), operators, telemetry }
    }

    fn engine(&self) -> Result<&Arc<Engine>, Status> {
        self.layer.engine().ok_or_else(|| Status::unimplemented("the idempotency layer of this server has no store"))
    }

    fn caller<T>(&self, request: &Request<T>, telemetry: &ProcedureTelemetry) -> Result<KnownCaller, Rejection> {
        self.layer.caller_of(request.metadata().as_ref(), request.extensions(), telemetry)
    }

    /// The question of a caller for a call of its own.
    fn question<'a>(
        &'a self,
        caller: KnownCaller,
        key: &str,
        (path, telemetry): (&'static str, &'a ProcedureTelemetry),
    ) -> Result<Question<'a>, Status> {
        let KnownCaller { caller, owner, session } = caller;
        let (layer, engine, key) = (&self.layer, self.engine()?, parse(key, telemetry)?.id());
        Ok(Question { layer, engine, owner, key, caller: Some(caller), session, telemetry, path })
    }
}

#[tonic::async_trait]
impl Service for OperationService {
    async fn get_operation(&self, request: Request<GetOperationRequest>) -> Result<Response<Operation>, Status> {
        let telemetry = &self.telemetry.get;
        let caller = self.caller(&request, telemetry)?;
        let GetOperationRequest { key } = request.into_inner();
        let question = self.question(caller, &key, (GET, telemetry))?;
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
        let question = self.question(caller, &key, (WAIT, telemetry))?;
        let _waiter = self.waiters.admit(question.owner).map_err(|limit| limit.reject(telemetry))?;
        let known = self.waiting.wait(&question, &self.questions, until, deadline).await?;
        Ok(Response::new(operation(key, &known)))
    }

    async fn release_operation(
        &self,
        request: Request<ReleaseOperationRequest>,
    ) -> Result<Response<Operation>, Status> {
        let telemetry = &self.telemetry.release;
        let KnownCaller { caller: operator, .. } = self.caller(&request, telemetry)?;
        let store = self.operators.store_for(&operator, request.extensions())?;
        let engine = self.engine()?;
        let ReleaseOperationRequest { key: text, user, token, reason } = request.into_inner();
        let key = parse(&text, telemetry)?.id();
        let user = UserId::from_text(&user).map_err(|error| Status::invalid_argument(format!("user: {error}")))?;
        let (owner, token) = (Caller::new(user).owner(), release::token(&token)?);
        release::release(store, OperatorRelease { owner, key, token, reason }, &operator, telemetry).await?;
        let (layer, session) = (&self.layer, CallSession::default());
        let after = Question { layer, engine, owner, key, caller: None, session, telemetry, path: RELEASE };
        let record = after.look_up().await?;
        Ok(Response::new(operation(text, &after.with_work(record).await)))
    }
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
        f.debug_struct("OperationService")
            .field("waiting", &self.waiting)
            .field("operators", &self.operators)
            .finish_non_exhaustive()
    }
}
