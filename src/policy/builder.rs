//! The settings of a procedure, and the builder that takes them.
//!
//! A new setting that is an enum or a duration is a row of the table below, on one line, and the field of the same name in
//! `procedure.proto`. From the row follow the field of [`Policies`], its default, the method of [`ProcedureBuilder`], the reading of
//! the option, and the check of its value. For a value of another type, add a kind of row beside `choice!` and `duration!`.

use std::time::Duration;

use tonic::Code;

use super::{
    DisconnectPolicy, EffectPolicy, ExpiredKeyPolicy, FinalErrors, ForeignPolicy, InProgressPolicy, Isolation,
    KeyPolicy, LeasePolicy, Mode, ProcedureError, StorePolicy, UserPolicy,
};
use crate::{duration::from_proto, key::KeyFormat, proto::v1};

/// The maximum lease and retention, ten years: longer ones are mistakes, and clocks would overflow.
pub(super) const MAX_DURATION: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The maximum wait for a running call, one hour: no client waits longer.
const MAX_WAIT: Duration = Duration::from_secs(60 * 60);

/// A row whose values are those of an enum. The option has an enum with the same name and the same values.
macro_rules! choice {
    (default $type:ident { $($value:ident),* }) => {
        $type::default()
    };
    (read $path:ident $name:ident: $type:ident { $($value:ident),* } of $option:expr) => {
        match v1::$type::try_from($option) {
            Ok(v1::$type::Unspecified) => None,
            $(Ok(v1::$type::$value) => Some($type::$value),)*
            Err(_) => return Err(unknown_value($path, stringify!($name))),
        }
    };
    (check $path:ident $name:ident { $($value:ident),* } of $set:expr) => {
        $set
    };
    (write $type:ident { $($value:ident),* } of $set:expr) => {
        match $set {
            $($type::$value => v1::$type::$value.into(),)*
        }
    };
}

/// A row whose value is more than zero, and at most the second duration. The first one is the default.
macro_rules! duration {
    (default $type:ident { $default:expr, $most:expr }) => {
        $default
    };
    (read $path:ident $name:ident: $type:ident { $default:expr, $most:expr } of $option:expr) => {
        match $option.map(from_proto) {
            None => None,
            Some(Some(duration)) => Some(duration),
            Some(None) => return Err(invalid_duration($path, stringify!($name), $most)),
        }
    };
    (check $path:ident $name:ident { $default:expr, $most:expr } of $set:expr) => {
        match $set {
            duration if duration.is_zero() || duration > $most => {
                return Err(invalid_duration($path, stringify!($name), $most));
            }
            duration => duration,
        }
    };
    (write $type:ident { $default:expr, $most:expr } of $set:expr) => {
        prost_types::Duration::try_from($set).ok()
    };
}

macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident: $type:ident = $kind:ident $values:tt;)*) => {
        /// The policies of a procedure, or the layer's defaults for all procedures.
        ///
        /// The Go interceptor, whose behaviour some defaults follow, is the design that this crate grew from.
        ///
        /// ```
        /// use std::time::Duration;
        /// use tonic_idempotency::policy::{Policies, StorePolicy};
        ///
        /// // Default.
        /// let defaults = Policies::default();
        /// assert_eq!(defaults.lease, Duration::from_secs(60));
        /// assert_eq!(defaults.retention, Duration::from_secs(24 * 3600));
        ///
        /// // Customised.
        /// let lenient = Policies { on_store_unavailable: StorePolicy::Proceed, ..defaults };
        /// assert_ne!(lenient, defaults);
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(
            clippy::exhaustive_structs,
            reason = "written as `Policies { .., ..Policies::default() }`, to which a policy can be added"
        )]
        pub struct Policies {
            $($(#[$doc])* pub $name: $type,)*
            /// The errors of the handler that end the operation: they are stored and replayed like a response. Any other error
            /// frees the key. Defaults to none, like the Go interceptor.
            pub final_errors: FinalErrors,
        }

        impl Default for Policies {
            fn default() -> Self {
                Self { $($name: $kind!(default $type $values),)* final_errors: FinalErrors::NONE }
            }
        }

        /// The settings of one procedure. One that is not set has the layer's value.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub(super) struct ProcedureSettings {
            $(pub(super) $name: Option<$type>,)*
        }

        impl ProcedureSettings {
            /// Reads the settings of a procedure's option.
            pub(super) fn read(path: &str, option: &v1::Procedure) -> Result<Self, ProcedureError> {
                Ok(Self { $($name: $kind!(read path $name: $type $values of option.$name),)* })
            }

            /// Returns the policies of the procedure with this path, if all are valid.
            pub(super) fn policies(
                &self,
                path: &str,
                defaults: &Policies,
                final_errors: FinalErrors,
            ) -> Result<Policies, ProcedureError> {
                Ok(Policies {
                    $($name: $kind!(check path $name $values of self.$name.unwrap_or(defaults.$name)),)*
                    final_errors,
                })
            }

            fn over(self, other: Self) -> Self {
                Self { $($name: self.$name.or(other.$name),)* }
            }
        }

        impl Policies {
            /// Writes the policies as a procedure's option, without the final errors.
            pub(super) fn write(&self) -> v1::Procedure {
                v1::Procedure {
                    $($name: $kind!(write $type $values of self.$name),)*
                    ..v1::Procedure::default()
                }
            }
        }

        impl ProcedureBuilder {
            $(
                #[doc = concat!("Sets [`", stringify!($name), "`](Policies::", stringify!($name), ") for this procedure.")]
                ///
                $(#[$doc])*
                pub fn $name(mut self, value: $type) -> Self {
                    self.settings.$name = Some(value);
                    self
                }
            )*
        }
    };
}

