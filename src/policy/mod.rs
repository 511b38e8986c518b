//! Configuration of procedures: which ones take idempotency keys, the resources that they create, and their policies.
//!
//! A procedure is opted in by the proto option `(idempotency.v1.procedure)`, or in code with [`Procedure::builder`].
//! Both give a [`Procedure`]. A setting in code overrides the same field of the option. Calls of procedures
//! that are not opted in pass through unchanged, unless their keys are refused ([`UnprotectedKeyPolicy`]).

mod authorizer;
mod error;
mod field;
mod final_errors;
mod ignore;
mod key_field;
mod limits;
mod option;
#[expect(clippy::module_inception, reason = "the policies themselves, one part of the configuration")]
mod policy;
mod rebuilder;
mod reconciler;
mod redact;
mod replayed_metadata;
mod resolve;
mod resource_id;

use std::{fmt, sync::Arc, time::Duration};

use prost_reflect::MethodDescriptor;
use protobuf_canonical::Canonical;
use tonic::Code;

use self::ignore::IgnoredFields;
pub use self::{
    authorizer::{ReplayAuthorizer, ReplayRequest},
    error::ProcedureError,
    final_errors::{FinalErrors, InvalidFinalError},
    limits::{Limit, Limits},
    policy::{
        DisconnectPolicy, EffectPolicy, ExpiredKeyPolicy, ForeignPolicy, InProgressPolicy, Isolation, KeyPolicy,
        LeasePolicy, Mode, Policies, ScopePolicy, StorePolicy, UnprotectedKeyPolicy, UserPolicy,
    },
    rebuilder::{RebuildRequest, Rebuilder},
    reconciler::{Abandoned, Reconciler, Reconciliation},
    replayed_metadata::ReplayedMetadata,
    resource_id::ResponseError,
};
pub(crate) use self::{
    key_field::{KeyField, KeyFieldError},
    option::{read_options, read_service_options},
    replayed_metadata::InvalidMetadataName,
    resolve::{path_of, resolve, unknown},
    resource_id::IdField,
};
pub use crate::key::KeyFormat;
use crate::{key::IdempotencyKey, status::IdKind, telemetry::ProcedureTelemetry};

/// A procedure that takes idempotency keys.
#[derive(Clone, PartialEq)]
pub struct Procedure {
    path: Arc<str>,
    method: MethodDescriptor,
    creates: Option<Creates>,
    id_field: Option<IdField>,
    /// `None` if the store takes ids of any kind.
    id_kind: Option<IdKind>,
    key_field: Option<KeyField>,
    policies: Policies,
    ignore: IgnoredFields,
    redact: Vec<String>,
    redact_errors: Vec<String>,
    telemetry: ProcedureTelemetry,
}

impl Procedure {
    /// Opts in the procedure with this path, such as `/organization.v1.ProjectService/CreateProject`. The leading slash
    /// is optional.
    pub fn builder(path: impl Into<String>) -> ProcedureBuilder {
        ProcedureBuilder { path: self::path(path.into()), ..ProcedureBuilder::default() }
    }

    /// Returns the path with its leading slash, as in requests and in the table:
    /// `/organization.v1.ProjectService/CreateProject`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the path as a shared string.
    pub(crate) fn shared_path(&self) -> Arc<str> {
        Arc::clone(&self.path)
    }

    pub(crate) fn telemetry(&self) -> &ProcedureTelemetry {
        &self.telemetry
    }

    /// Returns the procedure's descriptor.
    pub fn method(&self) -> &MethodDescriptor {
        &self.method
    }

    /// Returns the resource that the procedure creates; `None` if it creates none that is recorded.
    pub fn creates(&self) -> Option<&Creates> {
        self.creates.as_ref()
    }

    /// Returns the resource whose status the procedure's replays report.
    pub(crate) fn tracks(&self) -> Option<&Creates> {
        self.creates.as_ref().filter(|creates| creates.tracked)
    }

    /// Returns the path of the request's field that has the key; `None` if the key is in the header.
    pub fn key_field(&self) -> Option<&str> {
        self.key_field.as_ref().map(KeyField::path)
    }

    /// Returns the key in an encoded request message; `None` if the procedure has no key field, or the field is empty.
    pub(crate) fn key(&self, request: &[u8]) -> Result<Option<IdempotencyKey>, KeyFieldError> {
        match &self.key_field {
            Some(field) => field.key(request, self.policies.key_format),
            None => Ok(None),
        }
    }

    /// Returns the policies.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// Returns the paths of the request fields that are not compared.
    pub fn ignored_fields(&self) -> &[String] {
        self.ignore.paths()
    }

    /// Compiles the encoder that hashes the requests.
    pub(crate) fn canonical(&self) -> Canonical {
        Canonical::ignoring(&self.method.input(), self.ignore.numbers())
    }

    /// Returns the paths of the response fields that are not stored.
    pub fn redacted_fields(&self) -> &[String] {
        &self.redact
    }
}

/// Omits the descriptor: its `Debug` overflows the stack on recursive message types.
impl fmt::Debug for Procedure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            path,
            method: _,
            creates,
            id_field: _,
            id_kind,
            key_field,
            policies,
            ignore,
            redact,
            redact_errors,
            telemetry: _,
        } = self;
        f.debug_struct("Procedure")
            .field("path", path)
            .field("creates", creates)
            .field("id_kind", id_kind)
            .field("key_field", &key_field.as_ref().map(KeyField::path))
            .field("policies", policies)
            .field("ignore", &ignore.paths())
            .field("redact", redact)
            .field("redact_errors", redact_errors)
            .finish_non_exhaustive()
    }
}

