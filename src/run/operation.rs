//! Operations, and how one is run: [`Operation`].

use std::{fmt, sync::Arc};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::Extensions;
use protobuf_canonical::{RequestHash, RequestHashes};
use tokio_util::sync::CancellationToken;

use super::{Call, Codec, HandlerError, OperationError, Outcome, RunError, answer::RunAnswer};
use crate::{
    Caller, Execution, IdempotencyKey, IdempotencyLayer,
    engine::{self, dispatch::dispatch, handler::DynHandler, shared::state::Engine},
    grpc::encode_codec,
    layer::route::KnownCaller,
    policy::{DisconnectPolicy, Mode, Procedure, ScopePolicy},
    rejection::Rejection,
    store::Reservation,
    telemetry::Chain,
};

/// An operation that happens once for each key of a caller, however often it is run. Clones are the same.
///
/// See [the module](super) for an example.
pub struct Operation<C> {
    layer: IdempotencyLayer,
    engine: Arc<Engine>,
    procedure: Arc<Procedure>,
    codec: Arc<C>,
    /// The metadata of its records: the codec's name.
    metadata: Bytes,
}

impl IdempotencyLayer {
    /// Returns an operation that the builder has declared, such as `billing.v1/ChargeOrder`. `C` says how its requests are hashed, and its
    /// responses stored.
    ///
    /// # Errors
    ///
    /// [`OperationError`] if it is not declared, if its requests cannot be hashed, or if the layer has no store.
    pub fn operation<C: Codec>(&self, name: &str) -> Result<Operation<C>, OperationError> {
        Operation::new(self, name)
    }
}

impl<C: Codec> Operation<C> {
    fn new(layer: &IdempotencyLayer, name: &str) -> Result<Self, OperationError> {
        let operation = || name.to_owned();
        let engine = layer.engine().ok_or_else(|| OperationError::NoStore { operation: operation() })?;
        let (procedure, descriptors) =
            layer.declared(name).ok_or_else(|| OperationError::Undeclared { operation: operation() })?;
        let codec = C::new(descriptors).map_err(|error| OperationError::Codec { operation: operation(), error })?;
        let (layer, engine, procedure) = (layer.clone(), Arc::clone(engine), Arc::clone(procedure));
        Ok(Self { layer, engine, procedure, codec: Arc::new(codec), metadata: encode_codec(C::NAME) })
    }

    /// Runs the handler, unless an earlier call with this key has run it: then returns that call's response. The key is the id that each
    /// delivery of the message has; the request is compared with that of the earlier call, and not stored.
    ///
    /// The handler runs in a task of its own, to its end.
    ///
    /// # Errors
    ///
    /// [`RunError`]: of the handler, or the reason why it did not run.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the handler runs to its end, and the next call with the key gets its response; a transactional operation is
    /// rolled back instead if that is its policy ([`DisconnectPolicy`]).
    pub async fn run<E, F>(
        &self,
        caller: &Caller,
        key: &str,
        request: &C::Request,
        handler: impl FnOnce(Call) -> F + Send + 'static,
    ) -> Result<Outcome<C::Response>, RunError<E>>
    where
        E: HandlerError,
        F: Future<Output = Result<C::Response, E>> + Send + 'static,
    {
        let key = IdempotencyKey::new(key, self.procedure.policies().key_format);
        self.run_with(caller, key.map_err(Rejection::KeyInvalid), request, handler).await
    }

    /// Runs the operation inside of a call, or of another operation, whose handler has this execution: with its caller, and a key that is made
    /// of its key and this name ([`IdempotencyKey::downstream`]). So it runs once, however often that handler does.
    ///
    /// It is an operation of its own, which ends before the handler goes on: in transactional mode too it has a transaction of its own, on
    /// another connection, and stays if that of the outer call is rolled back. Effects that belong together are written by one handler,
    /// whose record protects them all. For limits and a shutdown it counts as a call of its own.
    ///
    /// ```
    /// # use std::convert::Infallible;
    /// # use tonic_idempotency::run::{Bytes, Call, Operation, RunError};
    /// # async fn example(ship: Operation<Bytes>) -> Result<(), RunError<Infallible>> {
    /// # let handler =
    /// |call: Call| async move {
    ///     let make = |_call| async { Ok::<_, Infallible>(b"label".to_vec()) };
    ///     ship.run_within(&call.execution(), "label", b"order 17", make).await
    /// };
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As of [`run`](Self::run); [`RunError::Refused`] also if the outer call has no key.
    ///
    /// # Cancel safety
    ///
    /// As of [`run`](Self::run).
    pub async fn run_within<E, F>(
        &self,
        outer: &Execution,
        name: &str,
        request: &C::Request,
        handler: impl FnOnce(Call) -> F + Send + 'static,
    ) -> Result<Outcome<C::Response>, RunError<E>>
    where
        E: HandlerError,
        F: Future<Output = Result<C::Response, E>> + Send + 'static,
    {
        let Some((caller, key)) = outer.origin() else { return Err(self.refuse(Rejection::KeyRequired)) };
        self.run_with(caller, Ok(key.downstream(name).into()), request, handler).await
    }

