//! The route of a call, decided by the head of its request.

use std::sync::Arc;

use http::Request;

use super::shared::{Protected, Shared};
use crate::{
    engine::{admission::Admitted, state::Engine},
    grpc::is_grpc,
    key::{IdempotencyKey, InvalidKey, KeyFormat},
    policy::{KeyPolicy, Mode, Procedure, UserPolicy},
    rejection::{MalformedRequest, Rejection},
    telemetry::Unprotected,
    user::UserId,
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
        user: UserId,
        admitted: Admitted,
    },
    Reject(Rejection),
    /// Runs the call in a transaction without a record, because the handler requires a transaction.
    WithoutKey {
        engine: Arc<Engine>,
        protected: Arc<Protected>,
        user: Option<UserId>,
        admitted: Admitted,
    },
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
/// | without a key, to a transactional procedure | in a transaction without a record |
/// | with a key, without a user | refused, or unprotected with a warning ([`UserPolicy`]): passed through, or in a transaction without a record ([`Mode`]) |
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
    let key = match key(request, policies.key_format) {
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
    let user = shared.user_resolver.user(request.headers(), request.extensions());
    if key.is_some() && user.is_none() {
        if policies.on_no_user == UserPolicy::Reject {
            return reject(procedure, Rejection::NoUser);
        }
        let error = "no authenticated user in the request; put the authentication interceptor in front of the \
                     idempotency layer, and insert a UserId into the request's extensions there";
        procedure.telemetry().unprotected(Unprotected::NoUser, &error);
        if policies.mode == Mode::Reserved {
            return Route::PassThrough;
        }
    }
    let admitted = match engine.admission.admit(user) {
        Ok(admitted) => admitted,
        Err(limit) => return Route::Reject(limit.reject(procedure)),
    };
    let (engine, protected) = (Arc::clone(engine), Arc::clone(protected));
    match (key, user) {
        (Some(key), Some(user)) => Route::Protect { engine, protected, key, user, admitted },
        (_, user) => Route::WithoutKey { engine, protected, user, admitted },
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
