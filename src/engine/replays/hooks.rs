//! The application's hooks for replays: authorizers and rebuilders.

use std::{collections::HashMap, panic::AssertUnwindSafe, time::Duration};

use bytes::Bytes;
use futures_util::{FutureExt as _, future::BoxFuture};
use prost::Message as _;
use tokio::time::timeout;
use tonic::Status;

use crate::{
    caller::Caller,
    engine::call::ProtectedCall,
    key::KeyId,
    policy::{Procedure, RebuildRequest, Rebuilder, ReplayAuthorizer, ReplayRequest},
    status::{Resource, ResourceId},
};

/// The authorizer and the rebuilders of a layer.
pub(crate) struct ReplayHooks {
    timeout: Duration,
    authorizer: Option<Box<dyn DynAuthorizer>>,
    /// By the paths of their procedures.
    rebuilders: HashMap<String, Box<dyn DynRebuilder>>,
}

impl Default for ReplayHooks {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(5), authorizer: None, rebuilders: HashMap::new() }
    }
}

impl ReplayHooks {
    pub(crate) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    pub(crate) fn set_authorizer(&mut self, authorizer: impl ReplayAuthorizer) {
        self.authorizer = Some(Box::new(authorizer));
    }

    pub(crate) fn rebuild_of(&mut self, path: String, rebuilder: impl Rebuilder) {
        self.rebuilders.insert(path, Box::new(rebuilder));
    }

    /// The paths that rebuilders are set for.
    pub(crate) fn rebuilt(&self) -> impl Iterator<Item = &str> {
        self.rebuilders.keys().map(String::as_str)
    }

    /// Returns whether the replays of a procedure are rebuilt, and its responses not stored.
    pub(crate) fn rebuilds(&self, path: &str) -> bool {
        self.rebuilders.contains_key(path)
    }

    /// Asks whether this call may be answered with the replay of a call that created this resource; `None` if there is no
    /// authorizer to ask. Boxed, so that it takes no memory while a handler runs.
    pub(in crate::engine) fn authorize<'a>(
        &'a self,
        call: &'a ProtectedCall,
        resource: Option<&ResourceId>,
    ) -> Option<BoxFuture<'a, Result<(), Status>>> {
        // Without a caller it is a recovery, which gives no replay.
        self.authorize_caller(&call.procedure, call.caller.as_ref()?, call.reservation.key, resource)
    }

    /// Asks whether this caller may know how the call with this key ended; `None` likewise.
    pub(crate) fn authorize_caller<'a>(
        &'a self,
        procedure: &'a Procedure,
        caller: &Caller,
        key: KeyId,
        resource: Option<&ResourceId>,
    ) -> Option<BoxFuture<'a, Result<(), Status>>> {
        let authorizer = self.authorizer.as_ref()?;
        let resource = resource_of(procedure, resource);
        let request = ReplayRequest { caller: caller.clone(), key, procedure: procedure.path().to_owned(), resource };
        Some(Box::pin(self.ask(procedure, "authorizer", || authorizer.authorize(request))))
    }

    /// Makes the message of a replay; `None` if the procedure's replays are copies. Boxed, likewise.
    pub(in crate::engine) fn rebuild<'a>(
        &'a self,
        call: &'a ProtectedCall,
        resource: Option<&ResourceId>,
    ) -> Option<BoxFuture<'a, Result<Bytes, Status>>> {
        let rebuilder = self.rebuilders.get(call.procedure.path())?;
        let (caller, resource) = (call.caller.clone()?, resource_of(&call.procedure, resource)?);
        let request = RebuildRequest { caller, key: call.reservation.key, resource };
        Some(Box::pin(self.ask(&call.procedure, "rebuilder", || rebuilder.rebuild(request))))
    }

    /// Waits for a hook. A hook that panics or takes too long fails the replay.
    async fn ask<'a, T>(
        &self,
        procedure: &Procedure,
        hook: &'static str,
        asked: impl FnOnce() -> BoxFuture<'a, Result<T, Status>>,
    ) -> Result<T, Status> {
        let asked = AssertUnwindSafe(async { asked().await }).catch_unwind();
        let (status, problem) = match timeout(self.timeout, asked).await {
            Ok(Ok(Ok(answer))) => return Ok(answer),
            Ok(Ok(Err(status))) => (status, None),
            Ok(Err(_panic)) => (Status::internal(format!("the {hook} of replays panicked")), Some("it panicked")),
            Err(_) => {
                let why = format!("the {hook} of replays took too long; retry with the same key");
                (Status::unavailable(why), Some("it took too long"))
            }
        };
        procedure.telemetry().replay_withheld(hook, status.code(), problem);
        Err(status)
    }
}

fn resource_of(procedure: &Procedure, id: Option<&ResourceId>) -> Option<Resource> {
    let creates = procedure.creates()?;
    id.map(|id| Resource { resource_type: creates.resource_type.clone(), id: id.clone() })
}

/// A [`ReplayAuthorizer`] without its type.
trait DynAuthorizer: Send + Sync {
    fn authorize(&self, request: ReplayRequest) -> BoxFuture<'_, Result<(), Status>>;
}

impl<A: ReplayAuthorizer> DynAuthorizer for A {
    fn authorize(&self, request: ReplayRequest) -> BoxFuture<'_, Result<(), Status>> {
        Box::pin(ReplayAuthorizer::authorize(self, request))
    }
}

/// A [`Rebuilder`] without its type.
trait DynRebuilder: Send + Sync {
    fn rebuild(&self, request: RebuildRequest) -> BoxFuture<'_, Result<Bytes, Status>>;
}

impl<R: Rebuilder> DynRebuilder for R {
    fn rebuild(&self, request: RebuildRequest) -> BoxFuture<'_, Result<Bytes, Status>> {
        Box::pin(async move { Ok(Rebuilder::rebuild(self, request).await?.encode_to_vec().into()) })
    }
}
