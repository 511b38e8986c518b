//! The client matrix: real clients of other projects show how keys behave over every protocol of the sample. Each
//! client is a program that makes calls and reports what it saw. The expectations are here, in one place.
//!
//! [`results/clients.md`](../../../results/clients.md) has the table. A run compares it with the results; with
//! `IDEMPOTENCY_TEST_WRITE_CLIENTS` set, it writes the table. `tests/suites/clients/setup` installs the clients;
//! missing ones are skipped.
//!
//! `faults` has clients that repeat calls by themselves. `retries` shows that the retry policies of gRPC's libraries obey the layer.

mod behaviour;
mod buf;
mod call;
mod checked;
mod client;
mod clients;
mod descriptors;
mod details;
mod document;
mod driver;
mod expect;
mod faults;
mod first_calls;
mod grpcurl;
mod installation;
mod late_body;
mod matrix;
mod protocol;
mod retries;
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
#[expect(clippy::print_stdout, reason = "the table is the output of the test")]
async fn every_client_agrees_with_the_table_in_the_docs() {
    let sample = Sample::start().await;
    let clients = Clients::start(&sample).await;
    let matrix = Matrix::of(&sample, &clients.running).await;
    clients.end().await;
    println!("{matrix}");
    matrix.assert_no_failures();
    drop(sample);
    Document::kept().agree_with(&matrix, &clients.skipped);
}
