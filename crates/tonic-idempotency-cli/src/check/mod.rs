//! `tonic-idempotency check`: whether a server keeps the promises of idempotency keys, found out from outside.

mod attempt;
mod effects;
mod finding;
mod operation;
mod options;
mod plan;
mod probe;
mod promises;
mod report;
mod request;
mod schema;
mod secrets;
mod server;
mod wire;

pub(crate) use self::options::Options;

use self::{plan::Plan, report::Report, server::Server};
use crate::failure::Failure;

pub(crate) async fn check(options: &Options) -> Result<(), Failure> {
    let Some(target) = &options.target else { return report::list() };
    let plan = Plan::new(target)?;
    let server = Server::of(target).await?;
    plan.ask_for_consent(&server)?;
    // What the server and the commands say may repeat a secret.
    run(&plan, &server).await.map_err(|failure| failure.reworded(|text| server.secrets.hide(text)))
}

async fn run(plan: &Plan<'_>, server: &Server) -> Result<(), Failure> {
    let mut report = Report::new(plan, server);
    if let Some(knows_no_keys) = probe::probe(server).await? {
        return report.end_at(&knows_no_keys);
    }
    for promise in &plan.promises {
        report.begin(promise);
        let checked = plan::check(promise, server).await?;
        report.add(promise, checked)?;
    }
    report.end()
}
