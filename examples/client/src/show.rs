//! The output on the terminal: lines, and a progress bar below them.

use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

use crate::Error;

/// The terminal; or, if the output goes elsewhere, plain lines.
#[derive(Clone, Debug)]
pub(crate) struct Show {
    bar: Option<ProgressBar>,
}

impl Show {
    /// Shows a bar, if there is a terminal.
    pub(crate) fn new() -> Result<Self, Error> {
        if !io::stdout().is_terminal() {
            return Ok(Self { bar: None });
        }
        let style = ProgressStyle::with_template("{spinner} [{bar:30}] {pos}/{len} {elapsed} {wide_msg}")?;
        let bar = ProgressBar::no_length().with_style(style.progress_chars("=> "));
        bar.enable_steady_tick(Duration::from_millis(100));
        Ok(Self { bar: Some(bar) })
    }

    /// Prints a line.
    pub(crate) fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| print(text)),
            None => print(text),
        }
    }

    /// Says beside the bar what is going on.
    pub(crate) fn now(&self, text: &str) {
        self.bar.iter().for_each(|bar| bar.set_message(text.to_owned()));
    }

    /// Sets the length of the bar.
    pub(crate) fn steps(&self, steps: u64) {
        self.bar.iter().for_each(|bar| bar.set_length(steps));
    }

    /// Moves the bar by one step.
    pub(crate) fn step(&self) {
        self.bar.iter().for_each(|bar| bar.inc(1));
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

#[expect(clippy::print_stdout, reason = "it shows what happens")]
fn print(text: &str) {
    println!("{text}");
}
