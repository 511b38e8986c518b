//! Reads `(idempotency.v1.procedure)` and `(idempotency.v1.service)` from a descriptor pool.

use std::time::Duration;

use prost_reflect::{DescriptorPool, MethodDescriptor, ServiceDescriptor, Value};
use tonic::Code;

use super::{
    DisconnectPolicy, EffectPolicy, ExpiredKeyPolicy, ForeignPolicy, InProgressPolicy, Isolation, KeyFormat, KeyPolicy,
    LeasePolicy, Mode, Procedure, ProcedureBuilder, ProcedureError, StorePolicy, UnprotectedKeyPolicy, UserPolicy,
    resolve::{MAX_DURATION, MAX_WAIT},
};
use crate::{duration::from_proto, proto::v1};

/// The extension of `google.protobuf.MethodOptions`, as `idempotency/v1/procedure.proto` declares it.
const OPTION: &str = "idempotency.v1.procedure";

/// The extension of `google.protobuf.ServiceOptions`.
const SERVICE_OPTION: &str = "idempotency.v1.service";

/// Returns the procedures that have the option.
pub(crate) fn read_options(pool: &DescriptorPool) -> Result<Vec<ProcedureBuilder>, ProcedureError> {
    let Some(extension) = pool.get_extension_by_name(OPTION) else {
        return Ok(Vec::new());
    };
    let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let mut procedures = Vec::new();
    for method in methods {
        let options = method.options();
        if options.has_extension(&extension) {
            procedures.push(read(&method, &options.get_extension(&extension))?);
        }
    }
    Ok(procedures)
}

/// Returns the policies for keys on the procedures of services that are not opted in, of the services whose option sets one.
pub(crate) fn read_service_options(
    pool: &DescriptorPool,
) -> Result<Vec<(ServiceDescriptor, UnprotectedKeyPolicy)>, ProcedureError> {
    let Some(extension) = pool.get_extension_by_name(SERVICE_OPTION) else {
        return Ok(Vec::new());
    };
    let mut policies = Vec::new();
    for service in pool.services() {
        let options = service.options();
        if options.has_extension(&extension)
            && let Some(policy) = read_service(&service, &options.get_extension(&extension))?
        {
            policies.push((service, policy));
        }
    }
    Ok(policies)
}

fn read_service(service: &ServiceDescriptor, value: &Value) -> Result<Option<UnprotectedKeyPolicy>, ProcedureError> {
    let invalid = |why: String| ProcedureError::InvalidServiceOption { service: service.full_name().to_owned(), why };
    let message = value.as_message().ok_or_else(|| invalid("not a message".to_owned()))?;
    let option: v1::Service = message.transcode_to().map_err(|error| invalid(error.to_string()))?;
    let policy = v1::UnprotectedKeyPolicy::try_from(option.on_unprotected_key);
    Ok(match policy.map_err(|_| invalid("unknown value in on_unprotected_key".to_owned()))? {
        v1::UnprotectedKeyPolicy::Unspecified => None,
        v1::UnprotectedKeyPolicy::PassThrough => Some(UnprotectedKeyPolicy::PassThrough),
        v1::UnprotectedKeyPolicy::Refuse => Some(UnprotectedKeyPolicy::Refuse),
    })
}

