//! Claim, complete and replay on PostgreSQL.

mod contender;
mod fun15;
mod handler;
mod link;
mod load;
mod primary_key;
mod usage;
mod world;

use self::{contender::*, load::*, world::*};
use crate::{Error, context::Context, section::Section};
use std::time::Duration;

pub(crate) async fn measure(context: &Context) -> Result<Section, Error> {
    let world = World::start().await?;
    let contenders = [BARE, FUN15, FUN15_PARSED, RESERVED, TRANSACTIONAL];
    let address = world.address()?;
    let mut clients = Vec::new();
    for contender in contenders {
        clients.push(served(world.routes(contender, address)?).await?);
    }
    for round in 0..context.rounds(4) {
        for (contender, client) in contenders.iter().zip(&clients) {
            let load = Load { concurrency: 16, keys: Keys::New, payload: 100 };
            let f = load.run_for(context.time(Duration::from_millis(1500)), client, &world.processes).await?;
            context.progress(&format!(
                "{round} {:<20} {:>7.0}/s p50 {:?} p99 {:?} own {:?} pg {:?}",
                contender.name, f.throughput, f.p50, f.p99, f.own_processor, f.server_processor
            ));
        }
    }
    world.stop().await;
    Err("not there yet".into())
}
