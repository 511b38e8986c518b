//! The two functions of the C library by which time and randomness would get into a run. The standard library, and the crates `uuid` and
//! `getrandom`, call those of the executable first, so the product has no seam for them and pays nothing.
//!
//! In a thread that runs a world they answer from its seed and its runtime's clock; in any other thread they ask the system.
//!
//! On systems other than Linux they are not there: a seed draws the same plan, and lives through it differently.

use std::cell::Cell;

use tokio::time::Instant;

thread_local! {
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
    /// Asking the runtime for its time may ask the system.
    static IS_ASKING: Cell<bool> = const { Cell::new(false) };
}

/// The wall clock at the beginning of each world, in seconds.
pub const BEGINNING: u64 = 1_800_000_000;

/// Random bytes of this thread come from a seed from now on.
pub(super) fn draw_from(seed: u64) {
    SEED.set(Some(seed));
}

/// Clocks of this thread show the time of its runtime from now on.
pub(super) fn follow_runtime() {
    BEGAN.set(Some(Instant::now()));
}

/// This thread is as any other from now on.
pub(super) fn leave() {
    BEGAN.set(None);
    SEED.set(None);
}

/// Whether the same seed gives the same trace here.
pub const IS_REPEATABLE: bool = cfg!(all(target_os = "linux", any(target_arch = "aarch64", target_arch = "x86_64")));

#[cfg(all(target_os = "linux", any(target_arch = "aarch64", target_arch = "x86_64")))]
#[expect(unsafe_code, reason = "functions that C code calls")]
mod functions {
    use std::{cell::Cell, ffi::c_int, mem::size_of};

    use tokio::time::Instant;

    use super::{BEGAN, BEGINNING, IS_ASKING, SEED};

    const CLOCK_REALTIME: c_int = 0;

    #[repr(C)]
    struct Time {
        seconds: i64,
        nanoseconds: i64,
    }

    unsafe extern "C" {
        fn syscall(number: i64, ...) -> i64;
    }

    #[cfg(target_arch = "x86_64")]
    mod number {
        pub(super) const GETRANDOM: i64 = 318;
        pub(super) const CLOCK_GETTIME: i64 = 228;
    }

    #[cfg(target_arch = "aarch64")]
    mod number {
        pub(super) const GETRANDOM: i64 = 278;
        pub(super) const CLOCK_GETTIME: i64 = 113;
    }

    /// # Safety
    ///
    /// As of the function of this name in POSIX: `buffer` has `length` bytes.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn getrandom(buffer: *mut u8, length: usize, flags: u32) -> isize {
        let Some(mut seed) = SEED.get() else {
            // SAFETY: the caller's.
            return unsafe { syscall(number::GETRANDOM, buffer, length, flags) } as isize;
        };
        for at in (0..length).step_by(size_of::<u64>()) {
            // SplitMix64.
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut bits = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let bytes = (bits ^ (bits >> 31)).to_le_bytes();
            let count = bytes.len().min(length - at);
            // SAFETY: `at + count` is at most `length`.
            unsafe { buffer.add(at).copy_from_nonoverlapping(bytes.as_ptr(), count) };
        }
        SEED.set(Some(seed));
        length as isize
    }

    /// # Safety
    ///
    /// As of the function of this name in POSIX: `time` is a `struct timespec`.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn clock_gettime(clock: c_int, time: *mut Time) -> c_int {
        let began = BEGAN.try_with(Cell::get).ok().flatten().filter(|_| !IS_ASKING.get());
        let Some(began) = began else {
            // SAFETY: the caller's.
            return unsafe { syscall(number::CLOCK_GETTIME, i64::from(clock), time) } as c_int;
        };
        IS_ASKING.set(true);
        let passed = Instant::now() - began;
        IS_ASKING.set(false);
        let beginning = if clock == CLOCK_REALTIME { BEGINNING } else { 1 };
        let seconds = i64::try_from(beginning + passed.as_secs()).unwrap_or(i64::MAX);
        // SAFETY: the caller's.
        unsafe { time.write(Time { seconds, nanoseconds: passed.subsec_nanos().into() }) };
        0
    }
}
