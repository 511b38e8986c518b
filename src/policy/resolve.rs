//! Checks the configuration of a procedure against its descriptor.

use std::sync::Arc;

use prost_reflect::{DescriptorPool, MethodDescriptor};
use protobuf_canonical::Canonical;

use super::{
    DisconnectPolicy, EffectPolicy, FinalErrors, IdField, KeyField, Mode, Policies, Procedure, ProcedureBuilder,
    ProcedureError, field, ignore::IgnoredFields, redact,
};
use crate::{status::IdKind, telemetry::ProcedureTelemetry};

/// The path of a procedure, as in requests.
pub(crate) fn path_of(method: &MethodDescriptor) -> String {
    format!("/{}/{}", method.parent_service().full_name(), method.name())
}

/// The error of a path that the descriptors do not have.
pub(crate) fn unknown(path: &str, pool: &DescriptorPool) -> ProcedureError {
    let procedures = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let paths: Vec<_> = procedures.map(|method| path_of(&method)).collect();
    let nearest = tonic_idempotency_wire::nearest(path, paths.iter().map(String::as_str));
    ProcedureError::Unknown { procedure: path.to_owned(), nearest }
}

/// Checks the configuration of a procedure against its descriptor, and fills in the defaults. Returns the encoder that hashes its requests,
/// too.
pub(crate) fn resolve(
    described: ProcedureBuilder,
    pool: &DescriptorPool,
    defaults: &Policies,
) -> Result<(Procedure, Canonical), ProcedureError> {
    let policies = policies(&described, defaults)?;
    let ProcedureBuilder { path, creates, key_field, ignore, redact, redact_errors, .. } = described;
    let method = method(pool, &path).ok_or_else(|| unknown(&path, pool))?;
    if method.is_client_streaming() || method.is_server_streaming() {
        return Err(ProcedureError::Streaming { procedure: path });
    }
    let output = method.output();
    let id_field = creates.as_ref().map(|creates| IdField::new(&path, &output, &creates.id_field)).transpose()?;
    let key_field = key_field.map(|field| KeyField::new(&path, &method, &field)).transpose()?;
    field::find_all(&path, "redact", &output, &redact)?;
    let ignore = IgnoredFields::resolve(&path, &method.input(), ignore)?;
    for detail in &redact_errors {
        check_detail(&path, detail, pool)?;
    }
    let path: Arc<str> = path.into();
    let telemetry = ProcedureTelemetry::new(Arc::clone(&path));
    if key_field.is_none()
        && let Some(field) = KeyField::of_aip_155(&method)
    {
        telemetry.may_have_key_field(&field);
    }
    let canonical = Canonical::ignoring(&method.input(), ignore.numbers());
    let procedure = Procedure {
        path,
        method: Some(method),
        creates,
        id_field,
        id_kind: None,
        key_field,
        policies,
        ignore,
        redact,
        redact_errors,
        telemetry,
    };
    Ok((procedure, canonical))
}

/// Checks the configuration of an operation that is no procedure of a service, and fills in the defaults.
pub(crate) fn resolve_operation(
    described: ProcedureBuilder,
    pool: &DescriptorPool,
    defaults: &Policies,
) -> Result<Procedure, ProcedureError> {
    let policies = policies(&described, defaults)?;
    let ProcedureBuilder { path, creates, key_field, ignore, redact, redact_errors, settings, .. } = described;
    let of_a_service = [
        ("key_format", settings.key_format.is_some()),
        ("key_policy", settings.key_policy.is_some()),
        ("on_no_user", settings.on_no_user.is_some()),
        ("key_field", key_field.is_some()),
        ("ignore", !ignore.is_empty()),
        ("redact", !redact.is_empty()),
        ("redact_error_details", !redact_errors.is_empty()),
    ];
    if let Some((setting, _)) = of_a_service.into_iter().find(|(_, is_set)| *is_set) {
        return Err(ProcedureError::NotOfAnOperation { procedure: path, setting });
    }
    let id_field = creates.as_ref().map(|creates| IdField::named(&path, pool, &creates.id_field)).transpose()?;
    let path: Arc<str> = path.into();
    Ok(Procedure {
        method: None,
        creates,
        id_field,
        id_kind: None,
        key_field: None,
        policies,
        ignore: IgnoredFields::default(),
        redact,
        redact_errors,
        telemetry: ProcedureTelemetry::new(Arc::clone(&path)),
        path,
    })
}

fn policies(described: &ProcedureBuilder, defaults: &Policies) -> Result<Policies, ProcedureError> {
    let path = &described.path;
    let final_errors = match &described.final_errors {
        None => defaults.final_errors,
        Some(codes) => FinalErrors::new(codes.iter().copied())
            .map_err(|error| ProcedureError::InvalidFinalError { procedure: path.clone(), error })?,
    };
    let policies = described.settings.policies(path, defaults, final_errors)?;
    match without_effect(described, policies.mode) {
        Some(setting) => {
            let (is, other) = match policies.mode {
                Mode::Reserved => ("reserved", "transactional"),
                Mode::Transactional => ("transactional", "reserved"),
            };
            Err(ProcedureError::NoEffect { procedure: path.clone(), setting, is, other })
        }
        None => Ok(policies),
    }
}

/// Returns a setting of the procedure itself that its mode ignores.
fn without_effect(ProcedureBuilder { settings, .. }: &ProcedureBuilder, mode: Mode) -> Option<&'static str> {
    let of_other_mode: &[_] = match mode {
        Mode::Reserved => &[
            ("isolation", settings.isolation.is_some()),
            ("on_disconnect ROLL_BACK", settings.on_disconnect == Some(DisconnectPolicy::RollBack)),
            ("transaction_idle", settings.transaction_idle.is_some()),
        ],
        Mode::Transactional => &[("effect SAME_SERVER", settings.effect == Some(EffectPolicy::SameServer))],
    };
    of_other_mode.iter().find_map(|(setting, is_set)| is_set.then_some(*setting))
}

fn method(pool: &DescriptorPool, path: &str) -> Option<MethodDescriptor> {
    let (service, method) = path.strip_prefix('/')?.split_once('/')?;
    pool.get_service_by_name(service)?.methods().find(|candidate| candidate.name() == method)
}

impl Procedure {
    /// Restricts the ids of the created resource to this kind.
    pub(crate) fn with_id_kind(self, id_kind: IdKind) -> Result<Self, ProcedureError> {
        let (Some(creates), Some(field)) = (&self.creates, &self.id_field) else { return Ok(self) };
        if !field.can_hold(id_kind) {
            return Err(ProcedureError::OtherIdKind {
                procedure: self.path.to_string(),
                field: creates.id_field.clone(),
                resource_type: creates.resource_type.clone(),
                kind: id_kind,
            });
        }
        Ok(Self { id_kind: Some(id_kind), ..self })
    }
}

/// Checks that there is such a type of details: a name with a mistake would redact nothing.
fn check_detail(path: &str, detail: &str, pool: &DescriptorPool) -> Result<(), ProcedureError> {
    let of_google = DescriptorPool::decode(tonic_types::pb::FILE_DESCRIPTOR_SET).ok();
    let is_known = |pool: &DescriptorPool| pool.get_message_by_name(detail).is_some_and(|it| it.full_name() == detail);
    if detail == redact::ALL || is_known(pool) || of_google.as_ref().is_some_and(is_known) {
        return Ok(());
    }
    Err(ProcedureError::UnknownErrorDetail { procedure: path.to_owned(), detail: detail.to_owned() })
}
