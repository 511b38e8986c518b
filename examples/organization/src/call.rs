use tonic::{Request, Status};
use tonic_idempotency::{Execution, IdempotencyKey, Transaction};
use uuid::Uuid;

use crate::auth::Caller;

/// What a create call comes with.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) caller: Caller,
    /// What the handler tells the idempotency layer.
    pub(crate) execution: Execution,
    /// Its idempotency key.
    pub(crate) key: Option<Uuid>,
    /// What it writes with; `None` where its procedure is in reserved mode.
    pub(crate) transaction: Option<Transaction>,
}

impl Call {
    /// The call that this request belongs to.
    ///
    /// # Errors
    ///
    /// `UNAUTHENTICATED` where it did not come through [`Authentication`](crate::auth::Authentication).
    pub(crate) fn of<T>(request: &Request<T>) -> Result<Self, Status> {
        Ok(Self {
            caller: Caller::of(request)?,
            execution: Execution::of(request),
            key: request.extensions().get::<IdempotencyKey>().map(|key| *key.as_uuid()),
            transaction: Transaction::of(request).ok(),
        })
    }
}
