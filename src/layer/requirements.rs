//! The requirements of procedures: parts that their layer has to have.

use crate::{
    engine::shared::reconcilers::Reconcilers,
    policy::{LeasePolicy, Mode, Procedure, ProcedureError},
    store::DynStore,
};

/// Checks that the layer has the parts that the procedure's policies require, and completes the procedure with what the store
/// knows. Without a store, they do not require any.
pub(super) fn check_requirements(
    procedure: Procedure,
    store: Option<&dyn DynStore>,
    has_status_resolver: bool,
    reconcilers: &Reconcilers,
) -> Result<Procedure, ProcedureError> {
    let (path, policies) = (procedure.path(), procedure.policies());
    let Some(store) = store else { return Ok(procedure) };
    let mut id_kind = None;
    if let (Some(creates), Some(known)) = (procedure.creates(), store.resource_types()) {
        let (procedure, resource_type) = (path.to_owned(), creates.resource_type.clone());
        let Some(known_type) = known.get(&resource_type) else {
            let known = known.iter().map(|known| known.name().to_owned()).collect();
            return Err(ProcedureError::UnknownResourceType { procedure, resource_type, known });
        };
        if creates.tracked && !known_type.is_tracked() && !has_status_resolver {
            return Err(ProcedureError::NoStatus { procedure, resource_type });
        }
        id_kind = Some(known_type.id_kind());
    } else if let Some(creates) = procedure.creates()
        && creates.tracked
        && !store.has_statuses()
        && !has_status_resolver
    {
        let (procedure, resource_type) = (path.to_owned(), creates.resource_type.clone());
        return Err(ProcedureError::NoStatus { procedure, resource_type });
    }
    if policies.mode == Mode::Transactional && !store.has_transactions() {
        return Err(ProcedureError::NoTransactions { procedure: path.to_owned() });
    }
    if policies.reconciles() && !reconcilers.contains(path) {
        let by_lease = policies.on_lease_ended == LeasePolicy::Reconcile;
        let setting = if by_lease { "on_lease_ended" } else { "on_foreign_reservation" };
        return Err(ProcedureError::NoReconciler { procedure: path.to_owned(), setting });
    }
    match id_kind {
        Some(kind) => procedure.with_id_kind(kind),
        None => Ok(procedure),
    }
}
