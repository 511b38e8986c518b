//! Clients that repeat calls, behind a network that loses, delays and distorts: what they say of an operation is true.

mod client;
mod proxy;
mod trial;

use tokio::process::Command;

use self::{client::Faulted, trial::Trial};
use crate::{
    clients::{go_driver, java_driver, service_config},
    installation::{self, Installation},
    protocol::Protocol,
};

#[tokio::test]
async fn clients_in_go_say_what_happened() {
    let Some(program) = go_driver().await else { return };
    let clients = [
        Faulted::package("idempotency-grpc-go", &[Protocol::Grpc]),
        Faulted::package("idempotency-connect-go", &Protocol::OF_CONNECT),
    ];
    Trial::start().await.run(Command::new(program), &[], &clients).await;
}

#[tokio::test]
async fn clients_in_typescript_say_what_happened() {
    let Some(command) = node("idempotency.js") else { return };
    let clients = [Faulted::package("idempotency-connect-node", &Protocol::OF_CONNECT)];
    Trial::start().await.run(command, &[], &clients).await;
}

#[tokio::test]
async fn grpcio_says_what_happened() {
    let Some(directory) = Installation::Python.find("python") else { return };
    let mut command = Command::new(directory.join("bin/python"));
    command.arg("-B").arg(installation::sources().join("python/driver.py"));
    Trial::start().await.run(command, &[], &[Faulted::by_service_config("retry.py")]).await;
}

#[tokio::test]
async fn grpc_java_says_what_happened() {
    let Some(command) = java_driver().await else { return };
    Trial::start().await.run(command, &[service_config()], &[Faulted::by_service_config("Retry.java")]).await;
}

#[tokio::test]
async fn grpc_js_says_what_happened() {
    let Some(command) = node("grpc-js.js") else { return };
    Trial::start().await.run(command, &[], &[Faulted::by_service_config("retry.js")]).await;
}

fn node(driver: &str) -> Option<Command> {
    Installation::Node.find("node")?;
    let mut command = Command::new("node");
    command.arg(installation::sources().join("node").join(driver));
    Some(command)
}
