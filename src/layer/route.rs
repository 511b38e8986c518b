//! The way of a call, decided by the head of its request.

use std::sync::Arc;

use http::Request;

use super::shared::{Protected, Shared};
use crate::{
    engine::state::Engine,
    grpc::is_grpc,
    key::IdempotencyKey,
    policy::{KeyPolicy, Mode, Procedure, StorePolicy, UserPolicy},
    rejection::{MalformedRequest, Rejection},
    telemetry::Degradation,
    user::UserId,
};

/// The way of a call.
pub(super) enum Route {
    /// As if the layer were not there.
    PassThrough,
    /// Under its key.
    Protect {
        engine: Arc<Engine>,
        protected: Arc<Protected>,
        key: IdempotencyKey,
        user: UserId,
    },
    Reject(Rejection),
    /// Without a record, in a transaction, because the handler needs one.
    WithoutKey {
        engine: Arc<Engine>,
        protected: Arc<Protected>,
        user: Option<UserId>,
    },
}

/// Decides the way of a call.
///
/// | the call | its way |
/// |---|---|
/// | without a store, or to a procedure that is not opted in | passed through |
/// | with a malformed key, or without a key that is required | refused |
/// | without a key, to a reserved procedure | passed through |
/// | while the layer shuts down | refused |
/// | in a protocol that cannot be checked | refused, or passed through with a warning ([`StorePolicy`]) |
/// | without a key, to a transactional procedure | in a transaction without a record |
/// | with a key, without a user | refused, or unprotected with a warning ([`UserPolicy`]) |
/// | with a key and a user | protected |
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
        // The request cannot be checked, as if the store were away.
        let malformed = MalformedRequest::Protocol;
        if policies.on_store_unavailable == StorePolicy::Reject || policies.mode == Mode::Transactional {
            return reject(procedure, Rejection::RequestMalformed(malformed));
        }
        procedure.telemetry().unprotected(Degradation::UnsupportedProtocol, &malformed);
        return Route::PassThrough;
    }
    let user = shared.user_resolver.user(request.headers(), request.extensions());
    let (engine, protected) = (Arc::clone(engine), Arc::clone(protected));
    match (key, user) {
        (Some(key), Some(user)) => Route::Protect { engine, protected, key, user },
        (None, user) => Route::WithoutKey { engine, protected, user },
        (Some(_), None) if policies.on_no_user == UserPolicy::Reject => reject(procedure, Rejection::NoUser),
        (Some(_), None) => {
            let error = "no authenticated user in the request; put the authentication interceptor in front of the \
                         idempotency layer, and have it insert a UserId into the extensions";
            procedure.telemetry().unprotected(Degradation::NoUser, &error);
            match policies.mode {
                Mode::Reserved => Route::PassThrough,
                Mode::Transactional => Route::WithoutKey { engine, protected, user: None },
            }
        }
    }
}

impl Shared {
    /// Whether the call is in another protocol than gRPC, and would not be passed through if it were in gRPC.
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
