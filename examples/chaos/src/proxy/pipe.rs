//! One direction of a connection.

use std::io;

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    time,
};

use super::Road;
use crate::schedule::Direction;

/// Carries bytes until there are no more, or a cut is due.
pub(super) async fn pipe(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    direction: Direction,
    road: &Road,
) -> io::Result<()> {
    let mut state = road.state.subscribe();
    let mut buffer = vec![0; 16 << 10];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        let late = state.wait_for(|state| !state.held).await.map_or_else(|_| Default::default(), |state| state.late);
        if direction == Direction::Answers && !late.is_zero() {
            time::sleep(late).await;
        }
        match road.cut_within(direction, read) {
            Some(passing) => return to.write_all(&buffer[..passing]).await,
            None => to.write_all(&buffer[..read]).await?,
        }
    }
}
