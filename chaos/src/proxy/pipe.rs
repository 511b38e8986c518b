//! What goes over one connection.

use std::{
    io,
    sync::atomic::{AtomicBool, Ordering},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time,
};

use super::{Passage, Road, has_commit};
use crate::{fault::FaultKind, schedule::Direction};

/// One connection, both ways.
pub(super) struct Lane<'a> {
    /// Whether the answer to a COMMIT is to be lost.
    pub(super) losing: AtomicBool,
    pub(super) road: &'a Road,
}

impl Lane<'_> {
    /// Carries bytes until there are no more, or a cut is due.
    pub(super) async fn pipe(
        &self,
        from: &mut (impl AsyncRead + Unpin),
        to: &mut (impl AsyncWrite + Unpin),
        direction: Direction,
    ) -> io::Result<()> {
        let mut state = self.road.state.subscribe();
        let mut buffer = vec![0; 16 << 10];
        loop {
            let read = from.read(&mut buffer).await?;
            if read == 0 {
                return Ok(());
            }
            let bytes = &buffer[..read];
            let late =
                state.wait_for(|state| !state.held).await.map_or_else(|_| Default::default(), |state| state.late);
            if direction == Direction::Answers {
                if !late.is_zero() {
                    time::sleep(late).await;
                }
                if self.losing.load(Ordering::SeqCst) {
                    // Not before it has been done.
                    if has_commit(bytes) {
                        self.road.note(FaultKind::AfterCommitCut);
                        return Ok(());
                    }
                    continue;
                }
            }
            match self.road.passage(direction, bytes) {
                Passage::All => {}
                Passage::CutAfter(passing) => return to.write_all(&bytes[..passing]).await,
                Passage::LoseAnswer => self.losing.store(true, Ordering::SeqCst),
            }
            to.write_all(bytes).await?;
        }
    }
}
