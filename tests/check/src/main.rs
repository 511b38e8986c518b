//! A server with idempotency keys made by hand. It keeps every promise of `tonic-idempotency check`, unless it is told to break one.

mod fault;
mod hash;
mod key;
mod keys;
mod record;
mod refusal;
mod shop;
mod store;

use std::{error::Error, fs, path::PathBuf};

use axum::{
    Router,
    extract::Request,
    middleware::{from_fn, from_fn_with_state},
    response::Response,
};
use clap::{Parser, ValueEnum};
use http::{HeaderName, header::CONTENT_TYPE};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{codec::CompressionEncoding, service::Routes, transport::Server};
use tonic_idempotency::connect::ConnectLayer;
use tonic_web::GrpcWebLayer;
use tower_layer::Layer as _;

use crate::{
    fault::{Fault, Faults},
    keys::Keys,
    shop::{FILE_DESCRIPTOR_SET, Shop, proto::shop_server::ShopServer},
    store::Store,
};

/// The content type with which a call arrived: behind the other protocols, all calls are gRPC.
const ARRIVED: HeaderName = HeaderName::from_static("x-arrived-as");

/// A shop with idempotency keys made by hand.
#[derive(Parser)]
struct Args {
    /// The promise to break.
    #[arg(long, value_enum)]
    fault: Option<Fault>,
    /// The folder with the orders and the records, and with the files `pid` and `address`.
    #[arg(long)]
    folder: PathBuf,
    /// The ports of the two servers; any if 0.
    #[arg(long, num_args = 2, default_values_t = [0, 0])]
    ports: Vec<u16>,
    /// The version in which questions about the types are answered.
    #[arg(long, value_enum, default_value_t = Reflection::V1)]
    reflection: Reflection,
}

#[derive(Clone, Copy, ValueEnum)]
enum Reflection {
    V1,
    V1alpha,
    None,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let faults = Faults(args.fault);
    let store = Store::open(&args.folder, faults)?;
    let mut listeners = Vec::new();
    for port in args.ports {
        listeners.push(TcpListener::bind(("127.0.0.1", port)).await?);
    }
    let addresses: Vec<_> = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
    let text: Vec<_> = addresses.iter().map(|address| format!("{address}\n")).collect();
    fs::write(args.folder.join("pid"), std::process::id().to_string())?;
    // Whoever finds it can connect.
    fs::write(args.folder.join("address.new"), text.concat())?;
    fs::rename(args.folder.join("address.new"), args.folder.join("address"))?;
    let servers = listeners.into_iter().enumerate().map(|(index, listener)| {
        let store = if faults.has(Fault::CachePerServer) && index > 0 { Store::default() } else { store.clone() };
        serve(listener, Keys::new(store, faults), Shop::new(&args.folder, faults), args.reflection)
    });
    futures_util::future::try_join_all(servers).await?;
    Ok(())
}

async fn serve(listener: TcpListener, keys: Keys, shop: Shop, reflection: Reflection) -> Result<(), Box<dyn Error>> {
    let shop = ShopServer::new(shop).accept_compressed(CompressionEncoding::Gzip);
    let builder =
        tonic_reflection::server::Builder::configure().register_encoded_file_descriptor_set(FILE_DESCRIPTOR_SET);
    let grpc = match reflection {
        Reflection::V1 => Routes::new(shop).add_service(builder.build_v1()?),
        Reflection::V1alpha => Routes::new(shop).add_service(builder.build_v1alpha()?),
        Reflection::None => Routes::new(shop),
    };
    let keyed = Routes::from(grpc.into_axum_router().layer(from_fn_with_state(keys, keys::keyed)));
    let connect = ConnectLayer::new(FILE_DESCRIPTOR_SET)?.layer(GrpcWebLayer::new().layer(keyed));
    let all = Router::new().fallback_service(from_fn(arrive).layer(connect));
    Server::builder().add_routes(Routes::from(all)).serve_with_incoming(TcpListenerStream::new(listener)).await?;
    Ok(())
}

async fn arrive(mut request: Request, next: axum::middleware::Next) -> Response {
    if let Some(content) = request.headers().get(CONTENT_TYPE).cloned() {
        request.headers_mut().insert(ARRIVED, content);
    }
    next.run(request).await
}
