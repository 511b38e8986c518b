//! Operations that a test runs.

use std::sync::{Arc, atomic::Ordering};

use super::{
    Harness,
    server::{Crash, Fate, RunningProcess},
};
use crate::{
    rejection::Rejection,
    run::{Call, Codec, HandlerError, Outcome, RunError},
    store::Store,
};

impl<S: Store> Harness<S> {
    /// Runs a declared operation as the harness's caller, in the process that runs now; `None` if no answer comes: it or the request is lost,
    /// or the process dies. It counts as a call for [what goes wrong](Harness#what-goes-wrong), and for [`runs`](Self::runs).
    ///
    /// ```
    /// use std::{convert::Infallible, time::Duration};
    /// use tonic_idempotency::{
    ///     IdempotencyLayer,
    ///     layer::BuildError,
    ///     policy::{Mode, Procedure},
    ///     run::{Bytes, Outcome},
    ///     store::{MemoryStore, Store},
    ///     testing::Harness,
    /// };
    ///
    /// const CHARGE: &str = "billing.v1/ChargeOrder";
    ///
    /// fn idempotency(store: impl Store) -> Result<IdempotencyLayer, BuildError> {
    ///     let charge = Procedure::operation(CHARGE).mode(Mode::Transactional);
    ///     IdempotencyLayer::builder([]).store(store).procedure(charge).build()
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let service = tonic::service::Routes::default(); // none, since nothing is called
    /// let harness = Harness::with_layer(MemoryStore::new().accept_transactions(), idempotency, service);
    /// let charge = async || {
    ///     let handler = |_call| async { Ok::<_, Infallible>(b"receipt".to_vec()) };
    ///     harness.run::<Bytes, _, _>(CHARGE, "order-17", b"EUR 12", handler).await
    /// };
    ///
    /// harness.crash_before_record();
    /// assert!(charge().await.is_none());
    /// assert_eq!(charge().await.unwrap().unwrap(), Outcome::First(b"receipt".to_vec())); // nothing was left
    /// assert_eq!(charge().await.unwrap().unwrap(), Outcome::Replayed(b"receipt".to_vec()));
    ///
    /// harness.advance(Duration::from_secs(24 * 3600)); // the record expires
    /// assert!(!charge().await.unwrap().unwrap().is_replay());
    /// assert_eq!(harness.runs(), 3);
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As of [`Operation::run`](crate::run::Operation::run).
    ///
    /// # Panics
    ///
    /// The operation is not declared, or the harness has no [caller](Self::caller).
    ///
    /// # Cancel safety
    ///
    /// As of [`Operation::run`](crate::run::Operation::run).
    pub async fn run<C, E, F>(
        &self,
        operation: &str,
        key: &str,
        request: &C::Request,
        handler: impl FnOnce(Call) -> F + Send + 'static,
    ) -> Option<Result<Outcome<C::Response>, RunError<E>>>
    where
        C: Codec,
        E: HandlerError,
        F: Future<Output = Result<C::Response, E>> + Send + 'static,
    {
        let fate = self.server.next_fate();
        let crash = match fate {
            Some(Fate::RequestLost) => return None,
            Some(Fate::Rejected(reason)) => return Some(Err(RunError::rejected(&Rejection::of(reason)))),
            Some(Fate::Crash) => Some(Crash(Arc::clone(&self.server))),
            Some(Fate::AnswerLost) | None => None,
        };
        let RunningProcess { process, layer, .. } = self.server.running();
        let operation = layer.operation::<C>(operation).unwrap_or_else(|error| panic!("{error}"));
        let caller = self.caller.as_ref().expect("a harness with a caller");
        let (alive, runs) = (process.clone(), Arc::clone(&self.runs));
        let handler = move |call| async move {
            runs.fetch_add(1, Ordering::SeqCst);
            let ended = alive.live(handler(call)).await;
            match crash {
                None => ended,
                Some(crash) => crash.strike(&alive).await,
            }
        };
        let answer = process.answer(operation.run(caller, key, request, handler)).await;
        answer.filter(|_| !matches!(fate, Some(Fate::AnswerLost)))
    }
}
