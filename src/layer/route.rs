//! The route of a call, decided by the head of its request.

use std::sync::Arc;

use http::Request;

use super::shared::{Protected, Shared};
use crate::{
    caller::{Caller, OwnerId},
    engine::{admission::Admitted, state::Engine},
    grpc::is_grpc,
    key::IdempotencyKey,
    policy::{KeyPolicy, Mode, Procedure, ScopePolicy, UserPolicy},
    rejection::{MalformedRequest, Rejection},
    store::{CallSession, InvalidSetting},
    telemetry::{Chain, Unprotected},
};

/// The route of a call.
pub(super) enum Route {
    /// Passes the call through as if the layer were not installed.
    PassThrough,
    /// Runs the call with its key.
    Protect {
        engine: Arc<Engine>,
        protected: Arc<Protected>,
        key: IdempotencyKey,
        caller: KnownCaller,
        admitted: Admitted,
    },
    Reject(Rejection),
    /// Runs the call in a transaction without a record, because the handler requires a transaction.
    WithoutKey {
        engine: Arc<Engine>,
        protected: Arc<Protected>,
        caller: Option<KnownCaller>,
        admitted: Admitted,
    },
}

/// The caller of a call, and what follows from it.
pub(super) struct KnownCaller {
    pub(super) caller: Caller,
    pub(super) owner: OwnerId,
    pub(super) session: CallSession,
}

/// Decides the route of a call. The first row that applies wins.
///
/// | the call | its route |
/// |---|---|
/// | without a store, or to a procedure that is not opted in | passed through |
/// | with a malformed key, or without a required key | refused |
/// | without a key, to a reserved procedure | passed through |
/// | during a shutdown of the layer | refused |
/// | in a protocol that the layer cannot read | refused |
/// | whose caller cannot be resolved | refused |
/// | with a key, without a user | refused, or unprotected with a warning ([`UserPolicy`]): passed through, or in a transaction without a record ([`Mode`]) |
/// | with a key, without a scope | refused, if that is the policy ([`ScopePolicy`]) |
/// | whose session settings are invalid | refused |
/// | without a key, to a transactional procedure | in a transaction without a record |
/// | with a key and a user | protected |
///
/// A call that would be protected, or run in a transaction, is refused beyond the limits of calls in flight.
pub(super) fn route<B>(shared: &Shared, request: &Request<B>) -> Route {
    let Some(engine) = &shared.engine else {
        return Route::PassThrough;
    };
    let Some(protected) = shared.procedures.get(request.uri().path()) else {
        return Route::PassThrough;
    };
    let (procedure, policies) = (&protected.procedure, protected.procedure.policies());
    let key = match request.extensions().get().copied() {
        Some(key) => Ok(Some(key)),
        None => IdempotencyKey::from_headers(request.headers()),
    };
    let key = match key {
        Ok(None) if policies.key_policy == KeyPolicy::Required => return reject(procedure, Rejection::KeyRequired),
        Ok(key) => key,
        Err(invalid) => return reject(procedure, Rejection::KeyInvalid(invalid)),
    };
    if key.is_none() && policies.mode == Mode::Reserved {
        return Route::PassThrough;
    }
    if engine.tracker.shutting_down().is_cancelled() {
        return reject(procedure, Rejection::ShuttingDown);
    }
    if !is_grpc(request.headers()) {
        // The request cannot be read, so it cannot be compared with another one that has its key.
        return reject(procedure, Rejection::RequestMalformed(MalformedRequest::Protocol));
    }
    let caller = match shared.caller_resolver.caller(request.headers(), request.extensions()) {
        Ok(caller) => caller,
        Err(error) => return reject_caller(procedure, &*error),
    };
    if key.is_some() && caller.is_none() {
        if policies.on_no_user == UserPolicy::Reject {
            return reject(procedure, Rejection::NoUser);
        }
        let error = "no authenticated user in the request; put the authentication interceptor in front of the \
                     idempotency layer, and insert a Caller or a UserId into the request's extensions there";
        procedure.telemetry().unprotected(Unprotected::NoUser, &error);
        if policies.mode == Mode::Reserved {
            return Route::PassThrough;
        }
    }
    let has_no_scope = caller.as_ref().is_some_and(|caller| caller.scope.is_none());
    if key.is_some() && has_no_scope && shared.on_no_scope == ScopePolicy::Reject {
        return reject(procedure, Rejection::NoScope);
    }
    let caller = match caller.map(|caller| shared.know(caller, procedure)).transpose() {
        Ok(caller) => caller,
        Err(invalid) => return reject_caller(procedure, &invalid),
    };
    let admitted = match engine.admission.admit(caller.as_ref().map(|caller| caller.owner)) {
        Ok(admitted) => admitted,
        Err(limit) => return Route::Reject(limit.reject(procedure)),
    };
    let (engine, protected) = (Arc::clone(engine), Arc::clone(protected));
    match (key, caller) {
        (Some(key), Some(caller)) => Route::Protect { engine, protected, key, caller, admitted },
        (_, caller) => Route::WithoutKey { engine, protected, caller, admitted },
    }
}

impl Shared {
    /// Asks for the settings of the application if its SQL runs in a transaction of the call: its handler's, or the look-up
    /// of a status.
    fn know(&self, caller: Caller, procedure: &Procedure) -> Result<KnownCaller, InvalidSetting> {
        let mut session = CallSession::of(&caller);
        if let Some(settings) = &self.session_settings
            && (procedure.policies().mode == Mode::Transactional || procedure.creates().is_some())
        {
            session.settings = Some(Arc::new(settings(&caller).check()?));
        }
        Ok(KnownCaller { owner: caller.owner(), caller, session })
    }

    /// Returns whether the call is in a protocol other than gRPC, and would not be passed through if it were in gRPC.
    #[cfg(feature = "connect")]
    pub(super) fn needs_translation<B>(&self, request: &Request<B>) -> bool {
        if self.engine.is_none() || is_grpc(request.headers()) {
            return false;
        }
        let Some(protected) = self.procedures.get(request.uri().path()) else { return false };
        let policies = protected.procedure.policies();
        let has_key = request.headers().contains_key(IdempotencyKey::HEADER)
            || request.extensions().get::<IdempotencyKey>().is_some();
        (has_key || policies.key_policy == KeyPolicy::Required || policies.mode == Mode::Transactional)
            && self.translator.translates(request)
    }
}

fn reject(procedure: &Procedure, rejection: Rejection) -> Route {
    procedure.telemetry().rejected(rejection.reason().as_str());
    Route::Reject(rejection)
}

/// Refuses a call because of what the application says of its caller.
fn reject_caller(procedure: &Procedure, error: &(dyn std::error::Error + 'static)) -> Route {
    let rejection = Rejection::CallerInvalid;
    procedure.telemetry().caller_invalid(rejection.reason().as_str(), &Chain(error));
    Route::Reject(rejection)
}