    async fn run_with<E, F>(
        &self,
        caller: &Caller,
        key: Result<IdempotencyKey, Rejection>,
        request: &C::Request,
        handler: impl FnOnce(Call) -> F + Send + 'static,
    ) -> Result<Outcome<C::Response>, RunError<E>>
    where
        E: HandlerError,
        F: Future<Output = Result<C::Response, E>> + Send + 'static,
    {
        let hash = self.codec.hash(request).map_err(RunError::Request)?;
        let policies = self.procedure.policies();
        let key = key.map_err(|rejection| self.refuse(rejection))?;
        let KnownCaller { caller, owner, session } = self.know(caller).map_err(|rejection| self.refuse(rejection))?;
        let telemetry = self.procedure.telemetry();
        let admitted = self.engine.admission.admit(Some(owner));
        let admitted = admitted.map_err(|limit| RunError::refused(&limit.reject(telemetry)))?;
        let disconnected = (policies.on_disconnect == DisconnectPolicy::RollBack).then(CancellationToken::new);
        let call = engine::call::ProtectedCall {
            procedure: Arc::clone(&self.procedure),
            reservation: Reservation::new(owner, key.id()),
            caller: Some(caller.clone()),
            session,
            request_hashes: RequestHashes::new(RequestHash::from(hash), None),
            request: None,
            metadata: Some(self.metadata.clone()),
            can_be_final: E::can_be_final(&policies.final_errors),
            deadline: None,
            disconnected: disconnected.clone(),
        };
        let call_of_handler = Call { caller, key, extensions: Extensions::new() };
        let handler = Ready { handler, call: call_of_handler, mode: policies.mode };
        let _disconnected = disconnected.map(CancellationToken::drop_guard);
        let answer: Option<RunAnswer<C, E>> =
            dispatch(Arc::clone(&self.engine), Arc::new(call), Box::new(handler), None, admitted).await;
        answer.map_or(Err(RunError::Panicked), RunAnswer::into_result)
    }

    /// Finds what the layer knows of a caller.
    fn know(&self, caller: &Caller) -> Result<KnownCaller, Rejection> {
        if caller.scope.is_none() && self.layer.on_no_scope() == ScopePolicy::Reject {
            return Err(Rejection::NoScope);
        }
        self.layer.know(caller.clone(), &self.procedure).map_err(|invalid| {
            let rejection = Rejection::CallerInvalid;
            self.procedure.telemetry().caller_invalid(rejection.reason().as_str(), &Chain(&invalid));
            rejection
        })
    }

    fn refuse<E>(&self, rejection: Rejection) -> RunError<E> {
        self.procedure.telemetry().rejected(rejection.reason().as_str());
        RunError::refused(&rejection)
    }
}

impl<C> Clone for Operation<C> {
    fn clone(&self) -> Self {
        let Self { layer, engine, procedure, codec, metadata } = self;
        let (engine, procedure, codec) = (Arc::clone(engine), Arc::clone(procedure), Arc::clone(codec));
        Self { layer: layer.clone(), engine, procedure, codec, metadata: metadata.clone() }
    }
}

impl<C> fmt::Debug for Operation<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation").field("procedure", &self.procedure).finish_non_exhaustive()
    }
}

/// A handler, and what it gets.
struct Ready<H> {
    handler: H,
    call: Call,
    mode: Mode,
}

impl<C, E, H, F> DynHandler<RunAnswer<C, E>> for Ready<H>
where
    C: Codec,
    E: HandlerError,
    H: FnOnce(Call) -> F + Send,
    F: Future<Output = Result<C::Response, E>> + Send + 'static,
{
    fn extensions_mut(&mut self) -> &mut Extensions {
        &mut self.call.extensions
    }

    fn run(self: Box<Self>) -> BoxFuture<'static, RunAnswer<C, E>> {
        let Self { handler, call, mode } = *self;
        let running = handler(call);
        Box::pin(async move { RunAnswer::of_handler(running.await, mode) })
    }
}
