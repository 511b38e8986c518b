//! A handler without its type, so that the engine's types do not name it and little is moved around.

use futures_util::future::BoxFuture;
use http::Extensions;

/// The handler of a call, with its request. It has not begun.
pub(crate) type Handler<A> = Box<dyn DynHandler<A>>;

/// A handler that can be run once.
pub(crate) trait DynHandler<A>: Send {
    /// The extensions of its request.
    fn extensions_mut(&mut self) -> &mut Extensions;

    /// Runs it, to the end of its response.
    fn run(self: Box<Self>) -> BoxFuture<'static, A>;
}
