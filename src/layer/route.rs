//! The route of a call, decided by the head of its request.

use std::sync::Arc;

use http::{Extensions, HeaderMap, Request};

use super::shared::{ProtectedProcedure, Shared};
use crate::{
    caller::{Caller, OwnerId},
    engine::{limits::admission::CountedCall, shared::state::Engine},
    grpc::is_grpc,
    key::{IdempotencyKey, InvalidKey, KeyFormat},
    policy::{KeyPolicy, Mode, Procedure, ScopePolicy, UserPolicy},
    rejection::{MalformedRequest, Rejection},
    store::{CallSession, InvalidSetting},
    telemetry::{Chain, ProcedureTelemetry, Unprotected},
};

/// The route of a call.
pub(super) enum Route {
    /// Reads the call, whose key may be in its message, and [decides](decide) then.
    FindKey {
        engine: Arc<Engine>,
        protected: Arc<ProtectedProcedure>,
        key: Option<IdempotencyKey>,
        caller: Option<KnownCaller>,
        admitted: CountedCall,
    },
    /// Passes the call through as if the layer were not installed.
    PassThrough,
    /// Runs the call with its key.
    Protect {
        engine: Arc<Engine>,
        protected: Arc<ProtectedProcedure>,
        key: IdempotencyKey,
        caller: KnownCaller,
        admitted: CountedCall,
    },
    Reject(Rejection),
    /// Runs the call in a transaction without a record, because the handler requires a transaction.
    WithoutKey {
        engine: Arc<Engine>,
        protected: Arc<ProtectedProcedure>,
        caller: Option<KnownCaller>,
        admitted: CountedCall,
    },
}

/// The caller of a call, and what follows from it.
pub(crate) struct KnownCaller {
    pub(crate) caller: Caller,
    pub(crate) owner: OwnerId,
    pub(crate) session: CallSession,
}

impl KnownCaller {
    /// Returns the owner and the session of a call without a record, if it has a caller.
    pub(super) fn owner_and_session(caller: Option<Self>) -> (Option<OwnerId>, CallSession) {
        caller.map_or((None, CallSession::default()), |known| (Some(known.owner), known.session))
    }
}

/// Decides the route of a call. The first row that applies wins.
///
/// | the call | its route |
/// |---|---|
/// | without a store | passed through |
/// | to a procedure that is not opted in | passed through; rejected if it has a key and [that is the policy](super::unprotected::UnprotectedKeys) |
/// | with a malformed key in its head | rejected |
/// | without a key, unless its message may have one | rejected if the key is required; passed through if the procedure is reserved |
/// | during a shutdown of the layer | rejected |
/// | in a protocol that the layer cannot read | rejected |
/// | whose caller or session settings are invalid | rejected |
/// | to a procedure with a key field | read, and decided then |
/// | any other | as [`decide`] says |
///
/// A call whose message is to be read is rejected if too many calls are in flight.
pub(super) fn route<B>(shared: &Shared, request: &Request<B>) -> Route {
    let Some(engine) = &shared.engine else {
        return Route::PassThrough;
    };
    let Some(protected) = shared.procedures.get(request.uri().path()) else {
        return shared.unprotected_keys.check(request).map_or_else(Route::Reject, |()| Route::PassThrough);
    };
    let procedure = &protected.procedure;
    let key = match key(request, procedure.policies().key_format) {
        Ok(key) => key,
        Err(invalid) => return reject(procedure, Rejection::KeyInvalid(invalid)),
    };
    let has_key_field = procedure.key_field().is_some();
    if key.is_none() && !has_key_field {
        match without_key(procedure) {
            Some(Decision::Reject(rejection)) => return Route::Reject(rejection),
            Some(_) => return Route::PassThrough,
            None => {}
        }
    }
    if engine.tracker.shutting_down().is_cancelled() {
        return reject(procedure, Rejection::ShuttingDown);
    }
    if !is_grpc(request.headers()) {
        // The request cannot be read, and so not be compared with the first request that has its key.
        return reject(procedure, Rejection::RequestMalformed(MalformedRequest::Protocol));
    }
    let caller = match shared.caller_resolver.caller(request.headers(), request.extensions()) {
        Ok(caller) => caller,
        Err(error) => return reject_caller(procedure, &*error),
    };
    let caller = match caller.map(|caller| shared.know(caller, procedure)).transpose() {
        Ok(caller) => caller,
        Err(invalid) => return reject_caller(procedure, &invalid),
    };
    let owner = caller.as_ref().map(|caller| caller.owner);
    if has_key_field {
        return admit(engine, protected, owner, |engine, protected, admitted| Route::FindKey {
            engine,
            protected,
            key,
            caller,
            admitted,
        });
    }
    match decide(protected, key, caller) {
        Decision::PassThrough => Route::PassThrough,
        Decision::Protect(key, caller) => admit(engine, protected, owner, |engine, protected, admitted| {
            Route::Protect { engine, protected, key, caller, admitted }
        }),
        Decision::Reject(rejection) => Route::Reject(rejection),
        Decision::WithoutKey(caller) => admit(engine, protected, owner, |engine, protected, admitted| {
            Route::WithoutKey { engine, protected, caller, admitted }
        }),
    }
}

