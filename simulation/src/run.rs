//! One run: a plan is lived through, to its end and beyond all faults, and then audited.

use std::{
    collections::BTreeMap,
    sync::{Arc, Once},
    time::Duration,
};

use futures_util::future::join_all;
use tokio::time::{Instant, sleep, sleep_until};
use tonic_idempotency_client::IdempotencyClientLayer;

use crate::{
    audit::{self, Verdict, Violation},
    client::Client,
    database::Database,
    go::GoServer,
    journal::Machine,
    keys::Keys,
    ledger::{Ledger, Strike},
    network::Network,
    panics::panics,
    plan::{LENGTH, Plan, Settings},
    server::Server,
    service::FILE_DESCRIPTOR_SET,
    sometimes::Counts,
    strike::Targets,
    until::{BETWEEN_LOOKS, until},
    world::{self, Keeps, Link, World},
};

/// The time after which all that is lost has been noticed.
const QUIET: Duration = Duration::from_secs(120);

/// The time in which nothing that is left may come about any more, beyond the timeout of the store.
const LAST: Duration = Duration::from_secs(1);

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// The number of calls that clients sent.
    pub calls: usize,
    /// The promises that were broken.
    pub violations: Vec<Violation>,
    /// How often each excuse was used.
    pub excuses: Counts,
    /// How often other things have happened.
    pub counts: Counts,
    /// Equal for equal runs.
    pub digest: u64,
    /// The lines of the trace, if they were asked for.
    pub lines: Vec<String>,
}

impl Report {
    /// The report of a run that has panicked itself.
    pub(crate) fn panicked() -> Self {
        let violation = Violation { promise: "nothing panics", seen: "the run has panicked".to_owned() };
        Self {
            calls: 0,
            violations: vec![violation],
            excuses: Counts::new(),
            counts: Counts::new(),
            digest: 0,
            lines: Vec::new(),
        }
    }
}

/// Runs a plan.
pub fn run(plan: Plan, keeps: Keeps) -> Report {
    static WARM: Once = Once::new();
    // Whatever a process makes once is made before the first seed, so that this seed is as any other.
    WARM.call_once(|| drop(run_cold(Plan::new(0, Some(5)), Keeps::Nothing)));
    run_cold(plan, keeps)
}

fn run_cold(plan: Plan, keeps: Keeps) -> Report {
    world::run(plan.seed, keeps, move |world| async move {
        let ledger = Ledger::default();
        let database = Database::new(&world);
        live(&world, &plan, &database, &ledger).await;
        let mut evidence = ledger.lock();
        evidence.panics = panics();
        (evidence.lost, evidence.outcomes) = (database.lost(), database.outcomes());
        if let Some(keys) = keys(&plan) {
            evidence.records.iter_mut().for_each(|record| keys.open(record));
        }
        let Verdict { violations, excuses } = audit::audit(&plan, &evidence, &database.effects());
        let calls = evidence.attempts.len();
        let (digest, lines) = (world.trace().digest(), world.trace().lines());
        Report { calls, violations, excuses, counts: world.counts(), digest, lines }
    })
}

