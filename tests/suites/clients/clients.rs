//! The clients: the rows of the table.

use std::{
    env,
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::process::Command;

use crate::{
    buf::Buf,
    client::{Caller, Client},
    driver::Driver,
    grpcurl::Grpcurl,
    installation::{self, Installation},
    protocol::Protocol,
    sample::Sample,
    tonic_client::TonicClient,
    versions,
};

/// The installed clients, and the names of the others.
#[derive(Debug)]
pub(crate) struct Clients {
    pub(crate) running: Vec<Client>,
    pub(crate) skipped: Vec<&'static str>,
}

impl Clients {
    /// Starts the installed clients, and reports the others as skipped.
    pub(crate) async fn start(sample: &Sample) -> Self {
        let mut clients = Self { running: tonic(sample), skipped: Vec::new() };
        clients.add(grpcurl(sample), &["grpcurl"]);
        clients.add(buf(sample), &["buf curl"]);
        clients.add(go(sample).await, &["grpc-go", "connect-go"]);
        clients.add(node(sample), &["connect-node"]);
        clients.add(browser(sample), &["connect-web", "grpc-web", "fetch"]);
        clients.add(python(sample), &["grpcio"]);
        clients
    }

    /// Ends the clients that are separate programs.
    pub(crate) async fn end(&self) {
        for client in &self.running {
            if let Caller::Driver(driver) = client.caller() {
                driver.end().await;
            }
        }
    }

    fn add(&mut self, started: Option<Vec<Client>>, names: &[&'static str]) {
        match started {
            Some(started) => self.running.extend(started),
            None => self.skipped.extend(names),
        }
    }
}

fn tonic(sample: &Sample) -> Vec<Client> {
    let tonic = TonicClient::new(sample.ready.address, sample.descriptors.pool.clone());
    let version = versions::cargo("tonic");
    let client = |protocol| Client::new("tonic", version.clone(), protocol, Caller::Tonic(Box::new(tonic.clone())));
    [Protocol::Grpc, Protocol::GrpcWeb].map(client).into()
}

fn grpcurl(sample: &Sample) -> Option<Vec<Client>> {
    let program = Installation::Grpcurl.find("grpcurl")?.join("grpcurl");
    let grpcurl = Grpcurl { address: sample.ready.address, program };
    let version = versions::go("grpcurl/go.mod", "github.com/fullstorydev/grpcurl");
    Some(vec![Client::new("grpcurl", version, Protocol::Grpc, Caller::Grpcurl(grpcurl))])
}

fn buf(sample: &Sample) -> Option<Vec<Client>> {
    let modules = Installation::Node.find("buf")?;
    let buf = Buf {
        address: sample.ready.address,
        descriptors: sample.descriptors.path().to_owned(),
        pool: sample.descriptors.pool.clone(),
        program: modules.join(".bin/buf"),
    };
    let version = versions::npm("@bufbuild/buf");
    let client = |protocol| Client::new("buf curl", version.clone(), protocol, Caller::Buf(buf.clone()));
    Some([Protocol::Grpc, Protocol::GrpcWeb, Protocol::ConnectProto].map(client).into())
}

async fn go(sample: &Sample) -> Option<Vec<Client>> {
    let driver = Driver::spawn(with_arguments(Command::new(go_driver().await?), sample));
    let of = |name, module, protocol| {
        Client::new(name, versions::go("go/go.mod", module), protocol, Caller::Driver(driver.clone()))
    };
    let mut clients = vec![of("grpc-go", "google.golang.org/grpc", Protocol::Grpc)];
    clients.extend(Protocol::OF_CONNECT.map(|protocol| of("connect-go", "connectrpc.com/connect", protocol)));
    Some(clients)
}

/// Builds the driver of the Go clients, if they are installed.
pub(crate) async fn go_driver() -> Option<PathBuf> {
    go_program("driver").await
}

/// Builds a program in Go, if its modules are installed: the `driver` of the clients, or the `server` beside the sample.
pub(crate) async fn go_program(name: &str) -> Option<PathBuf> {
    let directory = Installation::Go.find("go")?;
    let program = directory.join(name);
    let package = if name == "driver" { "." } else { "./server" };
    // The modules are downloaded, but the program may be older than its source.
    let mut build = Command::new("go");
    build.args(["build", "-buildvcs=false", "-o"]).arg(&program).arg(package);
    let build = build.current_dir(installation::sources().join("go")).env("GOPROXY", "off").stdin(Stdio::null());
    let built = build.output().await.expect("go runs");
    assert!(built.status.success(), "it does not build: {}", String::from_utf8_lossy(&built.stderr));
    Some(program)
}

/// Compiles the driver of grpc-java, if its libraries are installed.
pub(crate) async fn java_driver() -> Option<Command> {
    let directory = Installation::Java.find("java")?;
    let [libraries, classes] = ["lib/*", "classes"].map(|name| directory.join(name));
    let mut compile = Command::new("javac");
    compile.arg("-cp").arg(&libraries).arg("-d").arg(&classes).args(["Driver.java", "Retry.java"]);
    let compiled = compile.current_dir(installation::sources().join("java")).output().await.expect("javac runs");
    assert!(compiled.status.success(), "it does not compile: {}", String::from_utf8_lossy(&compiled.stderr));
    let mut command = Command::new("java");
    let verdicts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/verdicts.json");
    command.arg(format!("-Dverdicts={}", verdicts.display()));
    command.arg("-cp").arg(env::join_paths([libraries, classes]).expect("a class path")).arg("Driver");
    Some(command)
}

/// The service config of the drivers of grpc-go and grpc-java.
pub(crate) fn service_config() -> PathBuf {
    installation::sources().join("retries.json")
}

fn node(sample: &Sample) -> Option<Vec<Client>> {
    Installation::Node.find("node")?;
    let mut command = Command::new("node");
    command.arg(installation::sources().join("node/connect-node.js"));
    let driver = Driver::spawn(with_arguments(command, sample));
    let version = versions::npm("@connectrpc/connect-node");
    let client = |protocol| Client::new("connect-node", version.clone(), protocol, Caller::Driver(driver.clone()));
    Some(Protocol::OF_CONNECT.map(client).into())
}

fn browser(sample: &Sample) -> Option<Vec<Client>> {
    Installation::Node.find("browser")?;
    let Some(chromium) = on_path(&["chromium", "chromium-browser", "google-chrome"]) else {
        scratch_postgres::skip("browser", "Chromium is not on PATH: apt-get install chromium");
        return None;
    };
    let mut command = Command::new("node");
    command.arg(installation::sources().join("node/browser.js"));
    let mut command = with_arguments(command, sample);
    command.arg(chromium);
    let driver = Driver::spawn(command);
    let of =
        |name, version: &str, protocol| Client::new(name, version.to_owned(), protocol, Caller::Driver(driver.clone()));
    let (connect, grpc_web) = (versions::npm("@connectrpc/connect-web"), versions::npm("grpc-web"));
    Some(vec![
        of("connect-web", &connect, Protocol::GrpcWeb),
        of("connect-web", &connect, Protocol::ConnectJson),
        of("connect-web", &connect, Protocol::ConnectProto),
        of("grpc-web", &grpc_web, Protocol::GrpcWeb),
        of("grpc-web", &grpc_web, Protocol::GrpcWebText),
        of("fetch", "-", Protocol::ConnectJson),
    ])
}

fn python(sample: &Sample) -> Option<Vec<Client>> {
    let directory = Installation::Python.find("python")?;
    let mut command = Command::new(directory.join("bin/python"));
    command.arg("-B").arg(installation::sources().join("python/driver.py"));
    let driver = Driver::spawn(with_arguments(command, sample));
    Some(vec![Client::new("grpcio", versions::python("grpcio"), Protocol::Grpc, Caller::Driver(driver))])
}

fn on_path(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let mut programs = env::split_paths(&path).flat_map(|directory| names.iter().map(move |name| directory.join(name)));
    programs.find(|program| program.is_file())
}

/// Adds the arguments that every driver takes.
fn with_arguments(mut command: Command, sample: &Sample) -> Command {
    let descriptors: &Path = sample.descriptors.path();
    command.arg(sample.ready.address.to_string()).arg(descriptors);
    command
}
