//! What the fuzz targets (`fuzz/`) do with their input. The test target `fuzz` does it with the committed corpora.

mod canonical;
mod framing;
mod json;
mod world;

pub use self::{canonical::canonical, framing::framing, json::json};

/// One for all inputs of a thread.
fn runtime() -> &'static tokio::runtime::Runtime {
    thread_local! {
        static RUNTIME: &'static tokio::runtime::Runtime = Box::leak(Box::new(
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime"),
        ));
    }
    RUNTIME.with(|runtime| *runtime)
}
