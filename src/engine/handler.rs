//! A handler without its type, so that the engine's types do not name it and little is moved around.

use futures_util::future::BoxFuture;
use http::Extensions;

/// The handler of a call, with its request. It has not begun.
pub(crate) type Handler<A> = Box<dyn DynHandler<A>>;

/// A handler, with its request. Running it uses both up.
pub(crate) trait DynHandler<A>: Send {
    /// The extensions of its request.
    fn extensions_mut(&mut self) -> &mut Extensions;

    /// Returns it once more, with its request as it is, for an attempt after this one; `None` if it can run only once.
    fn repeated(&self) -> Option<Handler<A>>;

    /// Runs it, to the end of its response.
    fn run(self: Box<Self>) -> BoxFuture<'static, A>;
}
