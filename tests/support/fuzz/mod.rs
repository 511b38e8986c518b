//! The bodies of the fuzz targets (`fuzz/`). The test target `fuzz` runs them on the committed corpora.

mod canonical;
mod descriptors;
mod envelope;
mod framing;
mod json;
mod mutation;
mod random;
mod world;

pub use self::{
    canonical::canonical, descriptors::descriptors, envelope::envelope, framing::framing, json::json, mutation::mutate,
};

/// The runtime for all inputs of a thread.
fn runtime() -> &'static tokio::runtime::Runtime {
    thread_local! {
        static RUNTIME: &'static tokio::runtime::Runtime = Box::leak(Box::new(
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime"),
        ));
    }
    RUNTIME.with(|runtime| *runtime)
}
