//! Resolves the procedures of a layer from their options, and their settings in code.

use std::{collections::HashMap, sync::Arc};

use prost_reflect::DescriptorPool;

use crate::{
    engine::{replays::hooks::ReplayHooks, shared::reconcilers::Reconcilers},
    grpc::AcceptedEncodings,
    layer::{requirements::check_requirements, shared::ProtectedProcedure},
    policy::{
        Policies, Procedure, ProcedureBuilder, ProcedureError, ScopePolicy, read_options, resolve, resolve_operation,
    },
    store::DynStore,
};

/// Resolves procedures against the descriptors, and checks that the layer has the parts that they need.
pub(super) struct Resolver<'a> {
    pub(super) pool: &'a DescriptorPool,
    pub(super) policies: &'a Policies,
    pub(super) store: Option<&'a dyn DynStore>,
    pub(super) has_status_resolver: bool,
    pub(super) reconcilers: &'a Reconcilers,
    pub(super) replay_hooks: &'a ReplayHooks,
}

impl Resolver<'_> {
    /// Returns the procedures of services that take keys, by path.
    pub(super) fn procedures(
        &self,
        in_code: Vec<ProcedureBuilder>,
        adjust: impl Fn(ProcedureBuilder) -> ProcedureBuilder,
        accepted: &AcceptedEncodings,
        on_no_scope: ScopePolicy,
    ) -> Result<HashMap<String, Arc<ProtectedProcedure>>, ProcedureError> {
        let resolved = described(self.pool, in_code)?.into_iter().map(|(path, described)| {
            let (procedure, canonical) = resolve(adjust(described), self.pool, self.policies)?;
            let (procedure, accepted) = (self.checked(procedure)?, accepted.clone());
            Ok((path, Arc::new(ProtectedProcedure { procedure, canonical, accepted, on_no_scope })))
        });
        resolved.collect()
    }

    /// Returns the operations that are no procedures of a service, by path.
    pub(super) fn operations(
        &self,
        in_code: Vec<ProcedureBuilder>,
    ) -> Result<HashMap<String, Arc<Procedure>>, ProcedureError> {
        let resolved = in_code.into_iter().map(|operation| {
            let operation = self.checked(resolve_operation(operation, self.pool, self.policies)?)?;
            Ok((operation.path().to_owned(), operation))
        });
        resolved.collect()
    }

    /// Checks that the procedures whose replays are rebuilt take keys.
    pub(super) fn check_rebuilt(&self, takes_keys: impl Fn(&str) -> bool) -> Result<(), ProcedureError> {
        match self.replay_hooks.rebuilt().find(|path| !takes_keys(path)) {
            Some(path) => Err(ProcedureError::NotOptedIn { procedure: path.to_owned(), setting: "rebuild" }),
            None => Ok(()),
        }
    }

    fn checked(&self, procedure: Procedure) -> Result<Arc<Procedure>, ProcedureError> {
        let procedure = check_requirements(procedure, self.store, self.has_status_resolver, self.reconcilers)?;
        if self.replay_hooks.rebuilds(procedure.path()) && procedure.creates().is_none() {
            return Err(ProcedureError::NothingToRebuild { procedure: procedure.path().to_owned() });
        }
        Ok(Arc::new(procedure))
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
