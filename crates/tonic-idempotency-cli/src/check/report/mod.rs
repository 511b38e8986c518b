//! The report: a line for each promise, for a person or for a program, and what they come to.

mod entry;
mod junit;
mod list;
pub(super) mod repeat;

pub(super) use self::list::list;

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use self::entry::{Entry, Verdict};
use super::{
    finding::{Checked, Finding, Proof},
    plan::Plan,
    promises::{Promise, SPECIFICATION},
    server::Server,
};
use crate::{
    failure::Failure,
    output::{self, counted, is_in_terminal},
};

pub(super) struct Report<'a> {
    plan: &'a Plan<'a>,
    server: &'a Server,
    bar: ProgressBar,
    begun: Instant,
    results: Vec<Entry>,
    /// When the promise that is being checked was begun, and how many calls had been made.
    promise: (Instant, u64),
}

#[derive(Serialize)]
struct Summary {
    ok: usize,
    failed: usize,
    not_checked: usize,
    not_promised: usize,
    calls: u64,
    seconds: f64,
    specification: &'static str,
    level: &'static str,
}

impl<'a> Report<'a> {
    pub(super) fn new(plan: &'a Plan<'a>, server: &'a Server) -> Self {
        let bar = if is_in_terminal() && !plan.target.json {
            ProgressBar::new(plan.promises.len() as u64)
        } else {
            ProgressBar::hidden()
        };
        if let Ok(style) = ProgressStyle::with_template("{bar:20} {pos}/{len} {msg}") {
            bar.set_style(style);
        }
        let begun = Instant::now();
        Self { plan, server, bar, begun, results: Vec::new(), promise: (begun, 0) }
    }

    pub(super) fn begin(&mut self, promise: &Promise) {
        self.bar.set_message(format!("{} {}", promise.code, promise.sentence));
        self.promise = (Instant::now(), self.server.calls.load(Ordering::Relaxed));
    }

    pub(super) fn add(&mut self, promise: &'static Promise, checked: Checked) -> Result<(), Failure> {
        let calls = self.server.calls.load(Ordering::Relaxed) - self.promise.1;
        let (verdict, detail, effects) = match checked {
            Ok(Proof::Effects(effects)) => (Verdict::Ok, String::new(), Some(effects)),
            Ok(Proof::Answers) => (Verdict::Ok, String::new(), None),
            Err(Finding::Failed(evidence)) => (Verdict::Failed, evidence, None),
            Err(Finding::NotChecked(needs)) => (Verdict::NotChecked, needs, None),
            Err(Finding::NotPromised(what)) => (Verdict::NotPromised, what, None),
            Err(Finding::Ended(failure)) => return Err(failure),
        };
        let repeat = (verdict == Verdict::Failed).then(|| repeat::line(self.server, promise.code));
        self.put(Entry {
            code: promise.code,
            promise: promise.sentence,
            level: promise.level.name(),
            verdict,
            detail: self.server.secrets.hide(&detail),
            calls,
            effects,
            seconds: seconds(self.promise.0.elapsed()),
            repeat,
        })?;
        self.bar.inc(1);
        Ok(())
    }

    /// Ends before any promise was checked: none of them can be kept.
    pub(super) fn end_at(mut self, evidence: &str) -> Result<(), Failure> {
        for promise in &self.plan.promises {
            let is_first = self.results.is_empty();
            self.results.push(Entry {
                code: promise.code,
                promise: promise.sentence,
                level: promise.level.name(),
                verdict: if is_first { Verdict::Failed } else { Verdict::NotChecked },
                detail: self.server.secrets.hide(evidence),
                calls: 0,
                effects: None,
                seconds: 0.0,
                repeat: is_first.then(|| repeat::line(self.server, promise.code)),
            });
        }
        for entry in self.results.iter().take(1) {
            self.print(entry)?;
        }
        self.end()
    }

    pub(super) fn end(self) -> Result<(), Failure> {
        self.bar.finish_and_clear();
        let number = |verdict| self.results.iter().filter(|entry| entry.verdict == verdict).count();
        let summary = Summary {
            ok: number(Verdict::Ok),
            failed: number(Verdict::Failed),
            not_checked: number(Verdict::NotChecked),
            not_promised: number(Verdict::NotPromised),
            calls: self.server.calls.load(Ordering::Relaxed),
            seconds: seconds(self.begun.elapsed()),
            specification: SPECIFICATION,
            level: self.plan.target.level.name(),
        };
        if self.plan.target.json {
            output::line(&serde_json::json!(summary).to_string())?;
        } else {
            output::line(&summary.to_string())?;
        }
        if let Some(path) = &self.plan.target.junit {
            junit::write(path, &self.results)?;
        }
        match summary.failed {
            0 => Ok(()),
            failed => Err(Failure::Findings(format!("{} failed", counted(failed as u64, "promise")))),
        }
    }

    fn put(&mut self, entry: Entry) -> Result<(), Failure> {
        self.print(&entry)?;
        self.results.push(entry);
        Ok(())
    }

    fn print(&self, entry: &Entry) -> Result<(), Failure> {
        self.bar.suspend(|| {
            if self.plan.target.json {
                return output::line(&serde_json::json!(entry).to_string());
            }
            let style = entry.verdict.style();
            let detail = if entry.verdict == Verdict::Ok { entry.proof() } else { output::plain(&entry.detail) };
            let (word, code, promise) = (entry.verdict.word(), entry.code, entry.promise);
            output::line(&format!("{style}{word:<12}{style:#}  {code:<3}  {promise:<60}  {detail}"))?;
            match &entry.repeat {
                Some(repeat) => output::line(&format!("{:19}{repeat}", "")),
                None => Ok(()),
            }
        })
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { ok, failed, not_checked, not_promised, calls, seconds, specification, level } = self;
        write!(f, "{ok} ok, {failed} FAILED, {not_checked} not checked, {not_promised} not promised; ")?;
        write!(f, "{calls} calls, {seconds:.0} s; specification {specification}, {level}")
    }
}

/// Rounded to milliseconds.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}
