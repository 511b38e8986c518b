//! Runs the command: creates projects, resumes a journal, or kills a client in the middle of its calls.

use std::time::Duration;

use tokio_stream::StreamExt as _;
use tonic_idempotency_client::{Delivery, PendingWork, ProgressEvent, completed, journal::Journal};
use uuid::Uuid;

use crate::{
    Args, Error,
    client::Client,
    kill::{be_killed, kill},
    resume::resume,
    server::{Server, be_the_sample},
    show::Show,
};

/// Creates projects, and shows each attempt and what becomes of the work behind them; or shows how a client survives its own death.
///
/// # Errors
///
/// There is no server; the journal cannot be used; or a project was not created, or more than once.
pub async fn run(args: Args) -> Result<(), Error> {
    if let Some(ready_file) = &args.be_the_sample {
        return be_the_sample(ready_file, args.work).await;
    }
    let show = Show::new()?;
    let shown = shown(&args, &show).await;
    show.end();
    show.line(&shown?);
    Ok(())
}

/// Returns what is said at the end.
async fn shown(args: &Args, show: &Show) -> Result<String, Error> {
    let server = Server::of(args, show).await?;
    if args.kill {
        return kill(args, &server, show).await;
    }
    // One after the other, so that their lines are not mixed.
    let open = |file| Journal::builder().parallelism(1).open(file);
    let journal = args.journal.as_ref().map(open).transpose()?;
    let client = Client::new(&server, journal.as_ref(), args.be_killed.unwrap_or_else(Uuid::new_v4), show)?;
    if args.be_killed.is_some() {
        return be_killed(&client, args.calls).await;
    }
    if let Some(journal) = &journal
        && !journal.entries().await?.is_empty()
    {
        return Ok(resume(&client, journal).await?.to_string());
    }
    create(&client, args).await
}

async fn create(client: &Client, args: &Args) -> Result<String, Error> {
    let (mut attempts, mut replayed) = (0, 0);
    client.show.steps(2 * u64::from(args.calls));
    for number in 1..=args.calls {
        let response = client.create(number, args.lose).await?;
        let delivery = Delivery::of(response.extensions());
        attempts += delivery.attempts;
        replayed += u32::from(delivery.replayed);
        client.show.step();
        let work = completed(&response);
        let id = response.into_inner().project_id;
        client.show.line(&format!("project {number} has the id {id}; attempts: {}", delivery.attempts));
        watch(&client.show, number, work).await?;
    }
    let rows = client.count().await?;
    if rows != args.calls as usize {
        return Err(format!("{} calls created {rows} projects", args.calls).into());
    }
    Ok(format!("calls: {}; attempts: {attempts}; replayed: {replayed}; projects: {rows}", args.calls))
}

/// Shows what becomes of the work behind a project, until it has ended.
async fn watch(show: &Show, number: u32, work: PendingWork) -> Result<(), Error> {
    let mut progress = work.timeout(Duration::from_secs(600)).progress();
    while let Some(step) = progress.next().await {
        match step.event {
            ProgressEvent::Asking { waiting: true } => show.now("the server waits for the work"),
            ProgressEvent::Asking { .. } => show.now(&format!("look {}", step.looks)),
            ProgressEvent::Processing { next } => {
                show.now(&format!("processing; next look in {:.1} s", next.as_secs_f32()));
            }
            ProgressEvent::Unanswered { next, .. } => {
                show.now(&format!("no answer; next look in {:.1} s", next.as_secs_f32()));
            }
            ProgressEvent::Ended(result) => {
                result?;
                show.step();
                let elapsed = step.elapsed.as_secs_f32();
                show.line(&format!("the work behind project {number} is completed, after {elapsed:.1} s"));
            }
            _ => {}
        }
    }
    Ok(())
}
