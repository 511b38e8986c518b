//! Panics, of which a plan wants some.

use std::{cell::Cell, panic, sync::Once};

use crate::service::PLANNED;

thread_local! {
    static PANICS: Cell<usize> = const { Cell::new(0) };
}

/// Returns how many panics that no plan wants there have been in this thread.
pub(crate) fn panics() -> usize {
    PANICS.get()
}

/// Keeps panics that a plan wants out of the output, and counts the others.
pub fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if panic.payload().downcast_ref::<&str>().copied() != Some(PLANNED)
                && panic.payload().downcast_ref::<String>().is_none_or(|message| message != PLANNED)
            {
                PANICS.set(PANICS.get() + 1);
                others(panic);
            }
        }));
    });
}
