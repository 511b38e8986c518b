//! A table of a given size, on a server of its own.

use std::{
    ops::Range,
    time::{Duration, SystemTime},
};

use organization::{ALICE, BOB};
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

/// The payload of a call in bytes, which makes a response of about 100 bytes.
pub(super) const PAYLOAD: usize = 60;

/// The rows inserted between two checkpoints, few enough to keep the write-ahead log small.
const STRIDE: u64 = 2_000_000;
/// The number of connections that insert rows.
const WRITERS: u64 = 2;

const HOUR: Duration = Duration::from_secs(60 * 60);

/// A server's table of idempotency keys, with the given number of rows.
pub(super) struct Table {
    pub(super) world: World,
    pub(super) rows: usize,
}

/// The disk space of a table, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) table: i64,
    pub(super) indexes: i64,
    pub(super) unique_index: i64,
}

/// The rows that fill a table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rows {
    Expired,
    Live,
}

impl Table {
    /// Creates a table whose rows expire in one to 24 hours.
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

    /// Inserts the given number of rows.
    pub(super) async fn fill(&self, context: &Context, rows: usize, which: Rows) -> Result<(), Error> {
        let superuser = self.world.superuser();
        superuser.batch_execute(include_str!("without_indexes.sql")).await?;
        let mut writers = Vec::new();
        for _ in 0..WRITERS {
            let writer = self.world.connect().await?;
            // A replica does not check the foreign key of each row.
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
                context.progress(&format!("{} million rows inserted", filled as f64 / 1e6));
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

    /// Returns keys of the callers' rows from all over the table, in random order.
    pub(super) async fn keys(&self) -> Result<Vec<Uuid>, Error> {
        const KEYS: &str = "SELECT idempotency_key FROM tenant.idempotency_keys TABLESAMPLE SYSTEM ($1::float8) \
             WHERE user_id IN ($2, $3) ORDER BY random() LIMIT 20000";
        const ENOUGH: f64 = 2e6;
        let percent = (100.0 * ENOUGH / self.rows as f64).min(100.0);
        let rows = self.world.superuser().query(KEYS, &[&percent, &ALICE, &BOB]).await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    /// Returns the number of projects that calls have created.
    pub(super) async fn projects(&self) -> Result<i64, Error> {
        Ok(self.world.superuser().query_one("SELECT count(*) FROM tenant.projects", &[]).await?.try_get(0)?)
    }

    /// Returns the number of images of whole pages that the server has logged.
    pub(super) async fn page_images(&self) -> Result<i64, Error> {
        let row = self.world.superuser().query_one("SELECT wal_fpi FROM pg_stat_wal", &[]).await?;
        Ok(row.try_get(0)?)
    }

    /// Returns the number of expired rows.
    pub(super) async fn expired(&self) -> Result<i64, Error> {
        const EXPIRED: &str = "SELECT count(*) FROM tenant.idempotency_keys WHERE expires <= now()";
        Ok(self.world.superuser().query_one(EXPIRED, &[]).await?.try_get(0)?)
    }
}

/// Inserts a range of the rows.
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
                (&ALICE, Type::UUID),
                (&BOB, Type::UUID),
            ],
        )
        .await?;
    Ok(())
}
