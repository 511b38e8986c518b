//! The screen: the tables above, the servers below, and a command if one was asked for.

use ratatui::{
    DefaultTerminal, Frame,
    layout::{Constraint, Layout},
    style::{Style, Stylize as _},
    text::{Line, Text},
    widgets::{Block, Paragraph, Row, Table},
};

use super::servers::Servers;
use crate::{failure::Failure, health::Overview};

/// The terminal. When it is dropped, it is as it was.
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    pub(super) fn open() -> Result<Self, Failure> {
        Ok(Self(ratatui::try_init()?))
    }

    pub(super) fn draw(&mut self, view: &View) -> Result<(), Failure> {
        self.0.draw(|frame| view.draw(frame))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// All that is on the screen.
#[derive(Debug, Default)]
pub(super) struct View {
    /// The lines about the tables.
    tables: Vec<(&'static str, String)>,
    servers: Vec<[String; 6]>,
    failure: Option<String>,
    chosen: usize,
    command: Option<&'static str>,
}

impl View {
    pub(super) fn shows(&mut self, overview: Overview, servers: &Servers) {
        self.tables = overview.lines();
        self.failure = None;
        self.counts(servers);
    }

    /// The lines stay as they were.
    pub(super) fn fails(&mut self, failure: &Failure, servers: &Servers) {
        self.failure = Some(failure.to_string());
        self.counts(servers);
    }

    fn counts(&mut self, servers: &Servers) {
        let rate = |rate: Option<f64>| rate.map_or_else(|| "…".to_owned(), |rate| format!("{rate:.0}"));
        let rows = servers.servers.iter().map(|server| {
            let name = server.name().to_owned();
            match &server.now {
                Ok(now) => [
                    name,
                    rate(now.calls),
                    rate(now.replays),
                    rate(now.refusals),
                    now.in_flight.to_string(),
                    now.outcomes_waiting.to_string(),
                ],
                Err(error) => [name, error.clone(), String::new(), String::new(), String::new(), String::new()],
            }
        });
        self.servers = rows.collect();
    }

    /// Chooses another line. The command of the last one goes.
    pub(super) fn moves(&mut self, lines: isize) {
        self.chosen = self.chosen.saturating_add_signed(lines).min(self.tables.len().saturating_sub(1));
        self.command = None;
    }

    /// Shows the command for the chosen line.
    pub(super) fn enter(&mut self) {
        self.command = self.tables.get(self.chosen).map(|(name, _)| match *name {
            "expired" => "tonic-idempotency sweep",
            "audit" | "owner" | "table" => "tonic-idempotency status",
            "transaction" | "prepared" | "server" | "migrations" | "rows" | "vacuum" => "tonic-idempotency doctor",
            _ => "tonic-idempotency list",
        });
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let height = |lines: usize| Constraint::Length(u16::try_from(lines).unwrap_or(u16::MAX));
        let areas = Layout::vertical([height(self.tables.len() + 2), Constraint::Min(3), Constraint::Length(1)]);
        let [tables, servers, foot] = areas.areas(frame.area());
        let line = |(index, (name, value)): (usize, &(&str, String))| {
            let line = Line::from(format!("{name:<12} {value}"));
            if index == self.chosen { line.style(Style::new().reversed()) } else { line }
        };
        let lines: Text<'_> = self.tables.iter().enumerate().map(line).collect();
        frame.render_widget(Paragraph::new(lines).block(Block::bordered().title("tables")), tables);

        let header = Row::new(["server", "calls/s", "replays/s", "refusals/s", "in flight", "outcomes waiting"]).bold();
        let widths = [Constraint::Min(24), Constraint::Length(10), Constraint::Length(10), Constraint::Length(10)];
        let widths = widths.into_iter().chain([Constraint::Length(10), Constraint::Length(16)]);
        let rows = self.servers.iter().map(|cells| Row::new(cells.iter().map(String::as_str)));
        let title = if self.servers.is_empty() { "servers: --metrics URL" } else { "servers" };
        frame.render_widget(Table::new(rows, widths).header(header).block(Block::bordered().title(title)), servers);
        frame.render_widget(self.foot(), foot);
    }

    fn foot(&self) -> Line<'_> {
        match (&self.failure, self.command) {
            (Some(failure), _) => Line::from(failure.as_str()).red(),
            (None, Some(command)) => Line::from(command).bold(),
            (None, None) => Line::from("↑↓ choose   Enter command   q quit"),
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::{Terminal, backend::TestBackend};

    use super::*;

    #[test]
    fn is_as_it_was_when_a_person_last_looked() {
        let mut view = View {
            tables: vec![("server", "PostgreSQL 15".to_owned()), ("expired", "the oldest record waits".to_owned())],
            servers: vec![[
                "a:1".to_owned(),
                "12".to_owned(),
                "3".to_owned(),
                "0".to_owned(),
                "7".to_owned(),
                "0".to_owned(),
            ]],
            ..View::default()
        };
        let picture = |view: &View| {
            let mut terminal = Terminal::new(TestBackend::new(90, 9)).expect("a terminal");
            terminal.draw(|frame| view.draw(frame)).expect("a picture");
            terminal.backend().to_string()
        };
        let expected = [
            "┌tables──────────────────────────────────────────────────────────────────────────────────┐",
            "│server       PostgreSQL 15                                                              │",
            "│expired      the oldest record waits                                                    │",
            "└────────────────────────────────────────────────────────────────────────────────────────┘",
            "┌servers─────────────────────────────────────────────────────────────────────────────────┐",
            "│server                      calls/s    replays/s  refusals/s in flight  outcomes waiting│",
            "│a:1                         12         3          0          7          0               │",
            "└────────────────────────────────────────────────────────────────────────────────────────┘",
        ];
        let foot = |foot: &str| format!("\"{foot:<90}\"\n");
        let above = expected.map(|line| format!("\"{line}\"\n")).concat();
        assert_eq!(picture(&view), format!("{above}{}", foot("↑↓ choose   Enter command   q quit")));
        view.moves(9);
        view.enter();
        assert_eq!(picture(&view), format!("{above}{}", foot("tonic-idempotency sweep")));
        view.moves(-1);
        view.failure = Some("the database does not answer".to_owned());
        assert_eq!(picture(&view), format!("{above}{}", foot("the database does not answer")));
    }
}
