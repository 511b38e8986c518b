//! The client matrix: real clients of other makers, over every protocol that the sample speaks, shown what keys do. Each client
//! is a program that makes calls and says what it saw; what it has to see is here, once for all.
//!
//! [`docs/clients.md`](../../docs/clients.md) keeps the table. A run compares; with `IDEMPOTENCY_TEST_WRITE_CLIENTS` set it
//! writes. `tests/suites/clients/setup` installs the clients; those that are missing are skipped.

mod behaviour;
mod buf;
mod call;
mod client;
mod clients;
mod descriptors;
mod details;
mod document;
mod driver;
mod expect;
mod first_calls;
mod grpcurl;
mod installation;
mod late_body;
mod matrix;
mod protocol;
mod sample;
mod tonic_client;
mod versions;

#[path = "../sample/eventually.rs"]
mod eventually;

#[allow(dead_code, reason = "the sample's own tests use the rest")]
#[path = "../sample/process.rs"]
mod process;

use clients::Clients;
use document::Document;
use matrix::Matrix;
use sample::Sample;

#[tokio::test]
#[expect(clippy::print_stdout, reason = "the table is what it is run for")]
async fn every_client_sees_what_docs_clients_md_says() {
    let sample = Sample::start().await;
    let clients = Clients::start(&sample).await;
    let matrix = Matrix::of(&sample, &clients.running).await;
    clients.end().await;
    println!("{matrix}");
    matrix.assert_no_failures();
    drop(sample);
    Document::kept().agree_with(&matrix, &clients.skipped);
}
