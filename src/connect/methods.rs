//! The methods of the services, by path.

use std::collections::{HashMap, HashSet};

use connectrpc::{MethodKind, dispatcher::MethodDescriptor as Route};
use prost_reflect::{DescriptorPool, MethodDescriptor, prost_types::method_options::IdempotencyLevel};

/// The procedures of the descriptors, by path without the leading slash.
#[derive(Debug)]
pub(super) struct Methods {
    by_path: HashMap<String, Method>,
    services: HashSet<String>,
}

#[derive(Clone)]
pub(super) struct Method {
    pub(super) descriptor: MethodDescriptor,
    pub(super) route: Route,
}

impl Methods {
    pub(super) fn of(pool: &DescriptorPool) -> Self {
        let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
        let by_path = methods.map(|method| {
            let path = format!("{}/{}", method.parent_service().full_name(), method.name());
            (path, Method { route: route(&method), descriptor: method })
        });
        Self { by_path: by_path.collect(), services: pool.services().map(|it| it.full_name().to_owned()).collect() }
    }

    pub(super) fn get(&self, path: &str) -> Option<&Method> {
        self.by_path.get(path.strip_prefix('/').unwrap_or(path))
    }

    /// Returns whether the path is that of a method of a known service, whether or not the service has the method.
    pub(super) fn has_service_of(&self, path: &str) -> bool {
        let service = path.strip_prefix('/').and_then(|path| path.rsplit_once('/')).map(|(service, _)| service);
        service.is_some_and(|service| self.services.contains(service))
    }
}

/// Omits the descriptor: its `Debug` overflows the stack on recursive message types.
impl std::fmt::Debug for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Method").field("descriptor", &self.descriptor.full_name()).field("route", &self.route).finish()
    }
}

fn route(method: &MethodDescriptor) -> Route {
    match (method.is_client_streaming(), method.is_server_streaming()) {
        (false, false) => {
            let options = method.method_descriptor_proto().options.as_ref();
            let level = options.map(|options| options.idempotency_level());
            Route::unary(level == Some(IdempotencyLevel::NoSideEffects))
        }
        (false, true) => Route::from_kind(MethodKind::ServerStreaming),
        (true, false) => Route::from_kind(MethodKind::ClientStreaming),
        (true, true) => Route::from_kind(MethodKind::BidiStreaming),
    }
}