settings! {
    /// The place where a reserved handler takes effect. Defaults to [`EffectPolicy::Anywhere`].
    effect: EffectPolicy = choice { Anywhere, SameServer };
    /// The policy for a key that is a UUID of version 7 older than the retention, and has no record. Defaults to
    /// [`ExpiredKeyPolicy::Run`].
    expired_keys: ExpiredKeyPolicy = choice { Refuse, Run };
    /// The isolation level of transactions. Defaults to [`Isolation::ReadCommitted`].
    isolation: Isolation = choice { ReadCommitted, RepeatableRead, Serializable };
    /// The time within which the handler has to end, from its first begin, whatever the caller's deadline. Afterwards the call is answered with
    /// `IDEMPOTENCY_HANDLER_TIMEOUT`: a transaction is rolled back; a reserved handler is told ([`Execution::lease_lost`](crate::Execution::lease_lost))
    /// and aborted, and its lease is renewed no more. More than zero, at most ten years. Defaults to 1 hour; of an
    /// [operation](super::Procedure::operation) to ten years, whatever the layer's default.
    handler_timeout: Duration = duration { Duration::from_secs(60 * 60), MAX_DURATION };
    /// The form of the keys. Defaults to [`KeyFormat::Uuid`].
    key_format: KeyFormat = choice { Any, Uuid };
    /// The policy for calls without a key. Defaults to [`KeyPolicy::Optional`].
    key_policy: KeyPolicy = choice { Optional, Required };
    /// The time for which a reservation is valid without a renewal. While the handler runs, the lease is renewed after
    /// each third of this time. More than zero, at most ten years. Defaults to 1 minute.
    lease: Duration = duration { Duration::from_secs(60), MAX_DURATION };
    /// The time for which a call with [`InProgressPolicy::Wait`] waits for the running call. More than zero, at most
    /// one hour. Defaults to 30 seconds.
    max_wait: Duration = duration { Duration::from_secs(30), MAX_WAIT };
    /// The way in which the handler's writes and the record are committed. Defaults to [`Mode::Reserved`].
    mode: Mode = choice { Reserved, Transactional };
    /// The policy for a transactional call whose client disconnects. Defaults to [`DisconnectPolicy::Finish`].
    on_disconnect: DisconnectPolicy = choice { Finish, RollBack };
    /// The policy for a key that another system has reserved without a lease. Defaults to
    /// [`ForeignPolicy::InProgress`].
    on_foreign_reservation: ForeignPolicy = choice { InProgress, Reconcile, Rerun };
    /// The policy for a call whose key is in use by a call that is still running. Defaults to
    /// [`InProgressPolicy::Abort`].
    on_in_progress: InProgressPolicy = choice { Abort, Wait };
    /// The policy for a key whose lease ended without an outcome. Defaults to [`LeasePolicy::Rerun`].
    on_lease_ended: LeasePolicy = choice { Reconcile, Refuse, Rerun };
    /// The policy for calls with a key and without an authenticated user. Defaults to [`UserPolicy::Reject`].
    on_no_user: UserPolicy = choice { PassThrough, Reject };
    /// The policy for calls while the store cannot be asked. Defaults to [`StorePolicy::Reject`].
    on_store_unavailable: StorePolicy = choice { Proceed, Reject };
    /// The time for which a completed record is stored, from its completion, accurate to 1 %. More than zero, at most
    /// ten years. Defaults to 24 hours, like the Go interceptor.
    retention: Duration = duration { Duration::from_secs(24 * 60 * 60), MAX_DURATION };
    /// The time for which the transaction of a transactional procedure may be idle, before the database ends it and
    /// frees the key. More than zero, at most ten years. Defaults to 5 minutes.
    transaction_idle: Duration = duration { Duration::from_secs(5 * 60), MAX_DURATION };
}

