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
    /// By how many milliseconds the wall clocks of processes are ahead.
    static AHEAD: Cell<i64> = const { Cell::new(0) };
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

/// Sets the wall clocks of all processes of this thread ahead by so many milliseconds, or back. Others do not show it.
pub(super) fn set_wall_clocks(by: i64) {
    AHEAD.set(AHEAD.get() + by);
}

/// This thread is as any other from now on.
pub(super) fn leave() {
    AHEAD.set(0);
    BEGAN.set(None);
    SEED.set(None);
}

/// Whether the same seed gives the same trace here.
pub const IS_REPEATABLE: bool = cfg!(all(target_os = "linux", any(target_arch = "aarch64", target_arch = "x86_64")));

#[cfg(all(target_os = "linux", any(target_arch = "aarch64", target_arch = "x86_64")))]
#[expect(unsafe_code, reason = "functions that C code calls")]
mod functions {
    use std::{cell::Cell, ffi::c_int, mem::size_of, time::Duration};

    use tokio::time::Instant;

    use super::{AHEAD, BEGAN, BEGINNING, IS_ASKING, SEED};

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
        let (beginning, ahead) = if clock == CLOCK_REALTIME { (BEGINNING, AHEAD.get()) } else { (1, 0) };
        let shows = Duration::from_secs(beginning) + passed;
        let by = Duration::from_millis(ahead.unsigned_abs());
        let shows = if ahead < 0 { shows - by } else { shows + by };
        let seconds = i64::try_from(shows.as_secs()).unwrap_or(i64::MAX);
        // SAFETY: the caller's.
        unsafe { time.write(Time { seconds, nanoseconds: shows.subsec_nanos().into() }) };
        0
    }
}
