//! The promises that are checked, and the calls that this costs.

use std::time::Duration;

use tokio::time::timeout;

use super::{
    finding::{Checked, Finding, not_checked},
    options::{Level, Target},
    probe,
    promises::{self, Need, Promise},
    server::Server,
};
use crate::{
    failure::Failure,
    output::{consents, is_in_terminal},
};

/// How long the check of a promise takes at most.
const LONGEST: Duration = Duration::from_secs(30);

pub(super) struct Plan<'a> {
    pub(super) target: &'a Target,
    pub(super) promises: Vec<&'static Promise>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(target: &'a Target) -> Result<Self, Failure> {
        let is_known = |code: &&String| promises::all().any(|promise| promise.code == code.as_str());
        if let Some(unknown) = target.only.iter().find(|code| !is_known(code)) {
            return Err(Failure::Input(format!(
                "--only {unknown}: there is no such promise; check --list has them all"
            )));
        }
        let is_wanted = |promise: &&Promise| match target.only.as_slice() {
            [] => promise.level <= target.level,
            only => only.iter().any(|code| code == promise.code),
        };
        Ok(Self { target, promises: promises::all().filter(is_wanted).collect() })
    }

    /// Asks a person whether the calls may be made.
    pub(super) fn ask_for_consent(&self, server: &Server) -> Result<(), Failure> {
        if self.target.yes {
            return Ok(());
        }
        let checked = || self.promises.iter().filter(|promise| missing(promise, server).is_none());
        let calls: u32 = probe::CALLS + checked().map(|promise| promise.calls).sum::<u32>();
        let creates: u32 = probe::CALLS + checked().map(|promise| promise.creates).sum::<u32>();
        let server = server.address.target();
        let announced = format!("About {calls} calls to {server}, of which about {creates} create something.");
        if !is_in_terminal() {
            return Err(Failure::Input(format!("{announced} They are real, so give --yes")));
        }
        if consents(&format!("{announced} Go on?"))? {
            Ok(())
        } else {
            Err(Failure::Input("nothing was called".to_owned()))
        }
    }
}

/// Returns what a check cannot do without.
fn missing(promise: &Promise, server: &Server) -> Option<Need> {
    promise.needs.iter().copied().find(|need| !need.is_met(server))
}

pub(super) async fn check(promise: &Promise, server: &Server) -> Result<Checked, Failure> {
    if let Some(need) = missing(promise, server) {
        return Ok(not_checked(format!("needs {}", need.flag())));
    }
    let late = || Err(Finding::Failed(format!("no end within {} s", LONGEST.as_secs())));
    match timeout(LONGEST, (promise.check)(server)).await.unwrap_or_else(|_| late()) {
        Err(Finding::Ended(failure)) => Err(failure),
        Err(Finding::NotPromised(what)) if server.level == Level::TonicIdempotency => Ok(Err(Finding::Failed(what))),
        checked => Ok(checked),
    }
}