impl Policies {
    /// Returns whether a call is refused whose key has expired.
    pub(crate) fn refuses_expired_keys(&self) -> bool {
        self.expired_keys == ExpiredKeyPolicy::Refuse
    }

    /// Returns whether a key that was taken over is reconciled before its handler runs.
    pub(crate) fn reconciles(&self) -> bool {
        self.on_lease_ended == LeasePolicy::Reconcile || self.on_foreign_reservation == ForeignPolicy::Reconcile
    }
}

/// The resource that a procedure creates, and the field of the response with its id.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Creates {
    /// The name of a resource type of the store, such as `project`.
    pub resource_type: String,
    /// The field of the response with the resource's id: a string, an integer, or the 16 bytes of a UUID. A dotted path selects a
    /// field of a submessage. Of an [operation](super::Procedure::operation) it begins with the full name of the response's message, such as
    /// `shop.v1.CreateOrderReply.order.id`, and the codec has to encode responses as protobuf.
    pub id_field: String,
    /// Whether asynchronous work follows, whose status replays report. If not, the status is always `completed`.
    pub tracked: bool,
}

/// The configuration of a procedure, from its proto option or from code. It is checked against the descriptors when the
/// layer is built. A setting that is not set has the layer's default ([`Policies`]).
///
/// Default, for a procedure that creates no resource:
///
/// ```
/// use tonic_idempotency::policy::Procedure;
///
/// let refund = Procedure::builder("/shop.v1.Payments/Refund");
/// ```
///
/// Customised:
///
/// ```
/// use std::time::Duration;
/// use tonic_idempotency::policy::{KeyPolicy, Procedure, StorePolicy};
///
/// let pay = Procedure::builder("/shop.v1.Payments/Pay")
///     .creates("payment", "payment.id")
///     .key_policy(KeyPolicy::Required)
///     .on_store_unavailable(StorePolicy::Reject)
///     .retention(Duration::from_secs(7 * 24 * 3600));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct ProcedureBuilder {
    pub(super) path: String,
    pub(super) is_operation: bool,
    pub(super) creates: Option<Creates>,
    pub(super) final_errors: Option<Vec<Code>>,
    pub(super) ignore: Vec<String>,
    pub(super) key_field: Option<String>,
    pub(super) redact: Vec<String>,
    pub(super) redact_errors: Vec<String>,
    pub(super) settings: ProcedureSettings,
}

impl ProcedureBuilder {
    /// Sets the type of the created resource, and the field of the response with its id: see [`Creates`]. Replays report the
    /// status of its asynchronous work, so building the layer fails unless the store
    /// ([`ResourceType::tracked`](crate::store::ResourceType::tracked)) or a
    /// [`status_resolver`](crate::layer::IdempotencyLayerBuilder::status_resolver) reports it. Defaults to no resource.
    pub fn creates(mut self, resource_type: impl Into<String>, id_field: impl Into<String>) -> Self {
        self.creates = Some(Creates { resource_type: resource_type.into(), id_field: id_field.into(), tracked: true });
        self
    }

    /// Like [`creates`](Self::creates), for a resource behind which no asynchronous work follows: its id is recorded, and the
    /// status is always `completed`.
    pub fn creates_untracked(mut self, resource_type: impl Into<String>, id_field: impl Into<String>) -> Self {
        self.creates = Some(Creates { resource_type: resource_type.into(), id_field: id_field.into(), tracked: false });
        self
    }

