//! The client's tower layer, which gives calls their keys and retries them, and its builder.

use std::{fmt, sync::Arc, time::Duration};

use tower_layer::Layer;

use crate::{
    BuildError, Descriptors,
    journal::Journal,
    procedure::{InCode, Procedure, Procedures},
    service::IdempotencyClient,
    settings::Settings,
    shared::Shared,
};

/// Gives each unary call of an opted-in procedure a key, and sends it again with the same key and the same bytes, if that may help.
///
/// Works around any tower service of a generated client: a `Channel`, a balanced one, a service in process.
///
/// Before it sends a call with a key again to a server of which no answer has shown the layer for the procedure, it asks that server
/// (`OperationService.DescribeProcedure`), with the metadata of the call. The answers count for each service that the layer makes, and its
/// clones.
///
/// | the server | the call |
/// |---|---|
/// | protects the procedure | is sent again |
/// | does not protect it | is not: it is [unprotected](crate::Unresolved::unprotected) |
/// | cannot tell, as it does not have that service (`UNIMPLEMENTED`, or HTTP 404) | is sent again; for a minute, it is not asked for the procedure |
/// | does not answer, or gives another error | waits: the server is asked again in the place of the next attempt |
///
/// ```no_run
/// use tonic::transport::Channel;
/// use tonic_idempotency_client::IdempotencyClientLayer;
/// use tower_layer::Layer;
///
/// # struct OrderServiceClient<T>(T);
/// # impl<T> OrderServiceClient<T> { fn new(channel: T) -> Self { Self(channel) } }
/// # fn make(channel: Channel, file_descriptor_set: &[u8]) -> Result<(), tonic_idempotency_client::BuildError> {
/// let layer = IdempotencyClientLayer::new(file_descriptor_set)?;
/// let client = OrderServiceClient::new(layer.layer(channel));
/// # Ok(())
/// # }
/// ```
///
/// # Cancel safety
///
/// Dropping the future of a call ends its attempts. The server may carry out the one that is under way; with a
/// [`journal`](IdempotencyClientBuilder::journal) the call is sent again later. To know the key of a call that may be dropped, choose it
/// yourself: put an [`OperationKey`](crate::OperationKey) into the request's extensions.
#[derive(Clone, Debug)]
pub struct IdempotencyClientLayer {
    shared: Arc<Shared>,
}

impl IdempotencyClientLayer {
    /// Makes a layer for the services in these descriptors, with the default settings.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if the descriptors are invalid, or no procedure is opted in.
    pub fn new(descriptors: impl Into<Descriptors>) -> Result<Self, BuildError> {
        Self::builder(descriptors).build()
    }

    /// Returns a builder for a layer of the services in these descriptors.
    pub fn builder(descriptors: impl Into<Descriptors>) -> IdempotencyClientBuilder {
        IdempotencyClientBuilder {
            descriptors: descriptors.into(),
            in_code: InCode::default(),
            journal: None,
            settings: Settings::default(),
        }
    }
}

impl<S: Clone> Layer<S> for IdempotencyClientLayer {
    type Service = IdempotencyClient<S>;

    fn layer(&self, inner: S) -> IdempotencyClient<S> {
        IdempotencyClient::new(inner, Arc::clone(&self.shared))
    }
}

/// Builds an [`IdempotencyClientLayer`].
#[must_use = "a builder does nothing until `build`"]
pub struct IdempotencyClientBuilder {
    descriptors: Descriptors,
    in_code: InCode,
    journal: Option<Journal>,
    settings: Settings,
}

impl IdempotencyClientBuilder {
    /// Opts in the procedure with this path, such as `/shop.v1.Orders/Create`, which has no option in the descriptors. Its server has to
    /// know the header `Idempotency-Key`.
    pub fn procedure(mut self, path: impl Into<String>) -> Self {
        self.in_code.named.push((path.into(), Procedure { takes_key: true, ..Procedure::default() }));
        self
    }

    /// Sets the field of the request that has the key of the procedure with this path, as AIP-155 has it in `request_id`: a string, or bytes
    /// for a UUID. A path such as `client.request_id` selects a field of a submessage. An empty field is filled in; the key of one that
    /// is not is the caller's own. Defaults to the option's `key_field`, or else to none. The key is in the header in any case.
    pub fn key_field(mut self, path: impl Into<String>, field: impl Into<String>) -> Self {
        self.in_code.key_fields.push((path.into(), field.into()));
        self
    }

