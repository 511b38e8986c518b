//! The parts that a layer needs for its procedures.

use crate::{
    engine::reconcilers::Reconcilers,
    policy::{LeasePolicy, Mode, Procedure, ProcedureError},
    store::DynStore,
};

/// Checks that the layer has the parts that the procedure's policies require. Without a store, they do not require any.
pub(super) fn check_parts(
    procedure: &Procedure,
    store: Option<&dyn DynStore>,
    reconcilers: &Reconcilers,
) -> Result<(), ProcedureError> {
    let (path, policies) = (procedure.path(), procedure.policies());
    let Some(store) = store else { return Ok(()) };
    if let (Some(creates), Some(known)) = (procedure.creates(), store.resource_types())
        && known.get(&creates.resource_type).is_none()
    {
        return Err(ProcedureError::UnknownResourceType {
            procedure: path.to_owned(),
            resource_type: creates.resource_type.clone(),
            known: known.iter().map(|known| known.name().to_owned()).collect(),
        });
    }
    if policies.mode == Mode::Transactional && !store.has_transactions() {
        return Err(ProcedureError::NoTransactions { procedure: path.to_owned() });
    }
    if policies.reconciles() && !reconcilers.contains(path) {
        let by_lease = policies.on_lease_ended == LeasePolicy::Reconcile;
        let setting = if by_lease { "on_lease_ended" } else { "on_foreign_reservation" };
        return Err(ProcedureError::NoReconciler { procedure: path.to_owned(), setting });
    }
    Ok(())
}
