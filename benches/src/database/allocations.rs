//! The heap allocations of a call without HTTP/2, and the memory of calls in flight. Counted on one thread, which has the handler, the
//! layer, and the client of the database.

use std::{net::SocketAddr, task::Waker};

use bytes::{BufMut as _, BytesMut};
use http_body_util::{BodyExt as _, Full};
use organization::CLUSTER;
use prost::Message as _;
use tokio::{
    runtime::{self, Runtime},
    task::{block_in_place, yield_now},
};
use tonic::{body::Body, service::Routes};
use tower::{Service as _, ServiceExt};
use uuid::Uuid;

use super::{
    contender::{BARE, Contender, FLOOR, RESERVED, TRANSACTIONAL},
    in_flight::{Gate, HELD, HOLD, held_bare, held_reserved},
    plan::{Call, LARGE, SMALL},
    proto::CreateProjectRequest,
    world::World,
};
use crate::{
    Error,
    context::Context,
    format,
    section::{Bound, Goal, Table},
    spread::Spread,
};

const CREATE: &str = "/benchmarks.database.v1.ProjectService/CreateProject";

/// The calls before those that are counted: they open the connection, and prepare its statements.
const WARM_UP: usize = 20;

/// The calls of which the one that allocates least counts: maps and buffers grow now and then.
const CALLS: usize = 30;

const COUNTED: [(Call, Contender, usize); 8] = [
    (Call::First, BARE, SMALL),
    (Call::First, FLOOR, SMALL),
    (Call::First, TRANSACTIONAL, SMALL),
    (Call::First, RESERVED, SMALL),
    (Call::Replay, TRANSACTIONAL, SMALL),
    (Call::First, BARE, LARGE),
    (Call::First, FLOOR, LARGE),
    (Call::First, TRANSACTIONAL, LARGE),
];

/// The allocations of each kind of call, and the memory of each call in flight in bytes.
#[derive(Clone, Debug)]
pub(super) struct Allocations {
    calls: Vec<Counted>,
    /// Bare, and in reserved mode.
    in_flight: [f64; 2],
}

#[derive(Clone, Debug)]
struct Counted {
    call: Call,
    contender: Contender,
    payload: usize,
    allocations: u64,
    bytes: u64,
}

impl Allocations {
    pub(super) fn count(context: &Context, world: &World) -> Result<Self, Error> {
        context.progress("counting allocations");
        let address = world.address()?;
        block_in_place(|| {
            let calls = COUNTED.into_iter().map(|(call, contender, payload)| {
                let (allocations, bytes) = of_a_call(world, address, call, contender, payload)?;
                Ok(Counted { call, contender, payload, allocations, bytes })
            });
            let calls = calls.collect::<Result<_, Error>>()?;
            Ok(Self { calls, in_flight: while_handlers_wait(context, world)? })
        })
    }

    pub(super) fn goals(&self) -> [Goal; 3] {
        let first = self
            .calls
            .iter()
            .find(|counted| (counted.call, counted.contender, counted.payload) == (Call::First, TRANSACTIONAL, SMALL));
        let (allocations, bytes) =
            first.map_or((f64::NAN, f64::NAN), |counted| (counted.allocations as f64, counted.bytes as f64));
        let [bare, reserved] = self.in_flight;
        let goal = |measure: String, bound, figure, unit: &str| Goal {
            measure,
            bound: Bound::AtMost(bound),
            figure: Spread::of([figure]),
            unit: unit.to_owned(),
            limit: None,
        };
        [
            goal("transactional first call, without HTTP/2".to_owned(), 140.0, allocations, "allocations"),
            goal("transactional first call, without HTTP/2".to_owned(), 48.0, bytes / 1_000.0, "KB allocated"),
            goal(
                format!("{} calls in flight in reserved mode, on the heap", HELD[1]),
                4.0,
                (reserved - bare) / 1_024.0,
                "KiB per call",
            ),
        ]
    }

    pub(super) fn tables(&self) -> [Table; 2] {
        let of_a_call = |counted: &Counted| {
            let Counted { call, contender, payload, allocations, bytes } = counted;
            vec![
                format!("{}, {}, {}", call.name(), contender.name, format::bytes(*payload as f64)),
                allocations.to_string(),
                format::figure(*bytes as f64),
            ]
        };
        let [bare, reserved] = self.in_flight;
        [
            Table {
                caption: "Allocations of a call without HTTP/2, with those of the client of the database".to_owned(),
                columns: ["", "allocations", "bytes"].map(str::to_owned).to_vec(),
                rows: self.calls.iter().map(of_a_call).collect(),
            },
            Table {
                caption: format!("Memory of each of {} calls in flight while its handler waits, in bytes", HELD[1]),
                columns: ["", "bare handler", "reserved", "of the layer"].map(str::to_owned).to_vec(),
                rows: vec![vec![
                    "on the heap".to_owned(),
                    format::figure(bare),
                    format::figure(reserved),
                    format::figure(reserved - bare),
                ]],
            },
        ]
    }
}

