use std::{collections::HashMap, error, fmt, sync::Arc};

use prost_reflect::{DescriptorError, DescriptorPool};
use tokio_util::task::TaskTracker;

use crate::{
    IdempotencyLayer, Policies, ProcedureBuilder, ProcedureError, StatusResolver, Store, UserFromExtensions,
    UserResolver,
    canonical::Canonical,
    engine::Engine,
    layer::{Protected, Shared},
    outbox::DynStatusResolver,
    procedure::{read_options, resolve},
    store::DynStore,
};

/// The descriptors of the services: an encoded `FileDescriptorSet`, or a pool.
#[derive(Debug)]
pub struct Descriptors(Result<DescriptorPool, DescriptorError>);

impl From<&[u8]> for Descriptors {
    fn from(encoded: &[u8]) -> Self {
        Self(DescriptorPool::decode(encoded))
    }
}

impl<const N: usize> From<&[u8; N]> for Descriptors {
    fn from(encoded: &[u8; N]) -> Self {
        encoded.as_slice().into()
    }
}

impl From<DescriptorPool> for Descriptors {
    fn from(pool: DescriptorPool) -> Self {
        Self(Ok(pool))
    }
}

/// Builds an [`IdempotencyLayer`].
#[must_use = "a builder does nothing until `build`"]
pub struct IdempotencyLayerBuilder {
    descriptors: Descriptors,
    procedures: Vec<ProcedureBuilder>,
    allow_no_procedures: bool,
    policies: Policies,
    store: Option<Arc<dyn DynStore>>,
    status_resolver: Option<Box<dyn DynStatusResolver>>,
    user: Box<dyn UserResolver>,
    max_request_bytes: usize,
    max_response_bytes: usize,
}

impl IdempotencyLayerBuilder {
    pub(crate) fn new(descriptors: Descriptors) -> Self {
        Self {
            descriptors,
            procedures: Vec::new(),
            allow_no_procedures: false,
            policies: Policies::default(),
            store: None,
            status_resolver: None,
            user: Box::new(UserFromExtensions),
            max_request_bytes: 4 << 20,
            max_response_bytes: 1 << 20,
        }
    }

    /// Where the records live. Defaults to nowhere: calls pass through untouched.
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    /// Opts a procedure in, in code. Wins over the proto option of the same procedure.
    pub fn procedure(mut self, procedure: ProcedureBuilder) -> Self {
        self.procedures.push(procedure);
        self
    }

    /// Builds a layer for which no procedure is opted in. Defaults to refusing that: it is mostly a descriptor set that lost
    /// its options on the way.
    pub fn allow_no_procedures(mut self) -> Self {
        self.allow_no_procedures = true;
        self
    }

    /// What procedures do that do not say otherwise. Defaults to [`Policies::default`].
    pub fn policies(mut self, policies: Policies) -> Self {
        self.policies = policies;
        self
    }

    /// Finds the authenticated user. Defaults to [`UserFromExtensions`].
    pub fn user(mut self, user: impl UserResolver) -> Self {
        self.user = Box::new(user);
        self
    }

    /// Finds out the status of created resources. Defaults to what the store's claim brings along.
    pub fn status_resolver(mut self, resolver: impl StatusResolver) -> Self {
        self.status_resolver = Some(Box::new(resolver));
        self
    }

    /// The largest request message with a key, in bytes, compressed or not; above it the call is refused with
    /// `RESOURCE_EXHAUSTED`. Defaults to 4 MiB, as tonic's own limit, which has to be raised along with this one.
    pub fn max_request_bytes(mut self, bytes: usize) -> Self {
        self.max_request_bytes = bytes;
        self
    }

    /// The largest response message that is kept, in bytes; above it the first caller gets the response, and a retry
    /// `IDEMPOTENCY_RESPONSE_NOT_STORED`. Defaults to 1 MiB.
    pub fn max_response_bytes(mut self, bytes: usize) -> Self {
        self.max_response_bytes = bytes;
        self
    }

    /// The layer.
    ///
    /// # Errors
    ///
    /// [`BuildError`] where the descriptors cannot be read, opt nothing in, or a procedure is described that cannot be.
    pub fn build(self) -> Result<IdempotencyLayer, BuildError> {
        let pool = self.descriptors.0.map_err(BuildError::Descriptors)?;
        let resource_types = self.store.as_ref().and_then(|store| store.resource_types());

        let described = read_options(&pool)?.into_iter().chain(self.procedures);
        // The later ones, which the code gave, win.
        let described: HashMap<_, _> = described.map(|procedure| (procedure.path().to_owned(), procedure)).collect();
        let mut procedures = HashMap::with_capacity(described.len());
        for (path, described) in described {
            let procedure = resolve(described, &pool, &self.policies, resource_types)?;
            let canonical = Canonical::new(&procedure.method().input());
            procedures.insert(path, Arc::new(Protected { procedure: Arc::new(procedure), canonical }));
        }
        if procedures.is_empty() && !self.allow_no_procedures {
            return Err(BuildError::NoProcedures);
        }

        let engine = self.store.map(|store| {
            Arc::new(Engine {
                store,
                status_resolver: self.status_resolver,
                max_response_bytes: self.max_response_bytes,
                tasks: TaskTracker::new(),
            })
        });
        let shared = Shared { procedures, engine, user: self.user, max_request_bytes: self.max_request_bytes };
        Ok(IdempotencyLayer { shared: Arc::new(shared) })
    }
}

impl fmt::Debug for IdempotencyLayerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayerBuilder")
            .field("procedures", &self.procedures)
            .field("policies", &self.policies)
            .field("store", &self.store.is_some())
            .finish_non_exhaustive()
    }
}

/// A layer that cannot be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The descriptors cannot be read.
    Descriptors(DescriptorError),
    /// No procedure is opted in.
    NoProcedures,
    /// A procedure is described that cannot be.
    Procedure(ProcedureError),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Descriptors(_) => f.write_str("the descriptors cannot be read"),
            Self::NoProcedures => f.write_str(
                "no procedure is opted in: give one the option (idempotency.v1.procedure) or describe it in code; if \
                 there is one, the descriptor set has lost its options, as a round trip through prost-types does: write \
                 it with protoc, or with protox::Compiler::encode_file_descriptor_set",
            ),
            Self::Procedure(error) => error.fmt(f),
        }
    }
}

impl error::Error for BuildError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Descriptors(error) => Some(error),
            Self::NoProcedures | Self::Procedure(_) => None,
        }
    }
}

impl From<ProcedureError> for BuildError {
    fn from(error: ProcedureError) -> Self {
        Self::Procedure(error)
    }
}
