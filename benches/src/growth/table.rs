//! A table of a size, on a server of its own.

use std::{
    ops::Range,
    time::{Duration, SystemTime},
};

use organization::ALICE;
use tokio_postgres::{Client, types::Type};
use uuid::Uuid;

use crate::{
    Error,
    context::Context,
    database::{
        contender::RESERVED,
        load::Client as _,
        world::{Served, World},
    },
};

/// What calls bring, in bytes: with the rest of it, a response of about 100 bytes.
pub(super) const PAYLOAD: usize = 60;

/// How many rows are put in between two checkpoints, so that the write-ahead log stays small.
const STRIDE: u64 = 2_000_000;
/// How many connections put them in.
const WRITERS: u64 = 2;

const HOUR: Duration = Duration::from_secs(60 * 60);

/// The server's table of idempotency keys, with so many rows.
pub(super) struct Table {
    pub(super) world: World,
    pub(super) rows: usize,
}

/// What a table takes of the disk, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) table: i64,
    pub(super) indexes: i64,
    pub(super) unique_index: i64,
}

/// Which rows a table is filled with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rows {
    Expired,
    Live,
}

impl Table {
    /// A table with so many rows that expire in one hour to 24.
    pub(super) async fn with_rows(context: &Context, rows: usize) -> Result<Self, Error> {
        let world = World::start().await?;
        let mut service = Served::start(world.routes(RESERVED, world.address()?)?).await?;
        service.create_project(Uuid::new_v4(), vec![0x5a; PAYLOAD]).await?;
        world.finish_all_work().await?;
        world.superuser().batch_execute(include_str!("prepare.sql")).await?;
        let table = Self { world, rows };
        table.fill(context, rows, Rows::Live).await?;
        Ok(table)
    }

    /// Puts so many rows in.
    pub(super) async fn fill(&self, context: &Context, rows: usize, which: Rows) -> Result<(), Error> {
        let superuser = self.world.superuser();
        superuser.batch_execute(include_str!("without_indexes.sql")).await?;
        let mut writers = Vec::new();
        for _ in 0..WRITERS {
            let writer = self.world.connect().await?;
            // As a replica's they are not held against the resources that they reference, one by one.
            writer.batch_execute("SET synchronous_commit = off; SET session_replication_role = replica").await?;
            writers.push(writer);
        }
        let rows = u64::try_from(rows)?;
        let mut filled = 0;
        while filled < rows {
            let end = rows.min(filled + STRIDE);
            let middle = filled.midpoint(end);
            tokio::try_join!(
                copy(&writers[0], filled..middle, rows, which),
                copy(&writers[1], middle..end, rows, which),
            )?;
            superuser.batch_execute("CHECKPOINT").await?;
            filled = end;
            if rows > STRIDE {
                context.progress(&format!("{} million rows are there", filled as f64 / 1e6));
            }
        }
        superuser.batch_execute(include_str!("with_indexes.sql")).await?;
        superuser.batch_execute("ANALYZE tenant.idempotency_keys").await?;
        superuser.batch_execute("CHECKPOINT").await?;
        Ok(())
    }

    pub(super) async fn size(&self) -> Result<Size, Error> {
        const SIZE: &str = "SELECT pg_table_size('tenant.idempotency_keys'), pg_indexes_size('tenant.idempotency_keys'), \
             pg_relation_size('tenant.idempotency_keys_uq_key_user')";
        let row = self.world.superuser().query_one(SIZE, &[]).await?;
        Ok(Size { table: row.try_get(0)?, indexes: row.try_get(1)?, unique_index: row.try_get(2)? })
    }

    /// The keys of rows of the caller's own, from all over the table, in no order.
    pub(super) async fn keys(&self) -> Result<Vec<Uuid>, Error> {
        const KEYS: &str = "SELECT idempotency_key FROM tenant.idempotency_keys TABLESAMPLE SYSTEM ($1::float8) \
             WHERE user_id = $2 ORDER BY random() LIMIT 20000";
        const ENOUGH: f64 = 2e6;
        let percent = (100.0 * ENOUGH / self.rows as f64).min(100.0);
        let rows = self.world.superuser().query(KEYS, &[&percent, &ALICE]).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    /// How many images of whole pages the server has logged.
    pub(super) async fn page_images(&self) -> Result<i64, Error> {
        let row = self.world.superuser().query_one("SELECT wal_fpi FROM pg_stat_wal", &[]).await?;
        Ok(row.try_get(0)?)
    }

    /// How many rows have expired.
    pub(super) async fn expired(&self) -> Result<i64, Error> {
        const EXPIRED: &str = "SELECT count(*) FROM tenant.idempotency_keys WHERE expires <= now()";
        Ok(self.world.superuser().query_one(EXPIRED, &[]).await?.try_get(0)?)
    }
}

/// Puts some of all rows in.
async fn copy(writer: &Client, rows: Range<u64>, all: u64, which: Rows) -> Result<(), Error> {
    let first_expires = match which {
        Rows::Expired => SystemTime::now() - 24 * HOUR,
        Rows::Live => SystemTime::now() + HOUR,
    };
    writer
        .query_typed(
            include_str!("fill.sql"),
            &[
                (&i64::try_from(rows.start + 1)?, Type::INT8),
                (&i64::try_from(rows.end)?, Type::INT8),
                (&(all as f64), Type::FLOAT8),
                (&first_expires, Type::TIMESTAMPTZ),
            ],
        )
        .await?;
    Ok(())
}
