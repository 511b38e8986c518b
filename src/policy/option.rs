//! Reads `(idempotency.v1.procedure)` and `(idempotency.v1.service)` from a descriptor pool.

use prost_reflect::{DescriptorPool, MethodDescriptor, ServiceDescriptor, Value};
use tonic::Code;

use super::{Procedure, ProcedureBuilder, ProcedureError, UnprotectedKeyPolicy, builder::ProcedureSettings};
use crate::proto::v1;

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
    of_option(&path, option)
}

/// Converts the option of the procedure with this path.
pub(super) fn of_option(path: &str, option: v1::Procedure) -> Result<ProcedureBuilder, ProcedureError> {
    let invalid = |why: &str| ProcedureError::InvalidOption { procedure: path.to_owned(), why: why.to_owned() };
    let mut procedure = Procedure::builder(path);
    procedure.settings = ProcedureSettings::read(path, &option)?;
    if let Some(creates) = option.creates {
        procedure = match creates.untracked {
            true => procedure.creates_untracked(creates.resource_type, creates.id_field),
            false => procedure.creates(creates.resource_type, creates.id_field),
        };
    }
    procedure.key_field = Some(option.key_field).filter(|field| !field.is_empty());
    procedure.final_errors =
        final_errors(&option.final_errors).map_err(|()| invalid("unknown value in final_errors"))?;
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