    /// Says that the procedure with this path has no side effects, or is idempotent by itself: its calls are sent again without a key.
    /// The option `idempotency_level` of a procedure says the same.
    pub fn repeatable(mut self, path: impl Into<String>) -> Self {
        self.in_code.named.push((path.into(), Procedure::default()));
        self
    }

    /// Sets the maximum number of attempts of an operation, at least 1. Defaults to 10.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.settings.attempts = attempts.max(1);
        self
    }

    /// Sets the time that one attempt may take. Defaults to 10 seconds. A handler that takes longer goes on, and the next attempt finds it
    /// in progress.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.settings.attempt_timeout = timeout;
        self
    }

    /// Sets the time that an operation may take, with all its attempts. A call with a deadline of its own (`Request::set_timeout`)
    /// has that instead. Defaults to 1 minute.
    pub fn operation_timeout(mut self, timeout: Duration) -> Self {
        self.settings.operation_timeout = timeout;
        self
    }

    /// Sets the pauses between attempts, if the server does not say how long: each is a random part of a time that begins with the
    /// first and doubles up to the longest. Defaults to 50 milliseconds and 5 seconds.
    pub fn backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.settings.delays = [first, longest.max(first)];
        self
    }

    /// Makes no second attempt of a procedure whose last success had no `idempotency-status`, until an answer shows the layer: a server
    /// without it would run the call twice. A layer with a [`journal`](Self::journal) does the same;
    /// [`JournalBuilder::require_protection`](crate::journal::JournalBuilder::require_protection) asks for more. By default a warning is
    /// logged, once for each server and procedure.
    pub fn require_protection(mut self) -> Self {
        self.settings.requires_protection = true;
        self
    }

    /// Makes a second attempt in parallel if the first has not been answered after this time. Only for procedures whose server lets a
    /// second call wait for the first (`on_in_progress: IN_PROGRESS_POLICY_WAIT`). Defaults to never.
    pub fn hedge_after(mut self, after: Duration) -> Self {
        self.settings.hedge_after = Some(after);
        self
    }

    /// Sets the maximum size of a request message that is kept to be sent again, in bytes. A larger one is sent once, without a key, and a
    /// warning is logged; see [`allow_unprotected`](Self::allow_unprotected). Defaults to 4 MiB.
    pub fn max_request_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_request_bytes = bytes;
        self
    }

    /// Sends each call that cannot be protected, without retries, instead of refusing it: a stream, or a message larger than
    /// [`max_request_bytes`](Self::max_request_bytes). This concerns calls with a key of their caller's own, and all calls if there is a
    /// journal. By default they are refused, and not sent.
    pub fn allow_unprotected(mut self) -> Self {
        self.settings.allows_unprotected = true;
        self
    }

    /// Sets the maximum size of a response message, in bytes. A larger one is not read: its call fails with `OUT_OF_RANGE` and the size if
    /// the response has `idempotency-status`; otherwise its outcome is unknown. Defaults to 4 MiB, like tonic's `max_decoding_message_size`
    /// of the generated client, which has to be set, too.
    pub fn max_response_bytes(mut self, bytes: usize) -> Self {
        self.settings.max_response_bytes = bytes;
        self
    }

    /// Writes each call of a procedure that takes keys down before it is sent: see [`journal`](crate::journal). A call that cannot be
    /// written down is not sent, and fails. Defaults to none.
    pub fn journal(mut self, journal: Journal) -> Self {
        self.journal = Some(journal);
        self
    }

    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if the descriptors are invalid, no procedure is opted in, or the configuration of a procedure is invalid.
    pub fn build(self) -> Result<IdempotencyClientLayer, BuildError> {
        let procedures = Procedures::resolve(&self.descriptors.encoded, &self.in_code)?;
        Ok(IdempotencyClientLayer { shared: Arc::new(Shared::new(procedures, self.settings, self.journal)) })
    }
}

impl fmt::Debug for IdempotencyClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyClientBuilder").field("settings", &self.settings).finish_non_exhaustive()
    }
}
