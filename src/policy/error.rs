//! The error of a procedure's configuration.

use std::time::Duration;

use thiserror::Error;
use tonic_idempotency_wire::meant;

use super::InvalidFinalError;
use crate::status::IdKind;

/// An invalid configuration of a procedure, in its proto option or in code.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcedureError {
    /// All fields of the request are ignored.
    #[error(
        "{procedure}: ignore: nothing of the request would be left to compare; leave out at least one of its fields"
    )]
    AllIgnored {
        /// The procedure's path.
        procedure: String,
    },
    /// A path of fields is given twice, or leads into a field that is given as well.
    #[error("{procedure}: {setting}: {field:?} is a part of {other:?}, which is given, too; leave it out")]
    CrossingFields {
        /// The procedure's path.
        procedure: String,
        /// The name of the setting.
        setting: &'static str,
        /// The field's path as configured.
        field: String,
        /// The other path, which is the same or leads to a message around the field.
        other: String,
    },
    /// The id field is not a singular string, integer or bytes field.
    #[error(
        "{procedure}: the id field {field:?} cannot hold an id; it has to be a singular field: a string, an integer, or the \
         bytes of a UUID"
    )]
    IdFieldNotAnId {
        /// The procedure's path.
        procedure: String,
        /// The field's path as configured.
        field: String,
    },
    /// A duration is zero, negative, or too long.
    #[error("{procedure}: {setting} has to be more than zero and at most {} s", .most.as_secs())]
    InvalidDuration {
        /// The procedure's path.
        procedure: String,
        /// The name of the setting.
        setting: &'static str,
        /// The maximum.
        most: Duration,
    },
    /// A code in `final_errors` cannot be final.
    #[error("{procedure}: final_errors: {error}; leave it out")]
    InvalidFinalError {
        /// The procedure's path.
        procedure: String,
        /// The code and the reason.
        error: InvalidFinalError,
    },
    /// The key field is not a singular string or bytes field, or the path to it leads through a repeated field or a map.
    #[error(
        "{procedure}: the key field {field:?} cannot hold a key; it has to be a singular string or bytes field, in \
         singular messages only"
    )]
    KeyFieldNotText {
        /// The procedure's path.
        procedure: String,
        /// The field's path as configured.
        field: String,
    },
    /// The proto option cannot be decoded, or has a value that is unknown to this version of the crate.
    #[error("{procedure}: invalid option (idempotency.v1.procedure): {why}")]
    InvalidOption {
        /// The procedure's path.
        procedure: String,
        /// The reason.
        why: String,
    },
    /// The option of a service cannot be decoded, or has a value that is unknown to this version of the crate.
    #[error("{service}: invalid option (idempotency.v1.service): {why}")]
    InvalidServiceOption {
        /// The service's full name.
        service: String,
        /// The reason.
        why: String,
    },
    /// The request or response message does not have the field.
    #[error("{procedure}: there is no field {field:?}: {message} has no such field")]
    MissingField {
        /// The procedure's path.
        procedure: String,
        /// The field's path as configured.
        field: String,
        /// The full name of the message that lacks the field: the request, the response, or a submessage on the path.
        message: String,
    },
    /// A policy is [`LeasePolicy::Reconcile`](super::LeasePolicy::Reconcile) or
    /// [`ForeignPolicy::Reconcile`](super::ForeignPolicy::Reconcile), and the layer has no reconciler for the procedure.
    #[error(
        "{procedure}: {setting} is RECONCILE, but the layer has no reconciler for the procedure; add one with \
         IdempotencyLayerBuilder::reconciler, or choose another policy"
    )]
    NoReconciler {
        /// The procedure's path.
        procedure: String,
        /// The name of the setting.
        setting: &'static str,
    },
    /// A policy for keys on procedures that are not opted in is set for a procedure that is.
    #[error(
        "{procedure}: on_unprotected_key_of: the procedure is opted in, so that no key on it is unprotected; leave it out"
    )]
    NoUnprotectedKeys {
        /// The procedure's path.
        procedure: String,
    },
    /// The id field of an operation does not begin with the full name of a message.
    #[error(
        "{procedure}: the id field {field:?} has to begin with the full name of a message in the layer's descriptors, as in \
         shop.v1.CreateOrderReply.order.id"
    )]
    NoMessage {
        /// The operation's path.
        procedure: String,
        /// The field as configured.
        field: String,
    },
    /// The setting is of a procedure of a service: its callers send keys, and its messages have descriptors. An operation has neither.
    #[error(
        "{procedure}: {setting}: it is for the procedures of a service; leave it out, since an operation takes any id, has a caller always, and \
         has no descriptor"
    )]
    NotOfAnOperation {
        /// The operation's path.
        procedure: String,
        /// The name of the setting.
        setting: &'static str,
    },
    /// A setting of the procedure itself has no effect in its mode.
    #[error(
        "{procedure}: {setting}: it has no effect on a {is} procedure; make the procedure {other}, or leave it out"
    )]
    NoEffect {
        /// The procedure's path.
        procedure: String,
        /// The name of the setting, and its value if only this value has no effect.
        setting: &'static str,
        /// The mode of the procedure.
        is: &'static str,
        /// The mode in which it has an effect.
        other: &'static str,
    },
    /// The procedure creates a tracked resource, and neither the store nor a status resolver reports its status.
    #[error(
        "{procedure}: neither the store nor a resolver reports the status of {resource_type:?}, so each replay would say \
         \"processing\"; if the SQL function idempotency_resource_status knows it, say so with ResourceType::tracked; if \
         another system does, ask it in IdempotencyLayerBuilder::status_resolver; if no asynchronous work follows, write \
         `untracked: true` in `creates`, or call ProcedureBuilder::creates_untracked"
    )]
    NoStatus {
        /// The procedure's path.
        procedure: String,
        /// The resource type as configured.
        resource_type: String,
    },
    /// The replays of the procedure are to be rebuilt, and it creates no resource to rebuild them from.
    #[error(
        "{procedure}: rebuild needs the id of a resource; say what the procedure creates, and in which field its id is"
    )]
    NothingToRebuild {
        /// The procedure's path.
        procedure: String,
    },
    /// A setting is for a procedure that takes no keys.
    #[error("{procedure}: {setting}: the procedure is not opted in; check the path, or opt it in")]
    NotOptedIn {
        /// The procedure's path.
        procedure: String,
        /// The name of the setting.
        setting: &'static str,
    },
    /// The procedure is transactional, and the store does not support transactions.
    #[error(
        "{procedure}: the procedure is transactional, but the store does not support transactions; use PostgresStore, \
         or mode reserved, or in tests MemoryStore::accept_transactions (feature testing)"
    )]
    NoTransactions {
        /// The procedure's path.
        procedure: String,
    },
    /// The id field cannot hold the ids that the resource type has in the store.
    #[error(
        "{procedure}: the id field {field:?} cannot hold {kind}, which the ids of the resource type {resource_type:?} are; \
         choose another field, or say the kind of its ids with ResourceType::ids"
    )]
    OtherIdKind {
        /// The procedure's path.
        procedure: String,
        /// The field's path as configured.
        field: String,
        /// The resource type as configured.
        resource_type: String,
        /// The kind of its ids.
        kind: IdKind,
    },
    /// The procedure is streaming. Only unary procedures can be replayed.
    #[error("{procedure}: streaming procedures cannot take idempotency keys; only unary procedures can")]
    Streaming {
        /// The procedure's path.
        procedure: String,
    },
    /// The descriptors do not contain the procedure.
    #[error("{procedure}: no such procedure in the descriptors; {}", meant(.nearest))]
    Unknown {
        /// The procedure's path.
        procedure: String,
        /// The most similar paths.
        nearest: Vec<String>,
    },
    /// The type of error details that is to be redacted is neither in the descriptors nor one of `google.rpc`.
    #[error(
        "{procedure}: redact_error_details: no message {detail:?} in the descriptors; write its full name, or \"*\" for all \
         details"
    )]
    UnknownErrorDetail {
        /// The procedure's path.
        procedure: String,
        /// The type as configured.
        detail: String,
    },
    /// The store does not have the resource type.
    #[error("{procedure}: unknown resource type {resource_type:?}; the store has: {}", list(.known))]
    UnknownResourceType {
        /// The procedure's path.
        procedure: String,
        /// The resource type as configured.
        resource_type: String,
        /// The resource types of the store.
        known: Vec<String>,
    },
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
