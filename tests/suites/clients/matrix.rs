//! The results of all clients.

use std::fmt;

use futures_util::future::join_all;
use tokio::sync::Semaphore;

use crate::{behaviour::Behaviour, client::Client, first_calls::FirstCall, sample::Sample};

/// The number of clients that are tested at once: enough for one to work while another waits.
const AT_ONCE: usize = 4;

/// All clients, and their results.
#[derive(Debug)]
pub(crate) struct Matrix<'a> {
    rows: Vec<Row<'a>>,
}

#[derive(Debug)]
struct Row<'a> {
    client: &'a Client,
    cells: Vec<Result<(), String>>,
}

impl<'a> Matrix<'a> {
    /// Tests every behaviour with every client.
    pub(crate) async fn of(sample: &Sample, clients: &'a [Client]) -> Self {
        let first_calls = first_calls(sample, clients).await;
        let turns = Semaphore::new(AT_ONCE);
        let rows = clients.iter().map(async |client| {
            let _turn = turns.acquire().await;
            Row::of(sample, client, &first_calls).await
        });
        Self { rows: join_all(rows).await }
    }

    /// The lines of the table: the header, the separator, and one line per client.
    pub(crate) fn lines(&self) -> Vec<String> {
        let titles = Behaviour::ALL.map(Behaviour::title).join(" | ");
        let rule = "---|".repeat(3 + Behaviour::ALL.len());
        let mut lines = vec![format!("| client | version | protocol | {titles} |"), format!("|{rule}")];
        lines.extend(self.rows.iter().map(Row::line));
        lines
    }

    /// # Panics
    ///
    /// A client saw an unexpected result.
    pub(crate) fn assert_no_failures(&self) {
        let failures: Vec<_> = self.rows.iter().flat_map(Row::failures).collect();
        assert!(failures.is_empty(), "{} cells fail:\n{}", failures.len(), failures.join("\n"));
    }
}

impl fmt::Display for Matrix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines().join("\n"))
    }
}

impl<'a> Row<'a> {
    async fn of(sample: &Sample, client: &'a Client, first_calls: &[FirstCall]) -> Self {
        let name = client.to_string();
        let others: Vec<_> = first_calls.iter().filter(|first| first.by != name).collect();
        let mut cells = Vec::new();
        for behaviour in Behaviour::ALL {
            cells.push(behaviour.show(client, sample, &others).await);
        }
        Self { client, cells }
    }

    fn line(&self) -> String {
        let Client { name, version, protocol, .. } = self.client;
        let cells: Vec<_> = self.cells.iter().map(|cell| if cell.is_ok() { "yes" } else { "NO" }).collect();
        format!("| {name} | {version} | {protocol} | {} |", cells.join(" | "))
    }

    fn failures(&self) -> impl Iterator<Item = String> {
        let cells = Behaviour::ALL.iter().zip(&self.cells);
        cells.filter_map(|(behaviour, cell)| {
            let error = cell.as_ref().err()?;
            Some(format!("{}, {}: {error}", self.client, behaviour.title()))
        })
    }
}

/// Makes a first call with each client. A client that cannot make it fails in its own cell.
async fn first_calls(sample: &Sample, clients: &[Client]) -> Vec<FirstCall> {
    let mut first_calls = Vec::new();
    for client in clients {
        first_calls.extend(FirstCall::make(client, sample).await);
    }
    first_calls
}
