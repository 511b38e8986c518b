//! Builds a layer from its settings.

use std::{collections::HashMap, sync::Arc};

use prost_reflect::DescriptorPool;

use super::IdempotencyLayerBuilder;
use crate::{
    build_error::BuildError,
    engine::{
        answer::ResponseSettings,
        limits::{admission::Admission, backlog::Backlog, lines::Lines},
        replays::cache::ReplayCache,
        shared::{single_flight::SingleFlight, state::Engine, tracker::CallTracker},
        time::wall_clock::WallClock,
    },
    layer::{
        layer::IdempotencyLayer,
        parts::check_parts,
        shared::{ProtectedProcedure, Shared},
        unprotected::UnprotectedKeys,
    },
    policy::{ProcedureBuilder, ProcedureError, read_options, resolve, resolve_operation},
    store::{STATUS_TIMEOUT, StoreSettings},
    telemetry,
};
#[cfg(feature = "connect")]
use crate::{
    connect::{Settings, Translator},
    layer::shared::RequestLimits,
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
        let mut procedures = HashMap::new();
        let has_status_resolver = self.status_resolver.is_some();
        let checked = |procedure| {
            let procedure = check_parts(procedure, self.store.as_deref(), has_status_resolver, &self.reconcilers)?;
            if self.replay_hooks.rebuilds(procedure.path()) && procedure.creates().is_none() {
                return Err(ProcedureError::NothingToRebuild { procedure: procedure.path().to_owned() });
            }
            Ok(Arc::new(procedure))
        };
        let (operations, in_code) = self.procedures.into_iter().partition(ProcedureBuilder::is_operation);
        for (path, described) in described(&pool, in_code)? {
            let (procedure, canonical) = resolve((self.adjust)(described), &pool, &self.policies)?;
            let (procedure, accepted) = (checked(procedure)?, self.accepted.clone());
            let protected = ProtectedProcedure { procedure, canonical, accepted, on_no_scope: self.on_no_scope };
            procedures.insert(path, Arc::new(protected));
        }
        let resolve = |operation: ProcedureBuilder| {
            let operation = checked(resolve_operation(operation, &pool, &self.policies)?)?;
            Ok((operation.path().to_owned(), operation))
        };
        let operations: Vec<ProcedureBuilder> = operations;
        let operations = operations.into_iter().map(resolve).collect::<Result<HashMap<_, _>, ProcedureError>>()?;
        let is_known = |path: &str| procedures.contains_key(path) || operations.contains_key(path);
        if let Some(path) = self.replay_hooks.rebuilt().find(|path| !is_known(path)) {
            return Err(ProcedureError::NotOptedIn { procedure: path.to_owned(), setting: "rebuild" }.into());
        }
        if procedures.is_empty() && operations.is_empty() && !self.allow_no_procedures {
            return Err(BuildError::NoProcedures);
        }
        if self.store.is_none() && !procedures.is_empty() {
            tracing::warn!(
                "the layer has no store: every call passes through, unprotected; IdempotencyLayerBuilder::store gives it one"
            );
        }
        if self.limits.records.is_some() && self.store.as_ref().is_some_and(|store| !store.limits_records()) {
            return Err(BuildError::NoRecordLimit);
        }
        let is_opted_in = |path: &str| procedures.contains_key(path);
        let (overrides, default) = (self.on_unprotected_key_of, self.on_unprotected_key);
        let unprotected_keys = Arc::new(UnprotectedKeys::resolve(&pool, is_opted_in, overrides, default)?);
        #[cfg(feature = "connect")]
        let translator = {
            let in_message = |protected: &ProtectedProcedure| protected.procedure.key_field().is_some();
            let of_message =
                procedures.iter().filter(|(_, protected)| in_message(protected)).map(|(path, _)| path.clone());
            let of_message: std::collections::HashSet<String> = of_message.collect();
            translator(&pool, &self.request_limits, self.ignore_unknown_fields, &unprotected_keys)
                .lenient_without_key(move |path| !of_message.contains(&policy::path(path.to_owned())))
        };

        telemetry::describe();
        let engine = self.store.map(|store| {
            store.set_up(&StoreSettings { limits: self.limits, status_timeout: self.status_timeout });
            let capacity = store.transaction_capacity();
            let lines = Lines::new(&self.limits, capacity.map_or(usize::MAX, |capacity| capacity.of_a_caller));
            Arc::new(Engine {
                store,
                status_resolver: self.status_resolver,
                status_timeout: self.status_timeout.unwrap_or(STATUS_TIMEOUT),
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

/// Returns the configured procedures, by path. A setting in code overrides the option, and a later one overrides an earlier one.
fn described(
    pool: &DescriptorPool,
    in_code: Vec<ProcedureBuilder>,
) -> Result<HashMap<String, ProcedureBuilder>, ProcedureError> {
    let mut described: HashMap<String, ProcedureBuilder> = HashMap::new();
    for procedure in read_options(pool)?.into_iter().chain(in_code) {
        let path = procedure.path().to_owned();
        let procedure = match described.remove(&path) {
            Some(earlier) => procedure.over(earlier),
            None => procedure,
        };
        described.insert(path, procedure);
    }
    Ok(described)
}

#[cfg(feature = "connect")]
fn translator(
    pool: &DescriptorPool,
    limits: &RequestLimits,
    ignore_unknown_fields: bool,
    unprotected_keys: &Arc<UnprotectedKeys>,
) -> Translator {
    let settings = Settings {
        ignore_unknown_fields,
        max_message_bytes: limits.bytes,
        request_body_timeout: limits.time,
        ..Settings::default()
    };
    let keys = Arc::clone(unprotected_keys);
    Translator::new(pool, settings).refusing_streams(move |path| keys.refuse(&policy::path(path.to_owned())).into())
}
