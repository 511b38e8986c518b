//! The release of a key by an operator.

use super::{
    SqlStore,
    driver::Driver,
    row::{column, corrupt},
};
use crate::store::{OperatorRelease, OperatorReleaseOutcome, OperatorStore, StoreError};

impl<D: Driver> OperatorStore for SqlStore<D> {
    async fn operator_release(&self, release: &OperatorRelease) -> Result<OperatorReleaseOutcome, StoreError> {
        let [key, owner] = [release.key.as_uuid(), release.owner.as_uuid()].map(ToString::to_string);
        let parameters =
            &[key.as_str().into(), owner.as_str().into(), release.token.into(), release.reason.as_str().into()];
        // One at a time: two at once would take each other for a transaction that holds the key.
        let row = self.connections().call(&self.connections().sql().operator_release, parameters).await?;
        match column::<&str>(&row, "outcome")? {
            "absent" => Ok(OperatorReleaseOutcome::Absent),
            "completed" | "failed" | "not_stored" => Ok(OperatorReleaseOutcome::Ended),
            "other_token" => Ok(OperatorReleaseOutcome::OtherToken),
            "released" => Ok(OperatorReleaseOutcome::Released),
            "running" => Ok(OperatorReleaseOutcome::Running),
            other => Err(corrupt(format!("unknown outcome of a release: {other:?}"))),
        }
    }
}
