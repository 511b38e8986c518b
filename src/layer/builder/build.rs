//! Builds a layer from its settings.

#[cfg(feature = "connect")]
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

#[cfg(feature = "connect")]
use prost_reflect::DescriptorPool;

use super::{IdempotencyLayerBuilder, procedures::Resolver};
use crate::{
    build_error::BuildError,
    engine::{
        answer::ResponseSettings,
        limits::{admission::Admission, backlog::Backlog, lines::Lines},
        replays::cache::ReplayCache,
        shared::{single_flight::SingleFlight, state::Engine, tracker::CallTracker},
        time::wall_clock::WallClock,
    },
    layer::{layer::IdempotencyLayer, shared::Shared, unprotected::UnprotectedKeys},
    policy::{Limits, ProcedureBuilder},
    store::{DynStore, StoreSettings},
    telemetry,
};
#[cfg(feature = "connect")]
use crate::{
    connect::{Settings, Translator},
    grpc::RequestLimits,
    layer::shared::ProtectedProcedure,
    policy,
};

/// The shortest secret of the hashes of keys, in bytes.
const SHORTEST_SECRET: usize = 16;

impl IdempotencyLayerBuilder {
    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if the descriptors are invalid or in an edition that is not supported, no procedure is opted in, or the
    /// configuration of a procedure or of the replayed metadata is invalid.
    pub fn build(self) -> Result<IdempotencyLayer, BuildError> {
        if self.spans.secret.as_ref().is_some_and(|secret| secret.len() < SHORTEST_SECRET) {
            return Err(BuildError::ShortSecret);
        }
        let pool = self.descriptors.pool()?;
        let metadata_filter = self.replayed_metadata.resolve()?;
        let resolver = Resolver {
            pool: &pool,
            policies: &self.policies,
            store: self.store.as_deref(),
            has_status_resolver: self.status_resolver.is_some(),
            reconcilers: &self.reconcilers,
            replay_hooks: &self.replay_hooks,
        };
        let (operations, in_code) = self.procedures.into_iter().partition(ProcedureBuilder::is_operation);
        let procedures = resolver.procedures(in_code, self.adjust, &self.accepted, self.on_no_scope)?;
        let operations = resolver.operations(operations)?;
        let is_known = |path: &str| procedures.contains_key(path) || operations.contains_key(path);
        resolver.check_rebuilt(is_known)?;
        if procedures.is_empty() && operations.is_empty() && !self.allow_no_procedures {
            return Err(BuildError::NoProcedures);
        }
        check_store(self.store.as_deref(), &self.limits, !procedures.is_empty())?;
        let is_opted_in = |path: &str| procedures.contains_key(path);
        let (overrides, default) = (self.on_unprotected_key_of, self.on_unprotected_key);
        let unprotected_keys = Arc::new(UnprotectedKeys::resolve(&pool, is_opted_in, overrides, default)?);
        #[cfg(feature = "connect")]
        let translator =
            translator(&pool, self.request_limits, self.ignore_unknown_fields, &unprotected_keys, &procedures);
        telemetry::describe();
        let engine = self.store.map(|store| {
            store.set_up(&StoreSettings { limits: self.limits });
            telemetry::in_flight_limit(self.limits.in_flight.at_least_one().server);
            let capacity = store.transaction_capacity();
            let lines = Lines::new(&self.limits, capacity.map_or(usize::MAX, |capacity| capacity.of_a_caller));
            Arc::new(Engine {
                store,
                status_resolver: self.status_resolver,
                reconcilers: self.reconcilers,
                replay_hooks: self.replay_hooks,
                responses: ResponseSettings { metadata_filter, max_bytes: self.max_response_bytes },
                compress_replays_from: self.compress_replays_from,
                lines,
                transaction_pool: capacity.map_or(0, |capacity| capacity.pool),
                admission: Admission::new(&self.limits, self.max_waiting_bytes),
                single_flight: Arc::new(SingleFlight::default()),
                replay_cache: ReplayCache::new(self.replay_cache_bytes, self.replay_cache_max_age),
                backlog: Backlog::new(self.limits.unrecorded, self.max_unrecorded_bytes),
                tracker: CallTracker::default(),
                clock: WallClock::default(),
                spans: self.spans,
                sealer: self.sealer,
            })
        });
        let shared = Shared {
            procedures,
            operations,
            descriptors: pool,
            unprotected_keys,
            engine,
            caller_resolver: self.caller_resolver,
            on_no_scope: self.on_no_scope,
            session_settings: self.session_settings,
            request_limits: self.request_limits,
            #[cfg(feature = "connect")]
            translator,
        };
        Ok(IdempotencyLayer { shared: Arc::new(shared) })
    }
}

/// Checks that the store, if there is one, can do as the limits say.
fn check_store(store: Option<&dyn DynStore>, limits: &Limits, has_procedures: bool) -> Result<(), BuildError> {
    match store {
        Some(store) if limits.records.is_some() && !store.limits_records() => return Err(BuildError::NoRecordLimit),
        None if has_procedures => tracing::warn!(
            "the layer has no store: every call passes through, unprotected; IdempotencyLayerBuilder::store gives it one"
        ),
        _ => {}
    }
    Ok(())
}

#[cfg(feature = "connect")]
fn translator(
    pool: &DescriptorPool,
    request_limits: RequestLimits,
    ignore_unknown_fields: bool,
    unprotected_keys: &Arc<UnprotectedKeys>,
    procedures: &HashMap<String, Arc<ProtectedProcedure>>,
) -> Translator {
    let settings = Settings { ignore_unknown_fields, request_limits, ..Settings::default() };
    let keys = Arc::clone(unprotected_keys);
    let in_message = procedures.iter().filter(|(_, protected)| protected.procedure.key_field().is_some());
    let in_message: HashSet<String> = in_message.map(|(path, _)| path.clone()).collect();
    Translator::new(pool, settings)
        .rejecting_streams(move |path| keys.reject(&policy::path(path.to_owned())).into())
        .lenient_without_key(move |path| !in_message.contains(&policy::path(path.to_owned())))
}
