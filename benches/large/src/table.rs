//! A large table of keys, on a server of its own.

use std::{path::PathBuf, time::Duration};

use deadpool_postgres::{Manager, Pool, QueueMode};
use scratch_postgres::Server;
use tokio_postgres::{Client, Config, NoTls, types::Type};
use tonic_idempotency::{
    migrations,
    store::{PostgresStore, ResourceTypes, Schema},
};

use crate::{Error, args::Args, progress::Progress, report::count};

/// The role of the API.
const API: &str = "large_tables_api";

/// The number of users, among whom the records and the calls are spread.
pub(crate) const USERS: u64 = 10_000;

/// The records inserted between two checkpoints, few enough to keep the log small.
const STRIDE: u64 = 2_000_000;

/// Inserts the records $1 to $2, which expire one after the other in the time of $4 seconds from now + $3 seconds, $5 in all.
const INSERT: &str = "
    INSERT INTO tenant.idempotency_keys
        (id, idempotency_key, user_id, token, procedure, request_hash, response_bytes, created, completed, expires)
    SELECT encode(overlay(uuid_send(r.key) PLACING substring(int8send((1000 * date_part('epoch', r.made))::bigint) FROM 3)
                          FROM 1 FOR 6), 'hex')::uuid,
           r.key, ('00000000-0000-7000-8000-' || lpad((r.n % 10000)::text, 12, '0'))::uuid, r.key,
           '/benchmarks.large.v1.ProjectService/CreateProject', sha256(uuid_send(r.key)), decode(repeat('5a', 100), 'hex'),
           r.made, r.made, r.expires
    FROM (
        SELECT n, gen_random_uuid() AS key, now() + make_interval(secs => $3 + $4 * (n / $5)) AS expires,
               now() + make_interval(secs => $3 + $4 * (n / $5) - 86400) AS made
        FROM generate_series($1::int8, $2::int8) n
    ) r";

/// The times at which the records of a fill expire: in `spread` seconds, from `from` seconds from now on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expiry {
    pub(crate) from: f64,
    pub(crate) spread: f64,
}

impl Expiry {
    /// In one to 24 hours.
    pub(crate) const LIVE: Self = Self { from: 3600.0, spread: 23.0 * 3600.0 };
    /// In the last day.
    pub(crate) const EXPIRED: Self = Self { from: -86_400.0, spread: 23.0 * 3600.0 };
}

/// A server with a table of keys.
#[derive(Debug)]
pub(crate) struct Table {
    server: Server,
    owner: Client,
    /// The settings of the command line.
    asked: Vec<String>,
}

impl Table {
    /// Starts a server as people deploy one, with the measurement's settings (`name=value`) and those of the command line, and runs
    /// the migrations.
    pub(crate) async fn start(partitions: Option<u16>, settings: &[&str], args: &Args) -> Result<Self, Error> {
        let all: Vec<_> = settings.iter().copied().chain(args.settings.iter().map(String::as_str)).collect();
        let server = Server::start_as_deployed_with(&all).await?;
        let mut owner = connect(server.url()).await?;
        let schema = Schema::default();
        migrations::run(&mut owner, &schema).await?;
        if let Some(partitions) = partitions {
            migrations::partition(&owner, &schema, partitions).await?;
        }
        let password = password(server.url())?;
        owner.batch_execute(&format!("CREATE ROLE {API} LOGIN PASSWORD '{password}'")).await?;
        migrations::grant(&owner, &schema, API).await?;
        Ok(Self { server, owner, asked: args.settings.clone() })
    }

    pub(crate) fn describe(&self) -> String {
        let asked: String = self.asked.iter().map(|setting| format!(", with `{setting}`")).collect();
        format!("{}{asked}", self.server.describe())
    }

    /// Opens a further connection of the superuser.
    pub(crate) async fn connect(&self) -> Result<Client, Error> {
        connect(self.server.url()).await
    }

    /// The directory of the server's data, whose disk has to hold the table.
    pub(crate) async fn directory(&self) -> Result<PathBuf, Error> {
        Ok(self.owner.query_one("SHOW data_directory", &[]).await?.try_get::<_, String>(0)?.into())
    }

    /// A store with this many connections, as the API's role.
    pub(crate) fn store(&self, connections: usize) -> Result<PostgresStore, Error> {
        let mut config: Config = self.server.url().parse()?;
        config.user(API);
        let pool =
            Pool::builder(Manager::new(config, NoTls)).max_size(connections).queue_mode(QueueMode::Lifo).build()?;
        Ok(PostgresStore::new(pool, ResourceTypes::none()).timeout(Duration::from_secs(30)))
    }