/// The resource that a procedure creates, and the field of the response with its id.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Creates {
    /// The name of a resource type of the store, such as `project`.
    pub resource_type: String,
    /// The field of the response with the resource's id: a string, an integer, or the 16 bytes of a UUID. A dotted path selects a
    /// field of a submessage.
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
    path: String,
    creates: Option<Creates>,
    effect: Option<EffectPolicy>,
    expired_keys: Option<ExpiredKeyPolicy>,
    final_errors: Option<Vec<Code>>,
    ignore: Vec<String>,
    isolation: Option<Isolation>,
    key_field: Option<String>,
    key_format: Option<KeyFormat>,
    key_policy: Option<KeyPolicy>,
    lease: Option<Duration>,
    max_wait: Option<Duration>,
    mode: Option<Mode>,
    on_disconnect: Option<DisconnectPolicy>,
    on_foreign_reservation: Option<ForeignPolicy>,
    on_in_progress: Option<InProgressPolicy>,
    on_lease_ended: Option<LeasePolicy>,
    on_no_user: Option<UserPolicy>,
    on_store_unavailable: Option<StorePolicy>,
    redact: Vec<String>,
    redact_errors: Vec<String>,
    retention: Option<Duration>,
    transaction_idle: Option<Duration>,
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

    /// Sets where a reserved handler takes effect.
    pub fn effect(mut self, policy: EffectPolicy) -> Self {
        self.effect = Some(policy);
        self
    }

    /// Sets the policy for a key that is a UUID of version 7 older than the retention, and has no record.
    pub fn expired_keys(mut self, policy: ExpiredKeyPolicy) -> Self {
        self.expired_keys = Some(policy);
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

    /// Sets the isolation level of a transactional procedure's transaction.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = Some(isolation);
        self
    }

    /// Sets how long a call with [`InProgressPolicy::Wait`] waits for the running call. More than zero, at most one
    /// hour.
    pub fn max_wait(mut self, bound: Duration) -> Self {
        self.max_wait = Some(bound);
        self
    }

    /// Sets how the handler's writes and the record are committed.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Sets the policy for a transactional call whose client disconnects.
    pub fn on_disconnect(mut self, policy: DisconnectPolicy) -> Self {
        self.on_disconnect = Some(policy);
        self
    }

    /// Sets the policy for a key that another system has reserved without a lease.
    pub fn on_foreign_reservation(mut self, policy: ForeignPolicy) -> Self {
        self.on_foreign_reservation = Some(policy);
        self
    }

    /// Sets the policy for a call whose key is in use by a call that is still running.
    pub fn on_in_progress(mut self, policy: InProgressPolicy) -> Self {
        self.on_in_progress = Some(policy);
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

    /// Sets the form of the keys.
    pub fn key_format(mut self, format: KeyFormat) -> Self {
        self.key_format = Some(format);
        self
    }

    /// Sets the policy for calls without a key.
    pub fn key_policy(mut self, policy: KeyPolicy) -> Self {
        self.key_policy = Some(policy);
        self
    }

    /// Sets the policy for calls with a key and without an authenticated user.
    pub fn on_no_user(mut self, policy: UserPolicy) -> Self {
        self.on_no_user = Some(policy);
        self
    }

    /// Sets the policy for calls while the store is unavailable.
    pub fn on_store_unavailable(mut self, policy: StorePolicy) -> Self {
        self.on_store_unavailable = Some(policy);
        self
    }

    /// Sets the policy for a key whose lease ended without an outcome.
    pub fn on_lease_ended(mut self, policy: LeasePolicy) -> Self {
        self.on_lease_ended = Some(policy);
        self
    }

    /// Sets how long a reservation is valid without a renewal: see [`Policies::lease`]. More than zero, at most ten
    /// years.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Sets how long a completed record is stored. More than zero, at most ten years.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = Some(retention);
        self
    }

    /// Sets how long the transaction of a transactional procedure may be idle. More than zero, at most ten years.
    pub fn transaction_idle(mut self, idle: Duration) -> Self {
        self.transaction_idle = Some(idle);
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
            creates: self.creates.or(other.creates),
            effect: self.effect.or(other.effect),
            expired_keys: self.expired_keys.or(other.expired_keys),
            final_errors: self.final_errors.or(other.final_errors),
            ignore: both(self.ignore, other.ignore),
            isolation: self.isolation.or(other.isolation),
            key_field: self.key_field.or(other.key_field),
            key_format: self.key_format.or(other.key_format),
            key_policy: self.key_policy.or(other.key_policy),
            lease: self.lease.or(other.lease),
            max_wait: self.max_wait.or(other.max_wait),
            mode: self.mode.or(other.mode),
            on_disconnect: self.on_disconnect.or(other.on_disconnect),
            on_foreign_reservation: self.on_foreign_reservation.or(other.on_foreign_reservation),
            on_in_progress: self.on_in_progress.or(other.on_in_progress),
            on_lease_ended: self.on_lease_ended.or(other.on_lease_ended),
            on_no_user: self.on_no_user.or(other.on_no_user),
            on_store_unavailable: self.on_store_unavailable.or(other.on_store_unavailable),
            redact: both(self.redact, other.redact),
            redact_errors: both(self.redact_errors, other.redact_errors),
            retention: self.retention.or(other.retention),
            transaction_idle: self.transaction_idle.or(other.transaction_idle),
        }
    }

    /// Returns the path with its leading slash.
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// Adds the leading slash if it is missing.
pub(crate) fn path(path: String) -> String {
    if path.starts_with('/') { path } else { format!("/{path}") }
}
