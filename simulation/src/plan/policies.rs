//! The drawn policies, as a stored plan has them.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use tonic::Code;
use tonic_idempotency::policy::{
    DisconnectPolicy, ExpiredKeyPolicy, FinalErrors, ForeignPolicy, InProgressPolicy, Isolation, LeasePolicy, Policies,
    StorePolicy,
};

macro_rules! stored {
    ($($field:ident: $type:ident { $($value:ident),* })*) => {
        #[derive(Deserialize, Serialize)]
        struct Stored {
            $($field: String,)*
            handler_timeout: Duration,
            has_final_errors: bool,
            lease: Duration,
            max_wait: Duration,
            retention: Duration,
            transaction_idle: Duration,
        }

        pub(super) fn serialize<S: Serializer>(policies: &Policies, to: S) -> Result<S::Ok, S::Error> {
            let Policies { handler_timeout, lease, max_wait, retention, transaction_idle, .. } = *policies;
            let has_final_errors = !policies.final_errors.is_empty();
            $(let $field = format!("{:?}", policies.$field);)*
            Stored { $($field,)* handler_timeout, has_final_errors, lease, max_wait, retention, transaction_idle }.serialize(to)
        }

        pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Policies, D::Error> {
            let stored = Stored::deserialize(from)?;
            let Stored { handler_timeout, has_final_errors, lease, max_wait, retention, transaction_idle, .. } = &stored;
            Ok(Policies {
                $($field: match stored.$field.as_str() {
                    $(stringify!($value) => $type::$value,)*
                    other => return Err(D::Error::custom(format!("an unknown policy: {other}"))),
                },)*
                final_errors: final_errors(*has_final_errors),
                handler_timeout: *handler_timeout,
                lease: *lease,
                max_wait: *max_wait,
                retention: *retention,
                transaction_idle: *transaction_idle,
                ..Policies::default()
            })
        }
    };
}

stored! {
    expired_keys: ExpiredKeyPolicy { Refuse, Run }
    isolation: Isolation { ReadCommitted, RepeatableRead, Serializable }
    on_disconnect: DisconnectPolicy { Finish, RollBack }
    on_foreign_reservation: ForeignPolicy { InProgress, Reconcile, Rerun }
    on_in_progress: InProgressPolicy { Abort, Wait }
    on_lease_ended: LeasePolicy { Reconcile, Refuse, Rerun }
    on_store_unavailable: StorePolicy { Proceed, Reject }
}

/// Returns the errors that end an operation, or none.
pub(super) fn final_errors(are_there: bool) -> FinalErrors {
    let codes = [Code::FailedPrecondition, Code::NotFound];
    FinalErrors::new(codes.into_iter().take(usize::from(are_there) * 2)).expect("codes that may be final")
}