/// Routes a call that is to be read, within the limits of calls in flight.
fn admit(
    engine: &Arc<Engine>,
    protected: &Arc<ProtectedProcedure>,
    owner: Option<OwnerId>,
    route: impl FnOnce(Arc<Engine>, Arc<ProtectedProcedure>, CountedCall) -> Route,
) -> Route {
    match engine.admission.admit(owner) {
        Ok(admitted) => route(Arc::clone(engine), Arc::clone(protected), admitted),
        Err(limit) => Route::Reject(limit.reject(protected.procedure.telemetry())),
    }
}

/// The decision on a call whose key is known, if it has one.
pub(super) enum Decision {
    PassThrough,
    Protect(IdempotencyKey, KnownCaller),
    Reject(Rejection),
    WithoutKey(Option<KnownCaller>),
}

/// Decides on a call whose key is known, if it has one.
///
/// | the call | |
/// |---|---|
/// | without a required key | rejected |
/// | without a key, to a reserved procedure | passed through |
/// | without a key, to a transactional procedure | in a transaction without a record |
/// | with a key, without a user | rejected, or unprotected with a warning ([`UserPolicy`]): passed through, or in a transaction without a record ([`Mode`]) |
/// | with a key, without a scope | rejected, if that is the policy ([`ScopePolicy`]) |
/// | with a key and a user | protected |
pub(super) fn decide(
    protected: &ProtectedProcedure,
    key: Option<IdempotencyKey>,
    caller: Option<KnownCaller>,
) -> Decision {
    let procedure = &protected.procedure;
    let Some(key) = key else {
        return without_key(procedure).unwrap_or(Decision::WithoutKey(caller));
    };
    if let Some(caller) = caller {
        return match (&caller.caller.scope, protected.on_no_scope) {
            (None, ScopePolicy::Reject) => {
                procedure.telemetry().caller_missing("no Caller with a scope");
                Decision::Reject(counted(procedure, Rejection::NoScope))
            }
            _ => Decision::Protect(key, caller),
        };
    }
    if procedure.policies().on_no_user == UserPolicy::Reject {
        procedure.telemetry().caller_missing("no authenticated user");
        return Decision::Reject(counted(procedure, Rejection::NoUser));
    }
    let error = "no authenticated user in the request; put the authentication interceptor in front of the idempotency \
                 layer, and insert a Caller or a UserId into the request's extensions there";
    procedure.telemetry().unprotected(Unprotected::NoUser, &error);
    match procedure.policies().mode {
        Mode::Reserved => Decision::PassThrough,
        Mode::Transactional => Decision::WithoutKey(None),
    }
}

/// Decides on a call without a key; `None` if it is to run in a transaction.
fn without_key(procedure: &Procedure) -> Option<Decision> {
    let policies = procedure.policies();
    match (policies.key_policy, policies.mode) {
        (KeyPolicy::Required, _) => {
            let rejection = match procedure.key_field() {
                Some(field) => Rejection::KeyFieldRequired { field: field.to_owned() },
                None => Rejection::KeyRequired,
            };
            Some(Decision::Reject(counted(procedure, rejection)))
        }
        (KeyPolicy::Optional, Mode::Reserved) => Some(Decision::PassThrough),
        (KeyPolicy::Optional, Mode::Transactional) => None,
    }
}

