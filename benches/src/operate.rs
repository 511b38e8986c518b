//! The statements of the program `tonic-idempotency` on a large table, and the calls beside them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::time::sleep;
use tokio_postgres::{
    Client, Row,
    types::{ToSql, Type},
};
use uuid::Uuid;

use crate::{
    context::Context,
    database::{
        contender::TRANSACTIONAL,
        load::{Keys, Load},
        world::{Served, World},
    },
    error::Error,
    report::{Bound, Goal, Section, Spread, table},
};

const RECORDS: usize = 10_000_000;

const ROUNDS: usize = 7;

/// How long calls are made, with and without a list beside them.
const CALLS: Duration = Duration::from_secs(2);

const LOAD: usize = 16;

/// The rest after each page, in times of what it took, as of the program.
const REST: u32 = 2;

const TEXT: &str = "\
The statements of the program `tonic-idempotency` in a table of ten million records of the last day, on a private PostgreSQL server. A list reads \
all of them, page by page, shows its progress after each, and then rests twice as long as the page took; later sixteen callers call, in turns with and without lists beside them.";

const LIMIT: &str = "A page is half a second of one processor, a third of the time. On a machine with two, which the callers and their server keep busy, it is missing to the calls.";

/// Records, and five keys that are stuck.
const FILL: &str = "
    INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, response_bytes, token, expires)
    SELECT gen_random_uuid(), gen_random_uuid(), '/a.B/C', decode(repeat('07', 32), 'hex'), '', gen_random_uuid(), now() + interval '1 day'
    FROM generate_series(1, $1::bigint)";
const STICK: &str = "
    INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, token, lease_expires, expires)
    SELECT gen_random_uuid(), gen_random_uuid(), '/a.B/C', decode(repeat('07', 32), 'hex'), gen_random_uuid(), now(), now() + interval '1 day'
    FROM generate_series(1, 5)";

const LIST: &str = "SELECT * FROM tenant.idempotency_list(p_after => $1)";
const INSPECT: &str = "SELECT * FROM tenant.idempotency_inspect($1::uuid::text, $2::uuid::text)";
const RELEASE: &str = "SELECT * FROM tenant.idempotency_operator_release($1::uuid::text, $2::uuid::text, $3)";
const OVERVIEW: &str = "SELECT * FROM tenant.idempotency_overview()";

/// Measures the part.
pub(crate) async fn measure(context: &Context) -> Result<Section, Error> {
    let world = World::start().await?;
    let (superuser, operator) = (world.connect().await?, world.connect().await?);
    operator.batch_execute("SET ROLE organization_operator").await?;
    context.progress("filling a table");
    let records = i64::try_from(context.count(RECORDS))?;
    superuser.query_typed(FILL, &[(&records, Type::INT8)]).await?;
    superuser.batch_execute(STICK).await?;
    superuser.batch_execute("VACUUM ANALYZE tenant.idempotency_keys").await?;

    context.progress("the program's statements");
    let mut rows = Vec::new();
    let (times, keys) = list(&operator, &AtomicBool::new(false)).await?;
    rows.push(row("list", &times));
    let key = keys.first().ok_or("the list has no key")?;
    let [id, owner, token]: [Uuid; 3] = [key.get("key_id"), key.get("owner"), key.get("token")];
    rows.push(row(
        "inspect",
        &[timed(operator.query_typed(INSPECT, &[(&id, Type::UUID), (&owner, Type::UUID)])).await?],
    ));
    let held: [(&(dyn ToSql + Sync), Type); 3] = [(&id, Type::UUID), (&owner, Type::UUID), (&token, Type::UUID)];
    rows.push(row("release", &[timed(operator.query_typed(RELEASE, &held)).await?]));
    rows.push(row("status", &[timed(operator.query_typed(OVERVIEW, &[])).await?]));
    let longest = times.iter().copied().fold(0.0, f64::max);

    context.progress("calls beside a list");
    let service = Served::start(world.routes(TRANSACTIONAL, world.address()?)?).await?;
    let load = Load { concurrency: LOAD, keys: Keys::New, payload: 100 };
    let (mut without, mut beside) = (Vec::new(), Vec::new());
    for round in 0..=context.rounds(ROUNDS) {
        let calls = async || load.run_for(context.time(CALLS), &service, &world.processes).await;
        let before = calls().await?.throughput;
        let stop = Arc::new(AtomicBool::new(false));
        let lists = async {
            while !stop.load(Ordering::Relaxed) {
                list(&operator, &stop).await?;
            }
            Ok::<_, Error>(())
        };
        let called = async {
            let figures = calls().await;
            stop.store(true, Ordering::Relaxed);
            figures
        };
        let (listed, during) = tokio::join!(lists, called);
        listed?;
        if round > 0 {
            without.push(before);
            beside.push(during?.throughput);
        }
    }
    world.stop().await;
    let caption = format!("{records} records");
    let tables = vec![table(&caption, ["command", "statements", "the longest, ms", "together, s"], rows)];
    let beside = Goal::new(
        "calls beside a list: throughput",
        Bound::AtLeast(0.95),
        Spread::of_ratios(&beside, &without),
        "× calls without one",
    );
    let goals = vec![
        Goal::new("a page of the list of a large table", Bound::AtMost(1.0), Spread::of([longest]), "s"),
        Goal { limit: Some(LIMIT), ..beside },
    ];
    Ok(Section { title: "Operators", text: TEXT.to_owned(), tables, goals, ..Section::default() })
}

/// Lists as the program does, until it is to stop. Returns the seconds of each page, and the keys.
async fn list(operator: &Client, stop: &AtomicBool) -> Result<(Vec<f64>, Vec<Row>), Error> {
    let (mut times, mut keys, mut reached) = (Vec::new(), Vec::new(), None::<Uuid>);
    loop {
        let asked = Instant::now();
        let mut page = operator.query_typed(LIST, &[(&reached, Type::UUID)]).await?;
        times.push(asked.elapsed().as_secs_f64());
        reached = page.pop().ok_or("a page has no end")?.get("reached");
        keys.append(&mut page);
        if reached.is_none() || stop.load(Ordering::Relaxed) {
            return Ok((times, keys));
        }
        sleep(REST * asked.elapsed()).await;
    }
}

async fn timed<T>(asked: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<f64, Error> {
    let begun = Instant::now();
    asked.await?;
    Ok(begun.elapsed().as_secs_f64())
}

fn row(command: &str, times: &[f64]) -> [String; 4] {
    let longest = 1e3 * times.iter().copied().fold(0.0, f64::max);
    [command.to_owned(), times.len().to_string(), format!("{longest:.0}"), format!("{:.1}", times.iter().sum::<f64>())]
}
