//! The keys that are pressed.

use std::thread;

use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use tokio::sync::mpsc;

/// Listens in a thread of its own, which waits in a system call, and ends with the process.
pub(super) struct Keyboard(mpsc::Receiver<KeyEvent>);

impl Keyboard {
    pub(super) fn listen() -> Self {
        let (send, pressed) = mpsc::channel(16);
        thread::spawn(move || {
            while let Ok(event) = event::read() {
                let key = match event {
                    Event::Key(key) if key.kind == KeyEventKind::Press => key,
                    // The screen is drawn anew for any key.
                    Event::Resize(..) => KeyEvent::from(event::KeyCode::Null),
                    _ => continue,
                };
                if send.blocking_send(key).is_err() {
                    break;
                }
            }
        });
        Self(pressed)
    }

    /// Returns the next key; `None` once the terminal is gone.
    pub(super) async fn next(&mut self) -> Option<KeyEvent> {
        self.0.recv().await
    }
}