    /// Sets the errors of the handler that end the operation: they are stored and replayed like a response. Building
    /// the layer fails if a code cannot be final: see [`FinalErrors`].
    pub fn final_errors(mut self, codes: impl IntoIterator<Item = Code>) -> Self {
        self.final_errors = Some(codes.into_iter().collect());
        self
    }

    /// Adds a field of the request that clients change between attempts, such as the time of sending or a trace id: it is not
    /// part of the request that is compared. A dotted path selects fields of submessages, also of repeated ones and of the
    /// values of a map. Defaults to comparing all fields.
    ///
    /// Whether the messages around the field are set is compared, as is the number of elements of a list. The handler gets the
    /// request as it is; a replay is of the first attempt. Building the layer fails if a path does not exist, is given twice, or
    /// leads into a field that is ignored as well, or if nothing of the request is left to compare.
    pub fn ignore(mut self, field: impl Into<String>) -> Self {
        self.ignore.push(field.into());
        self
    }

    /// Sets the field of the request that has the key, as [AIP-155](https://google.aip.dev/155) has it in `request_id`: a
    /// string, or the 16 bytes of a UUID. A dotted path selects a field of a submessage. Defaults to none: the key is in the
    /// header.
    ///
    /// If the field is empty, the key is the one in the header, if there is one. A call with different keys in field and header
    /// is refused with `IDEMPOTENCY_KEY_INVALID`. The field is part of the request that is compared.
    ///
    /// The layer reads the message of every call before it knows whether there is a key. So the layer's limits, of calls in
    /// flight and of messages, and the encodings that it accepts apply to calls without a key, too.
    pub fn key_field(mut self, field: impl Into<String>) -> Self {
        self.key_field = Some(field.into());
        self
    }

    /// Adds a field of the response that is not stored, such as a one-time secret: the first caller gets it, a replay
    /// does not. A dotted path selects fields of submessages, also of repeated ones and of the values of a map. Defaults to
    /// storing all fields.
    ///
    /// If a response cannot be decoded, or a message on the path has fields that the descriptors do not know, it is not
    /// stored at all: a retry gets `IDEMPOTENCY_RESPONSE_NOT_STORED`.
    pub fn redact(mut self, field: impl Into<String>) -> Self {
        self.redact.push(field.into());
        self
    }

    /// Adds a type of error details that is not stored with a final error: the full name of a message, such as
    /// `google.rpc.DebugInfo`, or `*` for all of them and the message text. The first caller gets such details, a replay does not. Details
    /// that cannot be decoded, or that are a `google.protobuf.Any` themselves, are not stored either then. Defaults to storing all.
    pub fn redact_error_details(mut self, detail: impl Into<String>) -> Self {
        self.redact_errors.push(detail.into());
        self
    }

    /// Overrides `other`, a configuration of the same procedure, with the settings of this one. Lists are joined.
    pub(crate) fn over(self, other: Self) -> Self {
        let both = |mut these: Vec<String>, others: Vec<String>| {
            let new: Vec<_> = others.into_iter().filter(|other| !these.contains(other)).collect();
            these.extend(new);
            these
        };
        Self {
            path: self.path,
            is_operation: self.is_operation,
            creates: self.creates.or(other.creates),
            final_errors: self.final_errors.or(other.final_errors),
            ignore: both(self.ignore, other.ignore),
            key_field: self.key_field.or(other.key_field),
            redact: both(self.redact, other.redact),
            redact_errors: both(self.redact_errors, other.redact_errors),
            settings: self.settings.over(other.settings),
        }
    }

    pub(crate) fn is_operation(&self) -> bool {
        self.is_operation
    }

    /// Returns the path with its leading slash.
    pub fn path(&self) -> &str {
        &self.path
    }
}

fn unknown_value(path: &str, setting: &str) -> ProcedureError {
    ProcedureError::InvalidOption { procedure: path.to_owned(), why: format!("unknown value in {setting}") }
}

fn invalid_duration(path: &str, setting: &'static str, most: Duration) -> ProcedureError {
    ProcedureError::InvalidDuration { procedure: path.to_owned(), setting, most }
}
