//! The connections of a proxy.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::AtomicBool},
};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use super::{Road, State, pipe::Lane};
use crate::schedule::Direction;

/// Takes connections and forwards them, until it is dropped.
pub(super) async fn accept(listener: TcpListener, upstream: SocketAddr, road: Arc<Road>) {
    let mut links = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((client, _)) = accepted else { continue };
                if !road.state.borrow().refusing {
                    links.spawn(link(client, upstream, Arc::clone(&road)));
                }
            }
            Some(_) = links.join_next() => {}
        }
    }
}

/// Forwards one connection, until either side ends it or it is cut.
async fn link(mut client: TcpStream, upstream: SocketAddr, road: Arc<Road>) {
    let mut state = road.state.subscribe();
    let generation = state.borrow_and_update().generation;
    let Ok(mut server) = TcpStream::connect(upstream).await else { return };
    let Ok(port) = server.local_addr().map(|address| address.port()) else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    road.ports().insert(port);
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let lane = Lane { losing: AtomicBool::new(false), road: &road };
    // Both ways end with the first that does.
    tokio::select! {
        _ = lane.pipe(&mut from_client, &mut to_server, Direction::Requests) => {}
        _ = lane.pipe(&mut from_server, &mut to_client, Direction::Answers) => {}
        () = next_generation(&mut state, generation) => {}
    }
    road.ports().remove(&port);
}

async fn next_generation(state: &mut watch::Receiver<State>, generation: usize) {
    // Its sender lives as long as the link.
    let _ = state.wait_for(|state| state.generation != generation).await;
}
