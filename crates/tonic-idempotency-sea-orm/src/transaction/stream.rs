//! The rows of a statement in a transaction, streamed.

use std::{
    fmt,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::{Stream, TryStreamExt as _};
use sea_orm::{DbBackend, DbErr, QueryResult, Statement, StreamTrait};
use tokio::sync::mpsc;

use super::{Savepoint, Transaction, connection::query};
use crate::session::StatementGuard;

/// The rows of a statement in a [`Transaction`], one after the other. Other statements of the transaction wait until it is
/// read to its end or dropped. Drop it before the handler answers: the layer cannot commit as long as it lives, and refuses the call.
pub struct RowStream {
    /// Has the connection; `None` once all rows are read.
    reading: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    rows: mpsc::Receiver<Result<QueryResult, DbErr>>,
}

impl RowStream {
    fn new(mut entered: StatementGuard, statement: Statement) -> Self {
        // Holds the row that is returned next: the statement is read no further than that.
        let (sender, rows) = mpsc::channel(1);
        let reading = async move {
            let query = query(statement, entered.has_statement_cache());
            let each = sender.clone();
            let read = entered.answer(DbErr::Query, |connection| {
                Box::pin(async move {
                    let mut rows = query.fetch(connection);
                    while let Some(row) = rows.try_next().await? {
                        // The receiver is a part of the stream that polls this.
                        let _ = each.send(Ok(row.into())).await;
                    }
                    Ok(())
                })
            });
            if let Err(error) = read.await {
                let _ = sender.send(Err(error)).await;
            }
        };
        Self { reading: Some(Box::pin(reading)), rows }
    }
}

impl Stream for RowStream {
    type Item = Result<QueryResult, DbErr>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Some(reading) = &mut self.reading
            && reading.as_mut().poll(cx).is_ready()
        {
            self.reading = None;
        }
        self.rows.poll_recv(cx)
    }
}

impl fmt::Debug for RowStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowStream").finish_non_exhaustive()
    }
}

type StreamFuture<'a> = Pin<Box<dyn Future<Output = Result<RowStream, DbErr>> + Send + 'a>>;

impl StreamTrait for Transaction {
    type Stream<'a> = RowStream;

    fn get_database_backend(&self) -> DbBackend {
        DbBackend::Postgres
    }

    fn stream_raw<'a>(&'a self, statement: Statement) -> StreamFuture<'a> {
        Box::pin(async move { Ok(RowStream::new(self.session.enter(self.level).await?, statement)) })
    }
}

impl StreamTrait for Savepoint {
    type Stream<'a> = RowStream;

    fn get_database_backend(&self) -> DbBackend {
        DbBackend::Postgres
    }

    fn stream_raw<'a>(&'a self, statement: Statement) -> StreamFuture<'a> {
        self.transaction.stream_raw(statement)
    }
}
