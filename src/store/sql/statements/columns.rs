//! Converts values into the parameters of the SQL functions.

use std::borrow::Cow;

use protobuf_canonical::{RequestHash, RequestHashes};

use crate::{
    policy::{ForeignPolicy, LeasePolicy},
    store::{CallSession, Claim, Completion, ResourceTypes, SessionSettings, StoredMessage, StoredResponse},
};

/// The columns of a response.
pub(in crate::store::sql) struct Columns<'a> {
    pub(in crate::store::sql) response: Option<&'a [u8]>,
    pub(in crate::store::sql) not_stored: bool,
    pub(in crate::store::sql) error: Option<&'a [u8]>,
    pub(in crate::store::sql) metadata: Option<&'a [u8]>,
}

impl<'a> Columns<'a> {
    pub(in crate::store::sql) fn of(response: &'a StoredResponse) -> Self {
        let none = Self { response: None, not_stored: false, error: None, metadata: None };
        match response {
            StoredResponse::Error(error) => Self { error: Some(error), ..none },
            StoredResponse::Message(StoredMessage { message, metadata }) => {
                Self { response: Some(message), metadata: metadata.as_deref(), ..none }
            }
            StoredResponse::NotStored => Self { response: Some(&[]), not_stored: true, ..none },
            // What does not know it takes it for a response that is not stored.
            StoredResponse::Sealed(envelope) => {
                Self { response: Some(&[]), not_stored: true, metadata: Some(envelope), ..none }
            }
        }
    }
}

/// Returns the column of the created resource, and its id.
pub(in crate::store::sql) fn resource_column<'a>(
    resource_types: &'a ResourceTypes,
    completion: &'a Completion,
) -> Option<(&'a str, Cow<'a, str>)> {
    let resource = completion.resource.as_ref()?;
    let known = resource_types.get(&resource.resource_type)?;
    Some((known.column(), known.in_column(resource.id.to_text())))
}

/// Returns the hash of the canonical encoding.
pub(in crate::store::sql) fn request_hash(request: &RequestHashes) -> &[u8] {
    request.canonical().as_bytes()
}

/// Returns the hash of the request as it arrived, if that is another.
pub(in crate::store::sql) fn arrival_hash(request: &RequestHashes) -> Option<&[u8]> {
    request.as_arrived().map(|hash| RequestHash::as_bytes(hash).as_slice())
}

/// Returns the names and values of the application's settings, in turn.
pub(in crate::store::sql) fn settings(session: &CallSession) -> Option<&[String]> {
    session.settings.as_deref().map(SessionSettings::as_flat)
}

/// Returns the name of the policy in the SQL functions.
pub(in crate::store::sql) fn on_foreign_reservation(claim: &Claim) -> &'static str {
    match claim.on_foreign_reservation {
        ForeignPolicy::InProgress => "in_progress",
        ForeignPolicy::Reconcile => "reconcile",
        ForeignPolicy::Rerun => "rerun",
    }
}

/// Returns the name of the policy in the SQL functions.
pub(in crate::store::sql) fn on_lease_ended(claim: &Claim) -> &'static str {
    match claim.on_lease_ended {
        LeasePolicy::Reconcile => "reconcile",
        LeasePolicy::Refuse => "refuse",
        LeasePolicy::Rerun => "rerun",
    }
}
