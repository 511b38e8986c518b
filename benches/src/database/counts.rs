//! Counts of one call: its round trips, and the bytes and index entries that it adds to the write-ahead log.

use std::{net::SocketAddr, path::PathBuf};

use tcp_proxy::Proxy;
use tokio::process::Command;

use super::{
    contender::Contender,
    load::Load,
    world::{Served, World},
};
use crate::{Error, context::Context};

/// The counts of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) round_trips: f64,
    /// Bytes of the write-ahead log without images of whole pages, which depend on the time since the last checkpoint.
    pub(crate) log_bytes: f64,
    /// Entries inserted into B-trees.
    pub(crate) index_entries: f64,
}

impl Counts {
    /// Counts calls that are made one after another.
    pub(crate) async fn of(
        context: &Context,
        world: &World,
        contender: Contender,
        load: &Load,
        address: SocketAddr,
    ) -> Result<Self, Error> {
        let calls = context.count(200);
        let link = Proxy::start(address)?;
        let client = Served::start(world.routes(contender, link.address())?).await?;
        let load = Load { concurrency: 1, ..load.clone() };
        // Opens the connection, and prepares its statements.
        load.run_times(calls, &client, &world.processes).await?;

        let (round_trips, log) = (link.round_trips(), LogPosition::now(world).await?);
        load.run_times(calls, &client, &world.processes).await?;
        let round_trips = link.round_trips() - round_trips;
        let logged = log.until_now(world).await?;
        let per_call = |count: u64| count as f64 / calls as f64;
        Ok(Self {
            round_trips: round_trips as f64 / calls as f64,
            log_bytes: per_call(logged.bytes),
            index_entries: per_call(logged.index_entries),
        })
    }
}

#[derive(PartialEq)]
struct LogPosition(String);

struct Logged {
    bytes: u64,
    index_entries: u64,
}

impl LogPosition {
    async fn now(world: &World) -> Result<Self, Error> {
        let row = world.superuser().query_one("SELECT pg_current_wal_flush_lsn()::text", &[]).await?;
        Ok(Self(row.try_get(0)?))
    }

    /// Returns what was logged since this position, as `pg_waldump` says.
    async fn until_now(self, world: &World) -> Result<Logged, Error> {
        let end = Self::now(world).await?;
        if end == self {
            return Ok(Logged { bytes: 0, index_entries: 0 });
        }
        let row = world
            .superuser()
            .query_one(
                "SELECT (SELECT setting FROM pg_config WHERE name = 'BINDIR'), current_setting('data_directory')",
                &[],
            )
            .await?;
        let (binaries, data): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        let output = Command::new(PathBuf::from(binaries).join("pg_waldump"))
            .arg("--path")
            .arg(PathBuf::from(data).join("pg_wal"))
            .args(["--stats=record", "--start", &self.0, "--end", &end.0])
            .output()
            .await?;
        if !output.status.success() {
            return Err(format!("pg_waldump: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Logged::read(&String::from_utf8_lossy(&output.stdout))
            .ok_or_else(|| "the output of pg_waldump has an unknown form".into())
    }
}

impl Logged {
    /// Parses lines such as `Btree/INSERT_LEAF   1200 ( 9.30)   76800 ( 7.12)   …`, and the line of totals.
    fn read(statistics: &str) -> Option<Self> {
        let (mut bytes, mut index_entries) = (None, 0);
        for line in statistics.lines() {
            let mut words = line.split_whitespace();
            let Some(name) = words.next() else { continue };
            let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
            match name {
                "Btree/INSERT_LEAF" | "Btree/SPLIT_L" | "Btree/SPLIT_R" => index_entries += numbers.first()?,
                "Total" => bytes = Some(*numbers.get(1)?),
                _ => {}
            }
        }
        Some(Self { bytes: bytes?, index_entries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_output_of_pg_waldump() {
        let statistics = "\
WAL statistics between 0/1000000 and 0/2000000:
Type                                           N      (%)          Record size      (%)             FPI size      (%)        Combined size      (%)
----                                           -      ---          -----------      ---             --------      ---        -------------      ---
Heap/INSERT                                   10 ( 33.33)                 2110 ( 61.34)                 8192 (100.00)                10302 ( 88.53)
Btree/INSERT_LEAF                             19 ( 63.33)                 1216 ( 35.35)                    0 (  0.00)                 1216 ( 10.45)
Btree/SPLIT_R                                  1 (  3.33)                  114 (  3.31)                    0 (  0.00)                  114 (  0.98)
                                        --------                      --------                      --------                      --------
Total                                         30                          3440 [29.57%]                 8192 [70.43%]                11632 [100%]
";
        let logged = Logged::read(statistics).expect("statistics");
        assert_eq!((logged.bytes, logged.index_entries), (3440, 20));
        assert!(Logged::read("other text").is_none());
    }
}
