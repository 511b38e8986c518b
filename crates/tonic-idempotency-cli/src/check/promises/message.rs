//! H: a message is the same message, however it is encoded.

use protobuf_canonical::reencode::{Padding, Variations, reencode};
use tonic::Code;

use super::{
    answers::succeeded,
    promise::{Check, Group, Need, Promise},
};
use crate::check::{
    finding::{Checked, failed, not_checked},
    options::Level,
    server::Server,
    wire::{Answer, Outcome, Protocol},
};
use crate::failure::Failure;

pub(super) const GROUP: Group = Group { title: "H: one message", promises: PROMISES };

/// The encodings differ from run to run no more than the messages do.
const SEED: u64 = 17;

const fn promise(code: &'static str, sentence: &'static str, reason: &'static str, check: Check) -> Promise {
    Promise { code, sentence, reason, level: Level::Core, needs: &[Need::Count], calls: 2, creates: 1, check }
}

const PROMISES: &[Promise] = &[
    promise(
        "H1",
        "fields in another order are the same message",
        "libraries of other languages order them otherwise",
        |server| Box::pin(encoded(server, "a request with two fields", |variations| variations.field_order = true)),
    ),
    promise(
        "H2",
        "a map in another order is the same message",
        "a map has no order: the same client shuffles it anew for a retry",
        |server| {
            Box::pin(encoded(server, "a request with a map of two entries", |variations| variations.map_order = true))
        },
    ),
    promise("H3", "a list is the same message, packed or not", "both are valid for each schema", |server| {
        Box::pin(encoded(server, "a request with a list of numbers", |variations| variations.packing = true))
    }),
    promise(
        "H4",
        "padded varints are the same message",
        "encoders reserve room for a length and fill it in later",
        |server| {
            Box::pin(encoded(server, "a request with a field", |variations| variations.padding = Padding::Portable))
        },
    ),
    promise("H5", "written defaults are the same message", "some encoders write zeros and empty texts", |server| {
        Box::pin(encoded(server, "a request with an unset field without presence", |variations| {
            variations.defaults = true
        }))
    }),
    promise("H6", "a compressed message is the same message", "a client may compress its retry only", |server| {
        Box::pin(compressed(server))
    }),
    promise("H7", "a message over gRPC-Web is the same message", "a client may retry by another way", |server| {
        Box::pin(over(server, Protocol::GrpcWeb))
    }),
    promise("H8", "a message over Connect is the same message", "a client may retry by another way", |server| {
        Box::pin(over(server, Protocol::Connect))
    }),
    promise("H9", "a message as Connect's JSON is the same message", "a person on call retries by curl", |server| {
        Box::pin(over(server, Protocol::ConnectJson))
    }),
];

async fn encoded(server: &Server, needs: &str, vary: fn(&mut Variations)) -> Checked {
    let operation = server.operation()?;
    let mut variations = Variations::default();
    vary(&mut variations);
    let message = &operation.encoded;
    let varied = reencode(message, &server.template.method.input, variations, SEED);
    let varied = varied.map_err(|error| Failure::Input(error.to_string()))?;
    if varied == *message {
        return not_checked(format!("needs {needs}"));
    }
    let first = server.call(&operation).await;
    succeeded(&first)?;
    let again = server.attempt(&operation).message(varied).send().await;
    is_the_same(server, &operation, &first, &again).await
}

async fn compressed(server: &Server) -> Checked {
    let operation = server.operation()?;
    let first = server.call(&operation).await;
    succeeded(&first)?;
    let again = server.attempt(&operation).compressed().send().await;
    if again.error().is_some_and(|status| status.code() == Code::Unimplemented) {
        return not_checked("the server takes no gzip");
    }
    is_the_same(server, &operation, &first, &again).await
}

async fn over(server: &Server, protocol: Protocol) -> Checked {
    let operation = server.operation()?;
    let first = server.call(&operation).await;
    succeeded(&first)?;
    let again = server.attempt(&operation).over(protocol).send().await;
    let is_unknown = match &again.outcome {
        Outcome::Success(_) => false,
        Outcome::Error(status) => status.code() == Code::Unimplemented,
        Outcome::Lost(_) => true,
    };
    if is_unknown {
        return not_checked(format!("the server does not speak {}: {again}", protocol.name()));
    }
    is_the_same(server, &operation, &first, &again).await
}

async fn is_the_same(
    server: &Server,
    operation: &crate::check::operation::Operation,
    first: &Answer,
    again: &Answer,
) -> Checked {
    if again.message().is_none() {
        return failed(again.to_string());
    }
    server.has_one_effect(operation, &[first, again]).await
}
