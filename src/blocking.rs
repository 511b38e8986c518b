//! Long computations, away from the threads that serve calls.

use std::{
    num::NonZero,
    sync::{Arc, LazyLock},
    thread::available_parallelism,
};

use thiserror::Error;
use tokio::sync::Semaphore;

/// Limits the computations that run at once to the number of processors, so that they leave blocking threads to others, and take
/// little memory.
static TURNS: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(available_parallelism().map_or(1, NonZero::get))));

/// The size above which a message is read on a blocking thread, in bytes. Up to it, reading even the most costly message takes no
/// longer than a change of threads on a busy machine.
const LARGE: usize = 64 << 10;

/// Reads a message of this many bytes: a small one at once, a large one with [`off_worker`].
pub(crate) async fn read_message<T: Send + 'static>(
    len: usize,
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Interruption> {
    if len <= LARGE { Ok(read()) } else { off_worker(read).await }
}

/// The computation panicked, or the runtime is shutting down.
#[derive(Debug, Error)]
#[error("reading the request was interrupted")]
pub(crate) struct Interruption;

/// Runs a computation on a blocking thread of the runtime, when it is its turn. If the future is dropped before that, the
/// computation does not run; after that, it runs to its end, and its result is dropped.
pub(crate) async fn off_worker<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Interruption> {
    let turn = Arc::clone(&TURNS).acquire_owned().await.map_err(|_| Interruption)?;
    let work = move || {
        let _turn = turn;
        work()
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| Interruption)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_error_and_gives_its_turn_back() {
        let turns = TURNS.available_permits();
        for _ in 0..=turns {
            assert!(off_worker(|| panic!("as asked")).await.is_err());
        }
        assert_eq!(off_worker(|| 7).await.ok(), Some(7));
    }
}
