//! Many operations of a client, and what became of each.

use std::{fmt::Write as _, path::PathBuf, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use scratch_postgres::TestDatabase;
use serde_json::json;
use tokio::{
    process::Command,
    select,
    time::{sleep, timeout},
};
use tokio_postgres::Client;
use uuid::Uuid;

use super::{
    client::Faulted,
    proxy::{NEEDS, Proxy},
};
use crate::{
    call::{Call, Reply},
    descriptors::Descriptors,
    driver::Driver,
    process::{Process, Ready},
    protocol::Protocol,
};

/// How many operations are under way.
const AT_ONCE: usize = 32;

/// One operation in 16 needs something that is made only after its first failure.
const WITH_NEEDS: usize = 16;

/// The time within which a driver replies: an operation, and what a busy machine adds.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often the server is killed, and started again.
const LIFE: Duration = Duration::from_secs(4);

pub(crate) struct Trial {
    database: TestDatabase,
    client: Client,
    descriptors: Descriptors,
    proxy: Proxy,
    cluster: Uuid,
    token: String,
}

/// An operation, and what its client said in the end.
struct Told {
    name: String,
    key: Uuid,
    needs: Option<Uuid>,
    protocol: Protocol,
    reply: Reply,
}

/// How many operations went how.
#[derive(Debug, Default)]
struct Tally {
    succeeded: usize,
    failed: usize,
    unknown: usize,
    /// Those whose call was sent more than once.
    repeated: usize,
    /// Those that succeeded by a first call which came after its client had given it up.
    late: usize,
}

impl Tally {
    fn count(&mut self, told: &Told, calls: usize) {
        let kind = match (told.reply.verdict.as_str(), told.reply.code) {
            ("ended", 0) => &mut self.succeeded,
            ("ended", _) => &mut self.failed,
            _ => &mut self.unknown,
        };
        *kind += 1;
        self.repeated += usize::from(calls > 1);
        self.late += usize::from(told.needs.is_some() && told.reply.verdict == "ended" && told.reply.code == 0);
    }
}

impl Trial {
    pub(crate) async fn start() -> Self {
        let database = scratch_postgres::database(None).await;
        let (process, ready) = sample(&database).await;
        let client = database.connect().await;
        let maker = Arc::new(database.connect().await);
        let of = ready.cluster_id;
        let proxy = Proxy::start(ready.address, move |cluster| {
            let maker = Arc::clone(&maker);
            Box::pin(async move {
                let insert = "INSERT INTO tenant.clusters (id, organization_id, name, region)
                              SELECT $1, organization_id, 'late', region FROM tenant.clusters WHERE id = $2
                              ON CONFLICT DO NOTHING";
                let cluster: Uuid = cluster.parse().expect("a cluster's id");
                maker.execute(insert, &[&cluster, &of]).await.expect("the cluster");
            })
        })
        .await;
        let trial = Self {
            database,
            client,
            descriptors: Descriptors::write(),
            proxy,
            cluster: ready.cluster_id,
            token: ready.tokens.alice,
        };
        drop(process);
        trial
    }

    /// Makes operations with the clients of a driver, and compares what they say with the rows.
    pub(crate) async fn run(&self, mut driver: Command, more: &[PathBuf], clients: &[Faulted]) {
        driver.arg(self.proxy.address.to_string()).arg(self.descriptors.path());
        driver.args(more);
        let driver = Driver::spawn(driver);
        for client in clients {
            self.run_with(&driver, client).await;
        }
        driver.end().await;
    }

    #[expect(clippy::print_stdout, reason = "what was tried is the output of the test")]
    async fn run_with(&self, driver: &Driver, client: &Faulted) {
        self.proxy.be_quiet(false);
        let first = self.new_server().await;
        let calls = stream::iter(0..client.operations).map(|index| self.operate(driver, client, index));
        let told = select! {
            told = calls.buffer_unordered(AT_ONCE).collect::<Vec<_>>() => told,
            () = self.keep_a_server(first) => unreachable!("it goes on for ever"),
        };

        // A quiet network, and one more server.
        self.proxy.be_quiet(true);
        let _server = self.new_server().await;
        let (mut tally, mut wrong) = (Tally::default(), String::new());
        for told in &told {
            let rows = self.rows(&told.name).await;
            tally.count(told, self.proxy.calls(told.key));
            if let Err(what) = self.judge(driver, client, told, &rows).await {
                let _ =
                    writeln!(wrong, "{} over {}: {what}; rows {rows:?}, {:?}", told.name, told.protocol, told.reply);
            }
        }
        assert!(wrong.is_empty(), "{}:\n{wrong}", client.name);
        println!("{}: {tally:?}", client.name);
        assert!(tally.repeated > 0 && tally.unknown + tally.late > 0, "the network was not bad: {tally:?}");
        assert!(tally.succeeded > client.operations / 5, "the server was hardly there: {tally:?}");
    }

    async fn operate(&self, driver: &Driver, client: &Faulted, index: usize) -> Told {
        let (key, name) = (Uuid::now_v7(), format!("{}-{index}", client.name));
        let needs = index.is_multiple_of(WITH_NEEDS).then(Uuid::new_v4);
        let protocol = client.protocols[index % client.protocols.len()];
        let call = self.call(&name, key, needs, client.timeout);
        let reply = timeout(PATIENCE, driver.call(client.name, protocol, &call)).await;
        let reply =
            reply.unwrap_or_else(|_| panic!("{name}: no reply")).unwrap_or_else(|error| panic!("{name}: {error}"));
        Told { name, key, needs, protocol, reply }
    }

    fn call(&self, name: &str, key: Uuid, needs: Option<Uuid>, timeout: u64) -> Call {
        let message = json!({ "clusterId": needs.unwrap_or(self.cluster), "name": name });
        let call = Call::new("ProjectService/CreateProject", message).key(key).within(timeout);
        let call = call.header("authorization", format_args!("Bearer {}", self.token));
        match needs {
            Some(needs) => call.header(NEEDS, needs),
            None => call,
        }
    }

    /// Finds that what a client says is as the rows are, and, if it knows nothing, that it learns it by its key.
    async fn judge(&self, driver: &Driver, client: &Faulted, told: &Told, rows: &[Uuid]) -> Result<(), String> {
        if rows.len() > 1 {
            return Err(format!("{} effects", rows.len()));
        }
        match (told.reply.verdict.as_str(), told.reply.code, rows) {
            ("ended", 0, [row]) if created(&told.reply) == Some(*row) => Ok(()),
            ("ended", 0, _) => Err("another response".to_owned()),
            ("ended", _, []) => Ok(()),
            ("ended", ..) => Err("a failure that had an effect".to_owned()),
            ("unknown" | "retry" | "running" | "ended later", ..) => {
                let call = self.call(&told.name, told.key, told.needs, client.timeout);
                let again = driver.call(client.name, told.protocol, &call).await?;
                let after = self.rows(&told.name).await;
                match (again.verdict.as_str(), again.code, &after[..]) {
                    ("ended", 0, [row]) if created(&again) == Some(*row) && (rows.is_empty() || rows == after) => {
                        Ok(())
                    }
                    // Nothing is under way any more.
                    ("ended" | "ended later", 1.., []) => Ok(()),
                    _ => Err(format!("asked again: {again:?}, rows {after:?}")),
                }
            }
            (verdict, ..) => Err(format!("no verdict: {verdict:?}")),
        }
    }

    async fn rows(&self, name: &str) -> Vec<Uuid> {
        let select = "SELECT id FROM tenant.projects WHERE name = $1";
        self.client.query(select, &[&name]).await.expect("the rows").iter().map(|row| row.get(0)).collect()
    }

    /// Kills the server at times, when another is ready: calls that come while there is none would use up all operations in a moment.
    async fn keep_a_server(&self, mut server: Process) {
        loop {
            sleep(LIFE).await;
            let (next, ready) = sample(&self.database).await;
            drop(server);
            self.proxy.point_to(ready.address);
            server = next;
        }
    }

    async fn new_server(&self) -> Process {
        let (process, ready) = sample(&self.database).await;
        self.proxy.point_to(ready.address);
        process
    }
}

async fn sample(database: &TestDatabase) -> (Process, Ready) {
    let flags = ["--listen", "127.0.0.1:0", "--outbox-delay", "1h"];
    let mut process =
        Process::spawn_with(Some(database.url()), &flags, &[("TOKEN_SECRET", "a secret of these tests".as_ref())]);
    let ready = process.ready().await;
    (process, ready)
}

fn created(reply: &Reply) -> Option<Uuid> {
    reply.body.get("projectId")?.as_str()?.parse().ok()
}
