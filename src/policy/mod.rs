//! Which procedures take idempotency keys, what they create, and their policies.
//!
//! A procedure is opted in by the proto option `(idempotency.v1.procedure)`, or in code with [`Procedure::builder`]; both
//! come to the same [`Procedure`]. Where both speak of one procedure, the code wins as a whole. A procedure with neither is
//! passed through.

mod error;
mod field;
mod final_errors;
mod option;
#[expect(clippy::module_inception, reason = "the policies proper, among all that is said of a procedure")]
mod policy;
mod reconciler;
mod redact;
mod replayed_metadata;
mod resolve;
mod resource_id;

use std::{fmt, sync::Arc, time::Duration};

use prost_reflect::MethodDescriptor;
use tonic::Code;

pub use self::{
    error::ProcedureError,
    final_errors::{FinalErrors, InvalidFinalError},
    policy::{
        DisconnectPolicy, EffectPolicy, InProgressPolicy, Isolation, KeyPolicy, LeasePolicy, Mode, Policies,
        StorePolicy, UserPolicy,
    },
    reconciler::{Abandoned, Reconciler, Reconciliation},
    replayed_metadata::ReplayedMetadata,
    resource_id::ResponseError,
};
pub(crate) use self::{option::read_options, replayed_metadata::InvalidMetadataName, resolve::resolve};
use crate::telemetry::ProcedureTelemetry;

/// A procedure that takes idempotency keys.
#[derive(Clone, PartialEq)]
pub struct Procedure {
    path: Arc<str>,
    method: MethodDescriptor,
    creates: Option<Creates>,
    policies: Policies,
    redact: Vec<String>,
    telemetry: ProcedureTelemetry,
}

impl Procedure {
    /// Opts a procedure in, by its path: `/organization.v1.ProjectService/CreateProject`, the leading slash optional.
    pub fn builder(path: impl Into<String>) -> ProcedureBuilder {
        ProcedureBuilder { path: self::path(path.into()), ..ProcedureBuilder::default() }
    }

    /// The path, as it is in the request and in the table: `/organization.v1.ProjectService/CreateProject`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The same, to be kept.
    pub(crate) fn shared_path(&self) -> Arc<str> {
        Arc::clone(&self.path)
    }

    /// Its log lines and counters.
    pub(crate) fn telemetry(&self) -> &ProcedureTelemetry {
        &self.telemetry
    }

    /// The procedure's descriptor.
    pub fn method(&self) -> &MethodDescriptor {
        &self.method
    }

    /// The resource that the procedure creates; `None` where it creates no tracked one.
    pub fn creates(&self) -> Option<&Creates> {
        self.creates.as_ref()
    }

    /// What to do in each case that leaves a choice.
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// The fields of the response that are not stored.
    pub fn redacted_fields(&self) -> &[String] {
        &self.redact
    }
}

/// Without the descriptor, whose own `Debug` follows messages that contain themselves until the stack is used up.
impl fmt::Debug for Procedure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, method: _, creates, policies, redact, telemetry: _ } = self;
        f.debug_struct("Procedure")
            .field("path", path)
            .field("creates", creates)
            .field("policies", policies)
            .field("redact", redact)
            .finish_non_exhaustive()
    }
}

/// The resource that a procedure creates.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Creates {
    /// A resource type that the store knows, such as `project`.
    pub resource_type: String,
    /// The field of the response that holds the resource's id, a UUID as a string or as 16 bytes; with dots, a path into
    /// submessages.
    pub id_field: String,
}

/// A procedure as the proto option or the code describes it, not yet held against its descriptor. What is left out has the
/// layer's default.
///
/// Default, for a procedure that creates no tracked resource:
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
    final_errors: Option<Vec<Code>>,
    isolation: Option<Isolation>,
    key_policy: Option<KeyPolicy>,
    lease: Option<Duration>,
    max_wait: Option<Duration>,
    mode: Option<Mode>,
    on_disconnect: Option<DisconnectPolicy>,
    on_in_progress: Option<InProgressPolicy>,
    on_lease_ended: Option<LeasePolicy>,
    on_no_user: Option<UserPolicy>,
    on_store_unavailable: Option<StorePolicy>,
    redact: Vec<String>,
    retention: Option<Duration>,
}

impl ProcedureBuilder {
    /// The type of the created resource, and the field of the response that holds its id.
    pub fn creates(mut self, resource_type: impl Into<String>, id_field: impl Into<String>) -> Self {
        self.creates = Some(Creates { resource_type: resource_type.into(), id_field: id_field.into() });
        self
    }

    /// Where the effect of a reserved handler is.
    pub fn effect(mut self, policy: EffectPolicy) -> Self {
        self.effect = Some(policy);
        self
    }

    /// Errors of the handler that end the operation: stored and replayed as a response is. Which codes may be among them is
    /// checked when the layer is built; see [`FinalErrors`].
    pub fn final_errors(mut self, codes: impl IntoIterator<Item = Code>) -> Self {
        self.final_errors = Some(codes.into_iter().collect());
        self
    }

    /// The isolation level of the transaction that a transactional procedure is given.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = Some(isolation);
        self
    }

    /// How long a call waits for the one that holds its key. More than zero, at most an hour.
    pub fn max_wait(mut self, bound: Duration) -> Self {
        self.max_wait = Some(bound);
        self
    }

    /// Where the handler's writes and the record meet.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// What to do with a transactional call whose client goes away.
    pub fn on_disconnect(mut self, policy: DisconnectPolicy) -> Self {
        self.on_disconnect = Some(policy);
        self
    }

    /// What to do with a call whose key is in use by a call that still runs.
    pub fn on_in_progress(mut self, policy: InProgressPolicy) -> Self {
        self.on_in_progress = Some(policy);
        self
    }

    /// What to do without a key.
    pub fn key_policy(mut self, policy: KeyPolicy) -> Self {
        self.key_policy = Some(policy);
        self
    }

    /// What to do where no user is authenticated.
    pub fn on_no_user(mut self, policy: UserPolicy) -> Self {
        self.on_no_user = Some(policy);
        self
    }

    /// What to do where the store cannot be reached.
    pub fn on_store_unavailable(mut self, policy: StorePolicy) -> Self {
        self.on_store_unavailable = Some(policy);
        self
    }

    /// What to do with a key whose first call ended its lease without saying how it ended.
    pub fn on_lease_ended(mut self, policy: LeasePolicy) -> Self {
        self.on_lease_ended = Some(policy);
        self
    }

    /// How long a reservation is believed. More than zero, at most ten years.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// How long a completed record lives. More than zero, at most ten years.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.retention = Some(retention);
        self
    }

    /// A field of the response that is not stored, such as a one-time secret: the first caller gets it, a replay does not.
    /// With dots, a path into submessages, in lists too.
    pub fn redact(mut self, field: impl Into<String>) -> Self {
        self.redact.push(field.into());
        self
    }

    /// The path, with its leading slash.
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// A procedure's path with its leading slash.
pub(crate) fn path(path: String) -> String {
    if path.starts_with('/') { path } else { format!("/{path}") }
}
