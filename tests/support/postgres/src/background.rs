//! The runtime of this crate.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};

/// The runtime on which all servers are started, reached and removed. Every `#[tokio::test]` has its own runtime, which
/// ends with the test, and a server that tests share must not depend on one of those.
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
