//! The runtime of this crate.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};

/// The one runtime that servers are started, reached and removed on. Every `#[tokio::test]` has a runtime of its own
/// that ends with it, and a server shared by tests must not depend on any of them.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("scratch-postgres")
            .enable_all()
            .build()
            .expect("this process may start threads")
    })
}
