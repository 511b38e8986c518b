//! A server of `ConformanceService`, which connectrpc's conformance suite starts and calls.
//!
//! ```sh
//! conformance-server <tonic|native> <bare|plain|keyed|replayed>
//! ```
//!
//! The suite writes a `ServerCompatRequest` to standard input, and expects a `ServerCompatResponse` on standard output
//! when the server listens.

mod call;
mod caller;
mod exchange;
mod native;
mod proto;
mod server;
mod service;
mod setup;
mod tonic_service;
mod trailers;
mod whole;
mod witness;

use std::{env, error::Error, io};

use tokio::net::TcpListener;

use crate::{
    proto::{ServerCompatRequest, ServerCompatResponse},
    setup::{Kind, Setup},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut arguments = env::args().skip(1);
    let (kind, setup) = match (arguments.next(), arguments.next(), arguments.next()) {
        (Some(kind), Some(setup), None) => (kind.parse::<Kind>()?, setup.parse::<Setup>()?),
        _ => return Err("usage: conformance-server <tonic|native> <bare|plain|keyed|replayed>".into()),
    };
    let request: ServerCompatRequest = exchange::read(&mut io::stdin().lock())?;
    let limit = (request.message_receive_limit > 0).then_some(request.message_receive_limit as usize);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let response = ServerCompatResponse {
        host: address.ip().to_string(),
        port: address.port().into(),
        ..ServerCompatResponse::default()
    };
    exchange::write(&mut io::stdout().lock(), &response)?;
    server::serve(listener, kind, setup, limit).await
}
