//! Resumes the calls that an earlier client has left in the journal.

use std::fmt;

use organization::proto::{CreateProjectRequest, CreateProjectResponse, Project};
use prost::Message as _;
use tonic_idempotency_client::journal::{EntryOutcome, Journal, Reply, Resumed};

use crate::{Error, client::Client};

/// How many calls of the journal came to which end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Those that the server had not carried out before.
    created: u32,
    replayed: u32,
}

/// Sends what the journal holds, and shows what comes of it.
pub(crate) async fn resume(client: &Client, journal: &Journal) -> Result<Counts, Error> {
    let entries = journal.entries().await?;
    client.show.steps(entries.len() as u64);
    client.show.line(&format!("the journal holds {}:", calls(entries.len())));
    for entry in &entries {
        let age = entry.age().as_secs_f32();
        client.show.line(&format!("  key {}, written {age:.1} s ago", entry.key));
    }
    client.show.line("it is resumed:");
    let resumed = journal.resume(client.service.clone()).await;

    let projects = client.list().await?;
    let mut counts = Counts::default();
    for Resumed { key, outcome, request, .. } in resumed {
        match outcome {
            EntryOutcome::Answered(reply) => {
                let name = created_once(&CreateProjectRequest::decode(request)?, &reply, &projects)?;
                let how = if reply.delivery.replayed { "replayed" } else { "created" };
                counts.replayed += u32::from(reply.delivery.replayed);
                counts.created += u32::from(!reply.delivery.replayed);
                client.show.step();
                client.show.line(&format!("{name}, {how}"));
            }
            EntryOutcome::Failed(status) => {
                return Err(format!("the call with the key {key} has failed: {status}").into());
            }
            EntryOutcome::Expired { age } => {
                let age = humantime::format_duration(age);
                client.show.line(&format!("the call with the key {key} is too old to be sent: {age}"));
            }
            EntryOutcome::Unresolved(status) => client.show.line(&format!("the call with the key {key}: {status}")),
            _ => {}
        }
    }
    match journal.entries().await?.len() {
        0 => Ok(counts),
        left => Err(format!("{} left in the journal; start the client again", calls(left)).into()),
    }
}

/// Checks that the server has one project for a call, whose id is in the reply.
fn created_once(request: &CreateProjectRequest, reply: &Reply, projects: &[Project]) -> Result<String, Error> {
    let id = reply.decode::<CreateProjectResponse>()?.project_id;
    let is_its = |project: &&Project| project.name == request.name && project.labels == request.labels;
    let ids: Vec<_> = projects.iter().filter(is_its).map(|project| &project.id).collect();
    if ids != [&id] {
        return Err(format!("{} has the id {id}; the server lists {ids:?}", request.name).into());
    }
    Ok(format!("{} has the id {id}", request.name))
}

fn calls(number: usize) -> String {
    format!("{number} call{}", if number == 1 { "" } else { "s" })
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { created, replayed } = self;
        write!(f, "from the journal: {}, replayed: {replayed}, created: {created}, left: 0", created + replayed)
    }
}
