//! Keys on procedures that are not opted in.

use std::collections::{HashMap, HashSet};

use http::{Request, header};
use prost_reflect::{DescriptorPool, MethodDescriptor};

use crate::{
    key::IdempotencyKey,
    policy::{ProcedureError, UnprotectedKeyPolicy, path_of, read_service_options, unknown},
    rejection::Rejection,
    telemetry::UnprotectedKeyTelemetry,
};

/// The label of procedures that are not in the descriptors: callers choose their paths, so that these are no labels.
const OTHER: &str = "other";

/// The packages of gRPC's own services, such as health and reflection. They only read.
const OF_GRPC: &str = "grpc.";

const OPT_IN: &str = "opt the procedure in; or let clients send no key; or change the policy on_unprotected_key";
const STREAMING: &str =
    "a streaming procedure cannot be opted in: let clients send no key; or change the policy on_unprotected_key";
const UNKNOWN: &str = "give the layer the descriptors of the procedure, and opt it in; or let clients send no key; or change the \
                       policy on_unprotected_key";

/// The policies for keys on procedures that are not opted in, and their counters.
///
/// | the procedure | its policy is the first of these | counted as |
/// |---|---|---|
/// | of one of gRPC's own services, such as health | always passed through | |
/// | in the descriptors | set in code for it, or for its service; the service's option; the layer's | its path |
/// | of a service in the descriptors that has no such procedure | always passed through: the service refuses it | |
/// | any other that is called over gRPC | set in code for it, or for its service; the layer's | `other` |
/// | any other path | always passed through: it need not be a procedure | |
#[derive(Debug)]
pub(super) struct UnprotectedKeys {
    /// The procedures of the descriptors that are not opted in, by path.
    procedures: HashMap<String, UnprotectedKey>,
    /// The services of the descriptors.
    services: HashSet<String>,
    overrides: Overrides,
    default: UnprotectedKeyPolicy,
    other: UnprotectedKeyTelemetry,
}

/// The policy for keys on one procedure, and their counter.
#[derive(Debug)]
struct UnprotectedKey {
    policy: UnprotectedKeyPolicy,
    remedy: &'static str,
    telemetry: UnprotectedKeyTelemetry,
}

impl UnprotectedKeys {
    /// Resolves the policies of all procedures but those that are opted in.
    pub(super) fn resolve(
        pool: &DescriptorPool,
        is_opted_in: impl Fn(&str) -> bool,
        overrides: Overrides,
        default: UnprotectedKeyPolicy,
    ) -> Result<Self, ProcedureError> {
        let services: HashSet<_> = pool.services().map(|service| service.full_name().to_owned()).collect();
        let of_options: HashMap<_, _> = read_service_options(pool)?
            .into_iter()
            .map(|(service, policy)| (service.full_name().to_owned(), policy))
            .collect();
        let mut procedures = HashMap::new();
        for service in pool.services().filter(|service| !service.full_name().starts_with(OF_GRPC)) {
            let of_service = of_options.get(service.full_name()).copied().unwrap_or(default);
            for method in service.methods() {
                let path = path_of(&method);
                if !is_opted_in(&path) {
                    let policy = overrides.of(&path).unwrap_or(of_service);
                    procedures.insert(path.clone(), UnprotectedKey::new(&path, &method, policy));
                }
            }
        }
        for name in overrides.0.keys() {
            let Some((service, _)) = split(name) else { continue };
            if is_opted_in(name) {
                return Err(ProcedureError::NoUnprotectedKeys { procedure: name.clone() });
            }
            if services.contains(service) && !procedures.contains_key(name) {
                return Err(unknown(name, pool));
            }
        }
        Ok(Self { procedures, services, overrides, default, other: UnprotectedKeyTelemetry::new(OTHER) })
    }

    /// Decides whether a call to a procedure that is not opted in may pass, and counts its key if it has one.
    pub(super) fn check<B>(&self, request: &Request<B>) -> Result<(), Rejection> {
        if !has_key(request) {
            return Ok(());
        }
        let path = request.uri().path();
        let (policy, remedy, telemetry) = match self.procedures.get(path) {
            Some(known) => (known.policy, known.remedy, &known.telemetry),
            None if self.is_other_procedure(request) => {
                (self.overrides.of(path).unwrap_or(self.default), UNKNOWN, &self.other)
            }
            None => return Ok(()),
        };
        match policy {
            UnprotectedKeyPolicy::PassThrough => {
                telemetry.passed_through(path, remedy);
                Ok(())
            }
            UnprotectedKeyPolicy::Refuse => Err(reject(path, remedy, telemetry)),
        }
    }

    /// Rejects a call to a procedure of the descriptors, and counts its key.
    #[cfg(feature = "connect")]
    pub(super) fn reject(&self, path: &str) -> Rejection {
        match self.procedures.get(path) {
            Some(known) => reject(path, known.remedy, &known.telemetry),
            None => Rejection::KeyUnsupported,
        }
    }

    /// Returns whether a call to a procedure of the descriptors is rejected because of its key.
    #[cfg(feature = "connect")]
    pub(super) fn rejects<B>(&self, request: &Request<B>) -> bool {
        let rejects = |key: &UnprotectedKey| key.policy == UnprotectedKeyPolicy::Refuse;
        self.procedures.get(request.uri().path()).is_some_and(rejects) && has_key(request)
    }

    /// Returns whether the call is to a procedure of a service that is not in the descriptors.
    fn is_other_procedure<B>(&self, request: &Request<B>) -> bool {
        let content_type = request.headers().get(header::CONTENT_TYPE);
        content_type.is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
            && split(request.uri().path())
                .is_some_and(|(service, _)| !service.starts_with(OF_GRPC) && !self.services.contains(service))
    }
}

impl UnprotectedKey {
    fn new(path: &str, method: &MethodDescriptor, policy: UnprotectedKeyPolicy) -> Self {
        let is_streaming = method.is_client_streaming() || method.is_server_streaming();
        let remedy = if is_streaming { STREAMING } else { OPT_IN };
        Self { policy, remedy, telemetry: UnprotectedKeyTelemetry::new(path) }
    }
}

fn reject(path: &str, remedy: &'static str, telemetry: &UnprotectedKeyTelemetry) -> Rejection {
    let rejection = Rejection::KeyUnsupported;
    telemetry.rejected(path, remedy, rejection.reason().as_str());
    rejection
}

/// Policies that are set in code: by the path of a procedure, or by the full name of a service.
#[derive(Debug, Default)]
pub(super) struct Overrides(HashMap<String, UnprotectedKeyPolicy>);

impl Overrides {
    /// Sets the policy of a service, or of a procedure. The leading slash is optional.
    pub(super) fn set(&mut self, name: String, policy: UnprotectedKeyPolicy) {
        let name = name.strip_prefix('/').map(str::to_owned).unwrap_or(name);
        let name = if name.contains('/') { format!("/{name}") } else { name };
        self.0.insert(name, policy);
    }

    fn of(&self, path: &str) -> Option<UnprotectedKeyPolicy> {
        let of_service = || split(path).and_then(|(service, _)| self.0.get(service));
        self.0.get(path).or_else(of_service).copied()
    }
}

fn has_key<B>(request: &Request<B>) -> bool {
    request.headers().contains_key(IdempotencyKey::HEADER) || request.extensions().get::<IdempotencyKey>().is_some()
}

/// Splits a path into the service and the procedure.
fn split(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix('/')?.split_once('/')
}
