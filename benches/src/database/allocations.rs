//! The heap allocations of a call without HTTP/2, and the memory of calls in flight. Counted on one thread, which has the handler, the
//! layer, and the client of the database.

use std::{net::SocketAddr, task::Waker};

use organization::CLUSTER;
use tokio::{
    runtime::{self, Runtime},
    task::{block_in_place, yield_now},
};
use tonic::{body::Body, service::Routes};
use uuid::Uuid;

use super::{
    contender::{BARE, Contender, FLOOR, RESERVED, TRANSACTIONAL},
    in_flight::{Gate, HELD, HOLD, held_bare, held_reserved},
    plan::{Call, LARGE, SMALL},
    proto::CreateProjectRequest,
    world::World,
};
use crate::{
    context::Context,
    error::Error,
    report::{Bound, Goal, Spread, table},
    unary,
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

/// The allocations of each kind of call and their bytes, and the memory of each call in flight in bytes.
#[derive(Clone, Debug)]
pub(super) struct Allocations {
    calls: [(u64, u64); COUNTED.len()],
    /// Bare, and in reserved mode.
    in_flight: [f64; 2],
}

impl Allocations {
    pub(super) fn count(context: &Context, world: &World) -> Result<Self, Error> {
        context.progress("counting allocations");
        let address = world.address()?;
        block_in_place(|| {
            let mut calls = [(0, 0); COUNTED.len()];
            for (counted, (call, contender, payload)) in calls.iter_mut().zip(COUNTED) {
                *counted = of_a_call(world, address, call, contender, payload)?;
            }
            Ok(Self { calls, in_flight: while_handlers_wait(context, world)? })
        })
    }

    pub(super) fn goals(&self) -> [Goal; 3] {
        let [_, _, (allocations, bytes), ..] = self.calls;
        let [bare, reserved] = self.in_flight;
        let of_a_call = |bound, figure, unit| {
            let measure = "transactional first call, without HTTP/2";
            Goal::new(measure, Bound::AtMost(bound), Spread::of([figure]), unit)
        };
        [
            of_a_call(140.0, allocations as f64, "allocations"),
            of_a_call(48.0, bytes as f64 / 1_000.0, "KB allocated"),
            Goal::new(
                format!("{} calls in flight in reserved mode, on the heap", HELD[1]),
                Bound::AtMost(4.0),
                Spread::of([(reserved - bare) / 1_024.0]),
                "KiB per call",
            ),
        ]
    }

    pub(super) fn tables(&self) -> [String; 2] {
        let of_a_call =
            |((call, contender, payload), (allocations, bytes)): ((Call, Contender, usize), &(u64, u64))| {
                let name = format!("{}, {}, {payload} bytes", call.name(), contender.name);
                [name, allocations.to_string(), bytes.to_string()]
            };
        let [bare, reserved] = self.in_flight;
        let in_flight = [bare, reserved, reserved - bare].map(|bytes| format!("{bytes:.0}"));
        [
            table(
                "Allocations of a call without HTTP/2, with those of the client of the database",
                ["", "allocations", "bytes"],
                COUNTED.into_iter().zip(&self.calls).map(of_a_call),
            ),
            table(
                &format!("Memory of each of {} calls in flight while its handler waits, in bytes on the heap", HELD[1]),
                ["bare handler", "reserved", "of the layer"],
                [in_flight],
            ),
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
    let (runtime, payload, recorded) = (runtime()?, vec![0x5a; payload], Uuid::new_v4());
    let key = || if call == Call::First { Uuid::new_v4() } else { recorded };
    let mut routes = runtime.block_on(async { world.routes(contender, address) })?;
    for _ in 0..WARM_UP {
        runtime.block_on(unary::answer(&mut routes, request(key(), &payload)?))?;
    }
    let mut least = (u64::MAX, u64::MAX);
    for _ in 0..CALLS {
        let (request, mut answered) = (request(key(), &payload)?, Ok(()));
        let info = allocation_counter::measure(|| answered = runtime.block_on(unary::answer(&mut routes, request)));
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
    runtime.block_on(unary::answer(&mut routes, request(Uuid::new_v4(), b"at once")?))?;
    let mut held = Vec::with_capacity(calls);
    let begin = async {
        for _ in 0..calls {
            let request = request(Uuid::new_v4(), HOLD)?;
            let mut call = Box::pin(unary::begin(&mut routes, request).await?);
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

fn request(key: Uuid, payload: &[u8]) -> Result<http::Request<Body>, Error> {
    let message =
        CreateProjectRequest { cluster_id: CLUSTER.to_string(), name: "project".to_owned(), payload: payload.to_vec() };
    unary::request(CREATE, &message, Some(key))
}