    /// Inserts records. The indexes are built afterwards: that is far faster than to insert their entries one by one.
    pub(crate) async fn fill(&self, rows: u64, expiry: Expiry, progress: &Progress) -> Result<(), Error> {
        let indexes = self.drop_indexes().await?;
        let writers = [self.connect().await?, self.connect().await?];
        for writer in &writers {
            writer.batch_execute("SET synchronous_commit = off").await?;
        }
        let mut filled = 0;
        while filled < rows {
            let end = rows.min(filled + STRIDE);
            let middle = filled.midpoint(end);
            let insert = async |writer: &Client, from: u64, to: u64| -> Result<(), Error> {
                let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 5] = [
                    (&i64::try_from(from + 1)?, Type::INT8),
                    (&i64::try_from(to)?, Type::INT8),
                    (&expiry.from, Type::FLOAT8),
                    (&expiry.spread, Type::FLOAT8),
                    (&(rows as f64), Type::FLOAT8),
                ];
                writer.query_typed(INSERT, &parameters).await?;
                Ok(())
            };
            tokio::try_join!(insert(&writers[0], filled, middle), insert(&writers[1], middle, end))?;
            self.owner.batch_execute("CHECKPOINT").await?;
            filled = end;
            progress.say(&format!("{} of {} records inserted", count(filled), count(rows)));
        }
        progress.say("building the indexes");
        self.owner.batch_execute(&indexes).await?;
        for statement in ["VACUUM (ANALYZE) tenant.idempotency_keys", "CHECKPOINT"] {
            self.owner.batch_execute(statement).await?;
        }
        Ok(())
    }

    /// Makes as many log files as the server keeps for use again (`min_wal_size`). One that has run for a while has them; a new one makes
    /// each when its log gets there, and commits wait.
    pub(crate) async fn make_log_files(&self) -> Result<(), Error> {
        const MAKE: &str = "
            DO $$
            BEGIN
                FOR file IN 1..(SELECT setting::int8 / 16 FROM pg_settings WHERE name = 'min_wal_size') LOOP
                    PERFORM pg_logical_emit_message(false, '', ''), pg_switch_wal();
                END LOOP;
            END $$";
        self.owner.batch_execute(MAKE).await?;
        self.owner.batch_execute("CHECKPOINT").await?;
        Ok(())
    }

    /// Reads the index of keys into the memory of the machine, where it is on a server that has run for a while, and returns its bytes.
    pub(crate) async fn read_keys(&self) -> Result<u64, Error> {
        const READ: &str = "
            SET enable_seqscan = off;
            SET enable_bitmapscan = off;
            SELECT count(idempotency_key) FROM tenant.idempotency_keys;
            RESET enable_bitmapscan;
            RESET enable_seqscan";
        const BYTES: &str = "
            SELECT coalesce(sum(pg_relation_size(x.indexrelid)), 0)::int8
            FROM pg_inherits i JOIN pg_index x ON x.indrelid = i.inhrelid
            WHERE i.inhparent = 'tenant.idempotency_keys'::regclass AND x.indisunique AND NOT x.indisprimary";
        self.owner.batch_execute(READ).await?;
        Ok(self.number(BYTES).await?.unsigned_abs())
    }

    /// Drops the indexes, and returns the statements that make them again.
    async fn drop_indexes(&self) -> Result<String, Error> {
        const STATEMENTS: &str = "
            SELECT format('ALTER TABLE tenant.idempotency_keys DROP CONSTRAINT %I', c.conname),
                   format('ALTER TABLE tenant.idempotency_keys ADD CONSTRAINT %I %s', c.conname, pg_get_constraintdef(c.oid))
            FROM pg_constraint c WHERE c.conrelid = 'tenant.idempotency_keys'::regclass AND c.contype IN ('p', 'u')
            UNION ALL
            SELECT format('DROP INDEX %s', i.indexrelid::regclass), replace(pg_get_indexdef(i.indexrelid), ' ON ONLY ', ' ON ')
            FROM pg_index i WHERE i.indrelid = 'tenant.idempotency_keys'::regclass AND NOT i.indisunique";
        let mut again = "SET maintenance_work_mem = '1GB'; ".to_owned();
        for row in self.owner.query(STATEMENTS, &[]).await? {
            self.owner.batch_execute(row.try_get(0)?).await?;
            again.push_str(row.try_get(1)?);
            again.push_str("; ");
        }
        Ok(again + "RESET maintenance_work_mem")
    }

    /// Changes a setting of the server. Fails for one of the command line, which would stay as it is.
    pub(crate) async fn set(&self, name: &str, value: &str) -> Result<(), Error> {
        if self.asked.iter().any(|asked| asked.split('=').next().is_some_and(|asked| asked.trim() == name)) {
            return Err(format!("this measurement sets {name} itself; leave it out of --set").into());
        }
        self.owner.batch_execute(&format!("ALTER SYSTEM SET {name} = '{value}'")).await?;
        Ok(self.owner.batch_execute("SELECT pg_reload_conf()").await?)
    }

    /// Returns a number.
    pub(crate) async fn number(&self, select: &str) -> Result<i64, Error> {
        Ok(self.owner.query_typed_one(select, &[]).await?.try_get(0)?)
    }

    /// Returns the best value of `wal_compression` that the server has: `lz4`, or `on` if it has no lz4.
    pub(crate) async fn compression(&self) -> Result<String, Error> {
        const BEST: &str = "
            SELECT CASE WHEN 'lz4' = ANY (enumvals) THEN 'lz4' ELSE 'on' END
            FROM pg_settings WHERE name = 'wal_compression'";
        Ok(self.owner.query_typed_one(BEST, &[]).await?.try_get(0)?)
    }

    pub(crate) async fn stop(self) {
        self.server.stop().await;
    }
}

fn password(url: &str) -> Result<String, Error> {
    let config: Config = url.parse()?;
    Ok(String::from_utf8_lossy(config.get_password().unwrap_or_default()).into_owned())
}

async fn connect(url: &str) -> Result<Client, Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    // The task ends with the client.
    tokio::spawn(connection);
    Ok(client)
}
