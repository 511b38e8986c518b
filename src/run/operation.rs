//! Operations, and how one is run: [`Operation`].

use std::{borrow::Borrow as _, fmt, sync::Arc};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::Extensions;
use protobuf_canonical::{RequestHash, RequestHashes};
use tokio_util::sync::CancellationToken;

use super::{
    Call, Codec, CodecError, DeadLetter, HandlerError, OperationError, Outcome, RunError, Settlement, answer::RunAnswer,
};
use crate::{
    Caller, Execution, IdempotencyKey, IdempotencyLayer,
    engine::{
        self,
        attempts::Attempts,
        dispatch::dispatch,
        handler::{DynHandler, Handler},
        shared::state::Engine,
    },
    grpc::encode_codec,
    layer::route::KnownCaller,
    nesting::Nesting,
    policy::{DisconnectPolicy, Mode, Procedure, ScopePolicy},
    rejection::Rejection,
    store::Reservation,
    telemetry::Chain,
};

/// An operation that happens once for each id of a caller, however often it is run. Clones are the same.
///
/// See [the module](super) for an example. Its name is a part of [each key](Call::key): **a renamed operation runs redeliveries again.**
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

    /// Runs the handler for a message, unless an earlier delivery of it has: then returns that one's response. `bytes` are the message as it
    /// was delivered. [`Codec::read`] makes the request of them, `id` returns the id that each delivery has, and the handler gets the request.
    /// The request is compared with the first one [by both](Codec::hashes), so that a new version of the program, which reads other fields,
    /// takes the same bytes for the same request. It is not stored.
    ///
    /// An id is any text but the empty one. It belongs to one operation: a second one may take the same id, of the same event. A UUID is the
    /// same id in each of its forms.
    ///
    /// The handler runs in a task of its own, to its end. Runs beyond what [one caller may have](crate::policy::Limits) wait in a line, the first
    /// come first, before they count for anything; not those inside of a handler. In a task that a handler spawns and waits for, use
    /// [`run_within`](Self::run_within): it knows its handler there, too.
    ///
    /// # Errors
    ///
    /// [`RunError`]: of the handler, or the reason why it did not run.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped while it waits in the line, nothing has happened. Afterwards, the handler runs to its end, and the next delivery
    /// gets its response; a transactional operation is rolled back instead if that is its policy ([`DisconnectPolicy`]).
    pub async fn receive<I, E, F>(
        &self,
        caller: &Caller,
        id: impl FnOnce(&C::Request) -> I + Send,
        bytes: &[u8],
        handler: impl FnOnce(Call, <C::Request as ToOwned>::Owned) -> F + Send + 'static,
    ) -> Result<Outcome<C::Response>, RunError<E>>
    where
        I: AsRef<str>,
        E: HandlerError,
        F: Future<Output = Result<C::Response, E>> + Send + 'static,
    {
        let nesting = Nesting::current();
        let message = C::read(bytes).and_then(|request| {
            let hashes = self.codec.hashes(bytes, request.borrow())?;
            Ok((self.key(id(request.borrow()).as_ref()), hashes, request))
        });
        let (key, hashes, request) = message.map_err(|error| self.malformed(error, nesting))?;
        let bytes = self.procedure.policies().reconciles().then(|| Bytes::copy_from_slice(bytes));
        let delivery = Delivery { key, hashes, bytes, nesting };
        self.run_with(caller, delivery, move |call| handler(call, request)).await
    }

    /// As [`receive`](Self::receive), for a request that has no bytes, such as a job of a scheduler: it is compared as a value, so that a
    /// version of the program that knows other fields may refuse it. A [`Reconciler`](crate::policy::Reconciler) gets no request.
    ///
    /// # Errors
    ///
    /// As of [`receive`](Self::receive).
    ///
    /// # Cancel safety
    ///
    /// As of [`receive`](Self::receive).
    pub async fn run<E, F>(
        &self,
        caller: &Caller,
        id: &str,
        request: &C::Request,
        handler: impl FnOnce(Call) -> F + Send + 'static,
    ) -> Result<Outcome<C::Response>, RunError<E>>
    where
        E: HandlerError,
        F: Future<Output = Result<C::Response, E>> + Send + 'static,
    {
        let nesting = Nesting::current();
        let hashes = self.hashes(request, nesting)?;
        let delivery = Delivery { key: self.key(id), hashes, bytes: None, nesting };
        self.run_with(caller, delivery, handler).await
    }

    /// Runs the operation inside of a call, or of another operation, whose handler has this execution: with its caller, and an id that is made
    /// of its key and this name ([`IdempotencyKey::downstream`]). So it runs once, however often that handler does.
    ///
    /// It is an operation of its own, which ends before the handler goes on: in transactional mode too it has a transaction of its own, on
    /// another connection, and stays if that of the outer call is rolled back. Effects that belong together are written by one handler,
    /// whose record protects them all. For limits and a shutdown it counts as a call of its own, and it waits in no line.
    ///
    /// Of the transactions that a store may have, the last one is for those inside of others, once it has seen one. There is none for a third
    /// transaction inside of these two, nor if the pool has only one: that is refused at once.
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
    /// As of [`receive`](Self::receive); [`RunError::Refused`] also if the outer call has no key. The handler of a gRPC call may return it as a
    /// `Status` (`?`).
    ///
    /// # Cancel safety
    ///
    /// As of [`receive`](Self::receive).
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
        let nesting = Some(outer.nesting());
        let hashes = self.hashes(request, nesting)?;
        let Some((caller, key)) = outer.origin() else { return Err(self.reject(Rejection::KeyRequired)) };
        let key = self.key(&key.downstream(name).to_string());
        self.run_with(caller, Delivery { key, hashes, bytes: None, nesting }, handler).await
    }

    /// The hash of a request without bytes.
    fn hashes<E>(&self, request: &C::Request, nesting: Option<Nesting>) -> Result<RequestHashes, RunError<E>> {
        let hash = self.codec.hash(request).map_err(|error| self.malformed(error, nesting))?;
        Ok(RequestHash::from(hash).into())
    }

    /// The key of the operation with this id.
    fn key(&self, id: &str) -> Result<IdempotencyKey, Rejection> {
        IdempotencyKey::of_operation(self.procedure.path(), id).map_err(Rejection::KeyInvalid)
    }

    async fn run_with<E, F>(
        &self,
        caller: &Caller,
        delivery: Delivery,
        handler: impl FnOnce(Call) -> F + Send + 'static,
    ) -> Result<Outcome<C::Response>, RunError<E>>
    where
        E: HandlerError,
        F: Future<Output = Result<C::Response, E>> + Send + 'static,
    {
        let key = delivery.key.as_ref().ok().map(|key| *key.id().as_uuid());
        let is_message = delivery.nesting.is_none();
        let ended = self.admit(caller, delivery, handler).await;
        if let (Settlement::DeadLetter(cause), true) = (Settlement::of(&ended), is_message) {
            self.procedure.telemetry().dead_letter(cause.as_str(), key);
        }
        ended
    }

    /// Waits in the line, counts the run, and hands it to the engine.
    async fn admit<E, F>(
        &self,
        caller: &Caller,
        Delivery { key, hashes, bytes, nesting }: Delivery,
        handler: impl FnOnce(Call) -> F + Send + 'static,
    ) -> Result<Outcome<C::Response>, RunError<E>>
    where
        E: HandlerError,
        F: Future<Output = Result<C::Response, E>> + Send + 'static,
    {
        let reject = |rejection| self.reject(rejection);
        let policies = self.procedure.policies();
        let key = key.map_err(reject)?;
        let KnownCaller { caller, owner, session } = self.know(caller).map_err(reject)?;
        let place = match nesting {
            None => Some(
                self.engine.lines.enter(&self.procedure, self.engine.tracker.shutting_down()).await.map_err(reject)?,
            ),
            Some(_) => None,
        };
        let telemetry = self.procedure.telemetry();
        let admitted = self.engine.admission.admit(Some(owner));
        let mut admitted = admitted.map_err(|limit| RunError::rejected(&limit.reject(telemetry)))?;
        admitted.keep(place);
        let disconnected = (policies.on_disconnect == DisconnectPolicy::RollBack).then(CancellationToken::new);
        let call = engine::call::ProtectedCall {
            procedure: Arc::clone(&self.procedure),
            reservation: Reservation::new(owner, key.id()),
            caller: Some(caller.clone()),
            session,
            request_hashes: hashes,
            request: bytes,
            metadata: Some(self.metadata.clone()),
            can_be_final: E::can_be_final(&policies.final_errors),
            nesting: nesting.unwrap_or_default(),
            deadline: None,
            disconnected: disconnected.clone(),
            attempts: Attempts::default(),
            keys: None,
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

    fn malformed<E>(&self, error: CodecError, nesting: Option<Nesting>) -> RunError<E> {
        if nesting.is_none() {
            self.procedure.telemetry().dead_letter(DeadLetter::Malformed.as_str(), None);
        }
        RunError::Malformed(error)
    }

    fn reject<E>(&self, rejection: Rejection) -> RunError<E> {
        self.procedure.telemetry().rejected(rejection.reason().as_str());
        RunError::rejected(&rejection)
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

/// A run, as its caller asked for it.
struct Delivery {
    key: Result<IdempotencyKey, Rejection>,
    hashes: RequestHashes,
    /// The bytes of the request, for the reconciler.
    bytes: Option<Bytes>,
    /// The handlers around it; `None` for none.
    nesting: Option<Nesting>,
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

    /// A redelivery runs it again.
    fn repeated(&self) -> Option<Handler<RunAnswer<C, E>>> {
        None
    }

    fn run(self: Box<Self>) -> BoxFuture<'static, RunAnswer<C, E>> {
        let Self { handler, call, mode } = *self;
        let running = handler(call);
        Box::pin(async move { RunAnswer::of_handler(running.await, mode) })
    }
}
