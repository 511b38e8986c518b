//! A client that is killed in the middle of its calls, and the next one, which ends them.

use std::{env, process::Stdio, sync::Arc};

use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
    task::JoinSet,
};
use tonic_idempotency_client::journal::Journal;
use uuid::Uuid;

use crate::{
    Args, Error,
    attempts::{Death, Fate},
    client::Client,
    directory::Directory,
    resume::resume,
    server::Server,
    show::Show,
};

/// Starts a client that is killed, and is the next one itself.
pub(crate) async fn kill(args: &Args, server: &Server, show: &Show) -> Result<String, Error> {
    let directory = Directory::new("journal")?;
    let file = args.journal.clone().unwrap_or_else(|| directory.path().join("client.journal"));
    let label = Uuid::new_v4();

    show.line(&format!("a client begins; its journal is {}", file.display()));
    let mut first = Command::new(env::current_exe()?);
    first.args(server.arguments()).arg("--journal").arg(&file);
    first.args(["--calls", &args.calls.to_string(), "--be-killed", &label.to_string()]);
    let mut first = first.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
    let mut lines = BufReader::new(first.stdout.take().ok_or("its output is not read")?).lines();
    while let Some(line) = lines.next_line().await? {
        show.line(&line);
    }
    let end = first.wait().await?;
    if end.code().is_some() {
        return Err(format!("the client was not killed: {end}").into());
    }
    show.line(&format!("the client is dead: {end}"));

    show.line("the next client begins");
    let journal = Journal::builder().parallelism(1).open(file)?;
    let client = Client::new(server, Some(&journal), label, show)?;
    let resumed = resume(&client, &journal).await?;
    let projects = client.count().await?;
    if projects != args.calls as usize {
        return Err(format!("{} calls created {projects} projects", args.calls).into());
    }
    Ok(format!("calls: {}; {resumed}; projects: {projects}", args.calls))
}

/// Creates projects, and is killed: a third of the calls are answered, half of the others are carried out, and the rest are only in the
/// journal.
pub(crate) async fn be_killed(client: &Client, calls: u32) -> Result<String, Error> {
    let answered = calls / 3;
    for number in 1..=answered {
        let id = client.create(number, 0).await?.into_inner().project_id;
        client.show.line(&format!("project {number} has the id {id}"));
    }
    let carried_out = answered + (calls - answered).div_ceil(2);
    let death = Arc::new(Death::after(calls - answered));
    let mut under_way = JoinSet::new();
    client.show.line(&format!("projects {} to {calls}, at once:", answered + 1));
    for number in answered + 1..=calls {
        let death = Arc::clone(&death);
        let fate = if number <= carried_out { Fate::Unanswered(death) } else { Fate::Unsent(death) };
        under_way.spawn(client.clone().create_with(number, fate));
    }
    if let Some(ended) = under_way.join_next().await {
        ended??;
    }
    Err("a call has ended before the client was killed".into())
}