async fn live(world: &World, plan: &Plan, database: &Database, ledger: &Ledger) {
    let (settings, operations) = (Arc::new(plan.settings.clone()), Arc::new(plan.operations.clone()));
    let keys = keys(plan);
    let server = |number| Server::new(world, number, database, &settings, keys.as_ref(), &operations, ledger);
    let servers: Arc<Vec<_>> = Arc::new((0..settings.servers).map(server).collect());
    servers.iter().for_each(Server::start);
    let layer = IdempotencyClientLayer::builder(FILE_DESCRIPTOR_SET).attempt_timeout(settings.attempt_timeout);
    let layer = settings.client_layer.then(|| layer.build().expect("descriptors that are valid"));
    let to_servers = Link::new(world.random("link from clients to servers"));
    let client = |number: usize| {
        let operation = &plan.operations[number];
        let random = |of: &str| world.random(&format!("{of} of client {}", operation.number));
        Client {
            world: world.clone(),
            operation: Arc::new(operation.clone()),
            network: Network::new(&servers, to_servers.with(random("link")), random("way"), operation),
            settings: Arc::clone(&settings),
            ledger: ledger.clone(),
            layer: layer.clone(),
        }
    };
    let (last, clients): (Vec<_>, Vec<_>) =
        (0..plan.operations.len()).map(client).partition(|client| client.operation.is_last);
    let machines = if settings.client_journal { Machine::of(&clients) } else { BTreeMap::new() };
    let began = Instant::now();
    let targets = Targets {
        world: world.clone(),
        servers: Arc::clone(&servers),
        database: database.clone(),
        to_servers: to_servers.clone(),
    };
    let faults: Vec<_> = plan
        .faults
        .iter()
        .map(|fault| {
            let (fault, targets, ledger) = (fault.clone(), targets.clone(), ledger.clone());
            tokio::spawn(async move {
                sleep_until(began + fault.at).await;
                let process = fault.kind.server().and_then(|server| targets.servers[server].process());
                let from = targets.world.time();
                targets.strike(&fault).await;
                let to = targets.world.time().max(from + fault.goes_on());
                ledger.strike(Strike { kind: fault.kind, trouble: fault.trouble, process, from, to });
            })
        })
        .collect();
    let deployed = tokio::spawn(deploy(Arc::clone(&settings), Arc::clone(&servers), began));
    let go = GoServer {
        world: world.clone(),
        database: database.clone(),
        settings: Arc::clone(&settings),
        ledger: ledger.clone(),
    };
    let served_by_go = plan.operations.iter().map(|operation| tokio::spawn(go.clone().serve(operation.clone())));
    let served_by_go: Vec<_> = served_by_go.collect();
    let looks = tokio::spawn(look(world.clone(), database.clone(), ledger.clone()));
    let sending: Vec<_> = clients
        .iter()
        .map(|client| {
            let random = world.random(&format!("pauses of client {}", client.operation.number));
            let (client, machine) = (client.clone(), machines.get(&client.operation.number).cloned());
            tokio::spawn(async move {
                match machine {
                    Some(machine) => client.send_with_journal(&machine, random).await,
                    None => client.send(random).await,
                }
            })
        })
        .collect();
    for task in sending.into_iter().chain(faults).chain(served_by_go).chain([deployed]) {
        task.await.expect("clients and faults do not panic");
    }

    world.tell(format_args!("world"), format_args!("all faults are over"));
    sleep_until(began + LENGTH).await;
    servers.iter().for_each(Server::start_if_down);
    let ending: Vec<_> = clients
        .into_iter()
        .map(|client| {
            let machine = machines.get(&client.operation.number).cloned();
            tokio::spawn(async move {
                let has_ended = match machine {
                    Some(machine) => client.end_with_journal(&machine).await,
                    None => client.end().await,
                };
                (client.operation.number, has_ended)
            })
        })
        .collect();
    for task in ending {
        let (operation, has_ended) = task.await.expect("a client does not panic");
        if !has_ended {
            ledger.lock().leftovers.push(format!("the key of operation {operation} is stuck"));
        }
    }
    sleep(settings.timeout + LAST).await;
    until(|| !database.is_unsettled(settings.reconciles()), QUIET).await;
    let crowd = last.into_iter().map(|client| tokio::spawn(client.send_at_last()));
    for task in crowd.collect::<Vec<_>>() {
        task.await.expect("a client does not panic");
    }
    sleep(settings.timeout + LAST).await;
    until(|| !database.is_unsettled(settings.reconciles()), QUIET).await;
    looks.abort();
    ledger.lock().records = database.records();
    match settings.stops_one_by_one {
        true => {
            for server in servers.iter() {
                server.stop(true).await;
            }
        }
        false => drop(join_all(servers.iter().map(|server| server.stop(true))).await),
    }
    until(|| database.open().is_nothing(), QUIET).await;
    ledger.lock().leftovers.extend(database.returned_open());
    if !database.open().is_nothing() {
        ledger.lock().leftovers.push(format!("the database still has {:?}", database.open()));
    }
}

fn keys(plan: &Plan) -> Option<Keys> {
    plan.settings.sealing.clone().map(|sealing| Keys::new(plan.seed, sealing))
}

/// Restarts the servers in the roles of their deployments, one deployment after the other.
async fn deploy(settings: Arc<Settings>, servers: Arc<Vec<Server>>, began: Instant) {
    let Some(sealing) = &settings.sealing else { return };
    for (number, deployment) in sealing.deployments.iter().enumerate().skip(1) {
        let restarts = servers.iter().zip(&deployment.at).enumerate().map(|(place, (server, at))| async move {
            sleep_until(began + *at).await;
            server.deploy(sealing.role(number, place)).await;
        });
        join_all(restarts.collect::<Vec<_>>()).await;
    }
}

/// Looks which keys are reserved, now and then, until it is aborted.
async fn look(world: World, database: Database, ledger: Ledger) {
    loop {
        sleep(BETWEEN_LOOKS).await;
        let reserved = database.reserved();
        ledger.lock().reserved.push((world.time(), reserved));
    }
}