/// Returns the key in the head of a request: the one that an interceptor in front of the layer has parsed, or else the header's.
fn key<B>(request: &Request<B>, format: KeyFormat) -> Result<Option<IdempotencyKey>, InvalidKey> {
    match request.extensions().get::<IdempotencyKey>() {
        Some(key) => key.checked(format).map(Some),
        None => IdempotencyKey::from_headers(request.headers(), format),
    }
}

impl Shared {
    /// Asks for the settings of the application if its SQL runs in a transaction of the call: its handler's, or the look-up
    /// of a status.
    pub(super) fn know(&self, caller: Caller, procedure: &Procedure) -> Result<KnownCaller, InvalidSetting> {
        let runs_sql = procedure.policies().mode == Mode::Transactional || procedure.tracks().is_some();
        self.know_with_settings(caller, runs_sql)
    }

    fn know_with_settings(&self, caller: Caller, wanted: bool) -> Result<KnownCaller, InvalidSetting> {
        let mut session = CallSession::of(&caller);
        if let Some(settings) = self.session_settings.as_ref().filter(|_| wanted) {
            session.settings = Some(Arc::new(settings(&caller).check()?));
        }
        Ok(KnownCaller { owner: caller.owner(), caller, session })
    }

    /// Finds the caller of a request to the operation service, which needs a user, and a scope if calls with a key need one.
    pub(super) fn caller_of(
        &self,
        headers: &HeaderMap,
        extensions: &Extensions,
        telemetry: &ProcedureTelemetry,
    ) -> Result<KnownCaller, Rejection> {
        let invalid = |error: &(dyn std::error::Error + 'static)| {
            let rejection = Rejection::CallerInvalid;
            telemetry.caller_invalid(rejection.reason().as_str(), &Chain(error));
            rejection
        };
        let found = self.caller_resolver.caller(headers, extensions).map_err(|error| invalid(&*error))?;
        let rejection = match &found {
            None => Rejection::NoUser,
            Some(Caller { scope: None, .. }) if self.on_no_scope == ScopePolicy::Reject => Rejection::NoScope,
            Some(caller) => return self.know_with_settings(caller.clone(), true).map_err(|error| invalid(&error)),
        };
        telemetry.rejected(rejection.reason().as_str());
        Err(rejection)
    }

    /// Returns whether the call is in a protocol other than gRPC, and would not be passed through if it were in gRPC.
    #[cfg(feature = "connect")]
    pub(super) fn needs_translation<B>(&self, request: &Request<B>) -> bool {
        if self.engine.is_none() || is_grpc(request.headers()) {
            return false;
        }
        let Some(protected) = self.procedures.get(request.uri().path()) else {
            return self.unprotected_keys.rejects(request) && self.translator.translates(request);
        };
        let policies = protected.procedure.policies();
        let may_have_key = request.headers().contains_key(IdempotencyKey::HEADER)
            || request.extensions().get::<IdempotencyKey>().is_some()
            || protected.procedure.key_field().is_some();
        (may_have_key || policies.key_policy == KeyPolicy::Required || policies.mode == Mode::Transactional)
            && self.translator.translates(request)
    }
}

fn reject(procedure: &Procedure, rejection: Rejection) -> Route {
    Route::Reject(counted(procedure, rejection))
}

fn counted(procedure: &Procedure, rejection: Rejection) -> Rejection {
    procedure.telemetry().rejected(rejection.reason().as_str());
    rejection
}

/// Rejects a call whose caller or session settings are invalid.
fn reject_caller(procedure: &Procedure, error: &(dyn std::error::Error + 'static)) -> Route {
    let rejection = Rejection::CallerInvalid;
    procedure.telemetry().caller_invalid(rejection.reason().as_str(), &Chain(error));
    Route::Reject(rejection)
}
