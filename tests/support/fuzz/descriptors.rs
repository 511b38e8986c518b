//! The fuzz target of descriptors.

use std::convert::Infallible;

use http::{Request, Response};
use prost::Message as _;
use prost_types::FileDescriptorSet;
use tonic::body::Body;
use tonic_idempotency::{
    IdempotencyLayer,
    connect::ConnectLayer,
    layer::{Descriptors, IdempotencyLayerBuilder},
    policy::{Mode, Procedure},
    store::MemoryStore,
};
use tower_layer::Layer as _;

/// The number of procedures for which a layer is built, for each set.
const PROCEDURES: usize = 3;

/// Takes a descriptor set, and builds layers with it: with the procedures that have the option, with others, and for Connect. The
/// result is a layer, or an error, and either can be printed.
///
/// # Panics
///
/// The property does not hold.
pub fn descriptors(input: &[u8]) {
    print(&Descriptors::from(input));
    build(builder(input).allow_no_procedures());
    for path in procedures(input).take(PROCEDURES) {
        build(builder(input).procedure(Procedure::builder(path)));
    }
    match ConnectLayer::new(input) {
        Ok(connect) => drop(connect.layer(tower::service_fn(handle))),
        Err(error) => print(&error),
    }
}

fn builder(input: &[u8]) -> IdempotencyLayerBuilder {
    IdempotencyLayer::builder(input)
        .store(MemoryStore::new())
        .adjust_procedures(|procedure| procedure.mode(Mode::Reserved)) // memory has no transactions
}

fn build(builder: IdempotencyLayerBuilder) {
    match builder.build() {
        Ok(layer) => print(&layer),
        Err(error) => {
            print(&error);
            assert!(!error.to_string().is_empty());
        }
    }
}

fn print(it: &impl std::fmt::Debug) {
    assert!(!format!("{it:?}").is_empty());
}

/// The paths of the procedures, as far as the set can be read.
fn procedures(input: &[u8]) -> impl Iterator<Item = String> {
    let files = FileDescriptorSet::decode(input).map(|set| set.file).unwrap_or_default();
    files.into_iter().flat_map(|file| {
        let package = file.package().to_owned();
        file.service.into_iter().flat_map(move |service| {
            let name = match package.as_str() {
                "" => service.name().to_owned(),
                package => format!("{package}.{}", service.name()),
            };
            service.method.into_iter().map(move |method| format!("/{name}/{}", method.name()))
        })
    })
}

async fn handle(_: Request<Body>) -> Result<Response<Body>, Infallible> {
    Ok(Response::new(Body::empty()))
}
