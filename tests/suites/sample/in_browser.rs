//! The page of the sample, in a real browser.

mod browser;
mod eventually;
#[allow(dead_code, reason = "the suite of the sample uses the rest")]
mod process;
