//! The page of the sample, in a real browser.

/// The features that the sample is built with, and the flags that every process of it gets.
const FEATURES: &str = "";
const FLAGS: [&str; 0] = [];

mod browser;
mod eventually;
#[allow(dead_code, reason = "the suite of the sample uses the rest")]
mod process;
