//! Checks the configuration of a procedure against its descriptor.

use std::{sync::Arc, time::Duration};

use prost_reflect::{DescriptorPool, Kind, MethodDescriptor};

use super::{
    DisconnectPolicy, EffectPolicy, FinalErrors, IdField, KeyField, Mode, Policies, Procedure, ProcedureBuilder,
    ProcedureError, field, ignore::IgnoredFields, redact,
};
use crate::{status::IdKind, telemetry::ProcedureTelemetry};

/// The maximum lease and retention, ten years: longer ones are mistakes, and clocks would overflow.
pub(super) const MAX_DURATION: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The maximum wait for a running call, one hour: no client waits longer.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(60 * 60);

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

/// Checks the configuration of a procedure against its descriptor, and fills in the defaults.
pub(crate) fn resolve(
    described: ProcedureBuilder,
    pool: &DescriptorPool,
    defaults: &Policies,
) -> Result<Procedure, ProcedureError> {
    let policies = policies(&described, defaults)?;
    let ProcedureBuilder { path, creates, key_field, ignore, redact, redact_errors, .. } = described;
    let method = method(pool, &path).ok_or_else(|| unknown(&path, pool))?;
    if method.is_client_streaming() || method.is_server_streaming() {
        return Err(ProcedureError::Streaming { procedure: path });
    }
    let id_field = creates.as_ref().map(|creates| IdField::new(&path, &method, creates)).transpose()?;
    let key_field = key_field.map(|field| KeyField::new(&path, &method, &field)).transpose()?;
    field::find_all(&path, "redact", &method.output(), &redact)?;
    let ignore = IgnoredFields::resolve(&path, &method.input(), ignore)?;
    for detail in &redact_errors {
        check_detail(&path, detail, pool)?;
    }
    let path: Arc<str> = path.into();
    let telemetry = ProcedureTelemetry::new(Arc::clone(&path));
    Ok(Procedure {
        path,
        method,
        creates,
        id_field,
        id_kind: None,
        key_field,
        policies,
        ignore,
        redact,
        redact_errors,
        telemetry,
    })
}

fn policies(described: &ProcedureBuilder, defaults: &Policies) -> Result<Policies, ProcedureError> {
    let path = &described.path;
    let final_errors = match &described.final_errors {
        None => defaults.final_errors,
        Some(codes) => FinalErrors::new(codes.iter().copied())
            .map_err(|error| ProcedureError::InvalidFinalError { procedure: path.clone(), error })?,
    };
    let policies = Policies {
        effect: described.effect.unwrap_or(defaults.effect),
        expired_keys: described.expired_keys.unwrap_or(defaults.expired_keys),
        final_errors,
        isolation: described.isolation.unwrap_or(defaults.isolation),
        key_format: described.key_format.unwrap_or(defaults.key_format),
        key_policy: described.key_policy.unwrap_or(defaults.key_policy),
        lease: bounded(path, "lease", described.lease.unwrap_or(defaults.lease), MAX_DURATION)?,
        max_wait: bounded(path, "max_wait", described.max_wait.unwrap_or(defaults.max_wait), MAX_WAIT)?,
        mode: described.mode.unwrap_or(defaults.mode),
        on_disconnect: described.on_disconnect.unwrap_or(defaults.on_disconnect),
        on_foreign_reservation: described.on_foreign_reservation.unwrap_or(defaults.on_foreign_reservation),
        on_in_progress: described.on_in_progress.unwrap_or(defaults.on_in_progress),
        on_lease_ended: described.on_lease_ended.unwrap_or(defaults.on_lease_ended),
        on_no_user: described.on_no_user.unwrap_or(defaults.on_no_user),
        on_store_unavailable: described.on_store_unavailable.unwrap_or(defaults.on_store_unavailable),
        retention: bounded(path, "retention", described.retention.unwrap_or(defaults.retention), MAX_DURATION)?,
        transaction_idle: bounded(
            path,
            "transaction_idle",
            described.transaction_idle.unwrap_or(defaults.transaction_idle),
            MAX_DURATION,
        )?,
    };
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
fn without_effect(described: &ProcedureBuilder, mode: Mode) -> Option<&'static str> {
    let settings: &[_] = match mode {
        Mode::Reserved => &[
            ("isolation", described.isolation.is_some()),
            ("on_disconnect ROLL_BACK", described.on_disconnect == Some(DisconnectPolicy::RollBack)),
            ("transaction_idle", described.transaction_idle.is_some()),
        ],
        Mode::Transactional => &[("effect SAME_SERVER", described.effect == Some(EffectPolicy::SameServer))],
    };
    settings.iter().find_map(|(setting, is_set)| is_set.then_some(*setting))
}

fn method(pool: &DescriptorPool, path: &str) -> Option<MethodDescriptor> {
    let (service, method) = path.strip_prefix('/')?.split_once('/')?;
    pool.get_service_by_name(service)?.methods().find(|candidate| candidate.name() == method)
}

impl Procedure {
    /// Restricts the ids of the created resource to this kind.
    pub(crate) fn with_id_kind(self, id_kind: IdKind) -> Result<Self, ProcedureError> {
        let Some(creates) = &self.creates else { return Ok(self) };
        let fields = field::find(&self.path, &self.method.output(), &creates.id_field)?;
        let can_hold = fields.last().is_some_and(|field| match (field.kind(), id_kind) {
            (Kind::String, _) => true,
            (Kind::Bytes, kind) => kind == IdKind::Uuid,
            (_, kind) => kind != IdKind::Uuid,
        });
        if !can_hold {
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

fn bounded(path: &str, setting: &'static str, duration: Duration, most: Duration) -> Result<Duration, ProcedureError> {
    if duration.is_zero() || duration > most {
        return Err(ProcedureError::InvalidDuration { procedure: path.to_owned(), setting, most });
    }
    Ok(duration)
}