/// Returns the allocations of one call, and their bytes.
fn of_a_call(
    world: &World,
    address: SocketAddr,
    call: Call,
    contender: Contender,
    payload: usize,
) -> Result<(u64, u64), Error> {
    let runtime = runtime()?;
    let recorded = Uuid::new_v4();
    let key = || match call {
        Call::First => Uuid::new_v4(),
        Call::Replay => recorded,
    };
    let payload = vec![0x5a; payload];
    let mut routes = runtime.block_on(async { world.routes(contender, address) })?;
    for _ in 0..WARM_UP {
        runtime.block_on(answer(&mut routes, request(key(), &payload)?))?;
    }
    let mut least = (u64::MAX, u64::MAX);
    for _ in 0..CALLS {
        let (request, mut answered) = (request(key(), &payload)?, Ok(()));
        let info = allocation_counter::measure(|| answered = runtime.block_on(answer(&mut routes, request)));
        answered?;
        least = least.min((info.count_total, info.bytes_total));
    }
    Ok(least)
}

/// Returns the memory of a call while its handler waits without a connection: bare, and in reserved mode.
fn while_handlers_wait(context: &Context, world: &World) -> Result<[f64; 2], Error> {
    let calls = context.count(HELD[1]);
    let held = |routes: fn(_, _) -> Result<Routes, Error>| {
        let (runtime, gate) = (runtime()?, Gate::default());
        let routes = runtime.block_on(async { routes(world.pool(world.address()?)?, gate.clone()) })?;
        bytes_of_each(&runtime, routes, &gate, calls)
    };
    Ok([held(held_bare)?, held(held_reserved)?])
}

/// Begins calls that are held, and returns the memory of each.
fn bytes_of_each(runtime: &Runtime, mut routes: Routes, gate: &Gate, calls: usize) -> Result<f64, Error> {
    runtime.block_on(answer(&mut routes, request(Uuid::new_v4(), b"at once")?))?;
    let mut held = Vec::with_capacity(calls);
    let begin = async {
        for _ in 0..calls {
            let request = request(Uuid::new_v4(), HOLD)?;
            let mut call = Box::pin(ready(&mut routes).await?.call(request));
            if call.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop())).is_ready() {
                return Err("a call that was to be held has ended".into());
            }
            held.push(call);
        }
        while gate.arrived() < calls {
            yield_now().await;
        }
        Ok::<_, Error>(())
    };
    let mut begun = Ok(());
    let info = allocation_counter::measure(|| begun = runtime.block_on(begin));
    begun?;
    Ok(info.bytes_current as f64 / calls as f64)
}

/// A runtime on this thread, whose allocations are counted.
fn runtime() -> Result<Runtime, Error> {
    Ok(runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Makes a request as tonic's server receives it from hyper.
fn request(key: Uuid, payload: &[u8]) -> Result<http::Request<Body>, Error> {
    let message =
        CreateProjectRequest { cluster_id: CLUSTER.to_string(), name: "project".to_owned(), payload: payload.to_vec() };
    let message = message.encode_to_vec();
    let mut framed = BytesMut::with_capacity(5 + message.len());
    framed.put_u8(0);
    framed.put_u32(message.len().try_into()?);
    framed.put_slice(&message);
    let request = http::Request::post(CREATE)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", "tonic/0.14")
        .header("idempotency-key", key.to_string());
    Ok(request.body(Body::new(Full::new(framed.freeze())))?)
}

/// Makes a call, and reads its response to the end, as a connection does.
async fn answer(routes: &mut Routes, request: http::Request<Body>) -> Result<(), Error> {
    let mut body = ready(routes).await?.call(request).await?.into_body();
    let mut has_message = false;
    while let Some(frame) = body.frame().await {
        has_message |= frame?.is_data();
    }
    if has_message { Ok(()) } else { Err("a counted call failed".into()) }
}

async fn ready(routes: &mut Routes) -> Result<&mut Routes, Error> {
    Ok(ServiceExt::<http::Request<Body>>::ready(routes).await?)
}
