//! `tonic-idempotency top`: the tables and the servers, each two seconds.

mod keyboard;
mod screen;
mod servers;

use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use tokio::time::{MissedTickBehavior, interval, timeout};

use self::{
    keyboard::Keyboard,
    screen::{Screen, View},
    servers::Servers,
};
use crate::{
    connection::{Connection, ConnectionOptions},
    failure::Failure,
    health::{OVERVIEW, Overview},
};

const EACH: Duration = Duration::from_secs(2);

/// Shows `status`, and the rates of each server, each two seconds, until `q`.
///
/// It changes nothing. The arrows choose a line, and Enter shows the command for it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// The metrics of a server, such as http://10.0.0.7:9090/metrics. May be repeated.
    #[arg(long, value_name = "URL")]
    metrics: Vec<String>,
    #[command(flatten)]
    connection: ConnectionOptions,
}

pub(crate) async fn top(options: &Options) -> Result<(), Failure> {
    if options.connection.json || !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return Err(Failure::Input("top needs a terminal; `status --json` is for programs".to_owned()));
    }
    let mut servers = Servers::new(&options.metrics)?;
    // What cannot work is said before the screen is taken.
    let mut connection = Some(Connection::of_operator(&options.connection).await?);
    let mut screen = Screen::open()?;
    let mut keyboard = Keyboard::listen();
    let mut ticks = interval(EACH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut view = View::default();
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                // Keys are read between: a database that hangs must not hold the screen.
                let asking = timeout(EACH, ask(&mut connection, options));
                let (asked, ()) = tokio::join!(asking, servers.ask());
                match asked.unwrap_or_else(|_| Err(Failure::NoAnswer("the database does not answer".to_owned()))) {
                    Ok(overview) => view.shows(overview, &servers),
                    Err(failure) => view.fails(&failure, &servers),
                }
            }
            key = keyboard.next() => match key {
                Some(KeyEvent { code: KeyCode::Char('q') | KeyCode::Esc, .. }) | None => return Ok(()),
                Some(KeyEvent { code: KeyCode::Char('c'), modifiers: KeyModifiers::CONTROL, .. }) => return Ok(()),
                Some(KeyEvent { code: KeyCode::Up, .. }) => view.moves(-1),
                Some(KeyEvent { code: KeyCode::Down, .. }) => view.moves(1),
                Some(KeyEvent { code: KeyCode::Enter, .. }) => view.enter(),
                Some(_) => {}
            },
        }
        screen.draw(&view)?;
    }
}

/// Asks how the tables are, on a new connection if the last one has failed.
async fn ask(connection: &mut Option<Connection>, options: &Options) -> Result<Overview, Failure> {
    let open = match connection.take() {
        Some(open) => open,
        None => Connection::of_operator(&options.connection).await?,
    };
    let mut answers = open.ask::<Overview>(OVERVIEW, &[]).await?;
    *connection = Some(open);
    answers.pop().map(|answer| answer.row).ok_or_else(|| Failure::NoAnswer("an answer without a row".to_owned()))
}