fn read(method: &MethodDescriptor, value: &Value) -> Result<ProcedureBuilder, ProcedureError> {
    let path = format!("/{}/{}", method.parent_service().full_name(), method.name());
    let invalid = |why: String| ProcedureError::InvalidOption { procedure: path.clone(), why };
    let message = value.as_message().ok_or_else(|| invalid("not a message".to_owned()))?;
    let option: v1::Procedure = message.transcode_to().map_err(|error| invalid(error.to_string()))?;
    let unknown = |field: &str| invalid(format!("unknown value in {field}"));

    let mut procedure = Procedure::builder(path.clone());
    if let Some(creates) = option.creates {
        procedure = match creates.untracked {
            true => procedure.creates_untracked(creates.resource_type, creates.id_field),
            false => procedure.creates(creates.resource_type, creates.id_field),
        };
    }
    procedure.effect = match v1::EffectPolicy::try_from(option.effect).map_err(|_| unknown("effect"))? {
        v1::EffectPolicy::Unspecified => None,
        v1::EffectPolicy::Anywhere => Some(EffectPolicy::Anywhere),
        v1::EffectPolicy::SameServer => Some(EffectPolicy::SameServer),
    };
    let expired_keys = v1::ExpiredKeyPolicy::try_from(option.expired_keys);
    procedure.expired_keys = match expired_keys.map_err(|_| unknown("expired_keys"))? {
        v1::ExpiredKeyPolicy::Unspecified => None,
        v1::ExpiredKeyPolicy::Refuse => Some(ExpiredKeyPolicy::Refuse),
        v1::ExpiredKeyPolicy::Run => Some(ExpiredKeyPolicy::Run),
    };
    procedure.isolation = match v1::Isolation::try_from(option.isolation).map_err(|_| unknown("isolation"))? {
        v1::Isolation::Unspecified => None,
        v1::Isolation::ReadCommitted => Some(Isolation::ReadCommitted),
        v1::Isolation::RepeatableRead => Some(Isolation::RepeatableRead),
        v1::Isolation::Serializable => Some(Isolation::Serializable),
    };
    procedure.key_field = Some(option.key_field).filter(|field| !field.is_empty());
    procedure.key_format = match v1::KeyFormat::try_from(option.key_format).map_err(|_| unknown("key_format"))? {
        v1::KeyFormat::Unspecified => None,
        v1::KeyFormat::Any => Some(KeyFormat::Any),
        v1::KeyFormat::Uuid => Some(KeyFormat::Uuid),
    };
    procedure.key_policy = match v1::KeyPolicy::try_from(option.key_policy).map_err(|_| unknown("key_policy"))? {
        v1::KeyPolicy::Unspecified => None,
        v1::KeyPolicy::Optional => Some(KeyPolicy::Optional),
        v1::KeyPolicy::Required => Some(KeyPolicy::Required),
    };
    procedure.mode = match v1::Mode::try_from(option.mode).map_err(|_| unknown("mode"))? {
        v1::Mode::Unspecified => None,
        v1::Mode::Reserved => Some(Mode::Reserved),
        v1::Mode::Transactional => Some(Mode::Transactional),
    };
    procedure.on_disconnect =
        match v1::DisconnectPolicy::try_from(option.on_disconnect).map_err(|_| unknown("on_disconnect"))? {
            v1::DisconnectPolicy::Unspecified => None,
            v1::DisconnectPolicy::Finish => Some(DisconnectPolicy::Finish),
            v1::DisconnectPolicy::RollBack => Some(DisconnectPolicy::RollBack),
        };
    let on_foreign = v1::ForeignPolicy::try_from(option.on_foreign_reservation);
    procedure.on_foreign_reservation = match on_foreign.map_err(|_| unknown("on_foreign_reservation"))? {
        v1::ForeignPolicy::Unspecified => None,
        v1::ForeignPolicy::InProgress => Some(ForeignPolicy::InProgress),
        v1::ForeignPolicy::Rerun => Some(ForeignPolicy::Rerun),
        v1::ForeignPolicy::Reconcile => Some(ForeignPolicy::Reconcile),
    };
    let on_in_progress = v1::InProgressPolicy::try_from(option.on_in_progress);
    procedure.on_in_progress = match on_in_progress.map_err(|_| unknown("on_in_progress"))? {
        v1::InProgressPolicy::Unspecified => None,
        v1::InProgressPolicy::Abort => Some(InProgressPolicy::Abort),
        v1::InProgressPolicy::Wait => Some(InProgressPolicy::Wait),
    };
    let on_lease_ended = v1::LeasePolicy::try_from(option.on_lease_ended);
    procedure.on_lease_ended = match on_lease_ended.map_err(|_| unknown("on_lease_ended"))? {
        v1::LeasePolicy::Unspecified => None,
        v1::LeasePolicy::Rerun => Some(LeasePolicy::Rerun),
        v1::LeasePolicy::Refuse => Some(LeasePolicy::Refuse),
        v1::LeasePolicy::Reconcile => Some(LeasePolicy::Reconcile),
    };
    procedure.on_no_user = match v1::UserPolicy::try_from(option.on_no_user).map_err(|_| unknown("on_no_user"))? {
        v1::UserPolicy::Unspecified => None,
        v1::UserPolicy::PassThrough => Some(UserPolicy::PassThrough),
        v1::UserPolicy::Reject => Some(UserPolicy::Reject),
    };
    let on_store_unavailable = v1::StorePolicy::try_from(option.on_store_unavailable);
    procedure.on_store_unavailable = match on_store_unavailable.map_err(|_| unknown("on_store_unavailable"))? {
        v1::StorePolicy::Unspecified => None,
        v1::StorePolicy::Proceed => Some(StorePolicy::Proceed),
        v1::StorePolicy::Reject => Some(StorePolicy::Reject),
    };
    procedure.final_errors = final_errors(&option.final_errors).map_err(|()| unknown("final_errors"))?;
    procedure.max_wait = duration(&path, "max_wait", MAX_WAIT, option.max_wait)?;
    procedure.lease = duration(&path, "lease", MAX_DURATION, option.lease)?;
    procedure.retention = duration(&path, "retention", MAX_DURATION, option.retention)?;
    procedure.transaction_idle = duration(&path, "transaction_idle", MAX_DURATION, option.transaction_idle)?;
    procedure.ignore = option.ignore;
    procedure.redact = option.redact;
    procedure.redact_errors = option.redact_error_details;
    Ok(procedure)
}

/// Converts the codes; `None` if the field is not set. Fails on an unknown code.
fn final_errors(errors: &[i32]) -> Result<Option<Vec<Code>>, ()> {
    if errors.is_empty() {
        return Ok(None);
    }
    let mut codes = Vec::new();
    for error in errors {
        match v1::FinalError::try_from(*error) {
            Ok(v1::FinalError::None) => {}
            Ok(v1::FinalError::Unspecified) | Err(_) => return Err(()),
            // The numbers of the enum are gRPC codes.
            Ok(_) => codes.push(Code::from_i32(*error)),
        }
    }
    Ok(Some(codes))
}

fn duration(
    path: &str,
    setting: &'static str,
    most: Duration,
    duration: Option<prost_types::Duration>,
) -> Result<Option<Duration>, ProcedureError> {
    let invalid = || ProcedureError::InvalidDuration { procedure: path.to_owned(), setting, most };
    duration.map(|duration| from_proto(duration).ok_or_else(invalid)).transpose()
}
