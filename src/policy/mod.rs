//! Configuration of procedures: which ones take idempotency keys, the resources that they create, and their policies.
//!
//! A procedure is opted in by the proto option `(idempotency.v1.procedure)`, or in code with [`Procedure::builder`].
//! Both give a [`Procedure`]. A setting in code overrides the same field of the option. Calls of procedures
//! that are not opted in pass through unchanged, unless their keys are refused ([`UnprotectedKeyPolicy`]).

mod authorizer;
mod builder;
mod describe;
mod encoded;
mod error;
mod field;
mod final_errors;
mod ignore;
mod key_field;
mod limits;
mod option;
#[expect(clippy::module_inception, reason = "the values of the policies, one part of the configuration")]
mod policy;
mod rebuilder;
mod reconciler;
mod redact;
mod replayed_metadata;
mod resolve;
mod resource_id;

use std::{fmt, sync::Arc};

use prost_reflect::MethodDescriptor;

pub use self::{
    authorizer::{ReplayAuthorizer, ReplayRequest},
    builder::{Creates, Policies, ProcedureBuilder},
    encoded::Encoded,
    error::ProcedureError,
    final_errors::{FinalErrors, InvalidFinalError},
    limits::{Limit, Limits},
    policy::{
        DisconnectPolicy, EffectPolicy, ExpiredKeyPolicy, ForeignPolicy, InProgressPolicy, Isolation, KeyPolicy,
        LeasePolicy, Mode, ScopePolicy, StorePolicy, UnprotectedKeyPolicy, UserPolicy,
    },
    rebuilder::{RebuildRequest, Rebuilder},
    reconciler::{Abandoned, Reconciler, Reconciliation},
    replayed_metadata::ReplayedMetadata,
    resource_id::ResponseError,
};
use self::{builder::MAX_DURATION, ignore::IgnoredFields};
pub(crate) use self::{
    key_field::{KeyField, KeyFieldError},
    option::{read_options, read_service_options},
    replayed_metadata::InvalidMetadataName,
    resolve::{path_of, resolve, resolve_operation, unknown},
    resource_id::IdField,
};
pub use crate::key::KeyFormat;
use crate::{
    key::IdempotencyKey,
    status::{IdKind, ResourceId},
    telemetry::ProcedureTelemetry,
};

/// A procedure that takes idempotency keys.
#[derive(Clone, PartialEq)]
pub struct Procedure {
    path: Arc<str>,
    /// `None` for an operation that is no procedure of a service.
    method: Option<MethodDescriptor>,
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

    /// Declares an operation that is no procedure of a service, such as `billing.v1/ChargeOrder`: [`run`](crate::run) runs it. It has no
    /// descriptor: of the settings that name fields, only [`creates`](ProcedureBuilder::creates) is possible.
    pub fn operation(name: impl Into<String>) -> ProcedureBuilder {
        // Jobs run for hours.
        ProcedureBuilder { is_operation: true, ..Self::builder(name) }.handler_timeout(MAX_DURATION)
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

    /// Returns the procedure's descriptor; `None` for an [operation](crate::run).
    pub fn method(&self) -> Option<&MethodDescriptor> {
        self.method.as_ref()
    }

    /// Returns the resource that the procedure creates; `None` if it creates none that is recorded.
    pub fn creates(&self) -> Option<&Creates> {
        self.creates.as_ref()
    }

    /// Returns the id of the created resource from the encoded response; `None` if the procedure creates no
    /// resource.
    ///
    /// # Errors
    ///
    /// [`ResponseError`] if the response cannot be decoded, or its id field does not hold an id of the resource type's kind.
    pub fn resource_id(&self, response: &[u8]) -> Result<Option<ResourceId>, ResponseError> {
        self.id_field.as_ref().map(|field| field.id(response, self.id_kind)).transpose()
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

/// Adds the leading slash if it is missing.
pub(crate) fn path(path: String) -> String {
    if path.starts_with('/') { path } else { format!("/{path}") }
}
