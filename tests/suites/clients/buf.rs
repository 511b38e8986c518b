//! `buf curl` as a client.

use std::{net::SocketAddr, path::PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use prost_reflect::DescriptorPool;
use serde::Deserialize;
use tokio::process::Command;

use crate::{
    call::{Call, Reply},
    details,
    protocol::Protocol,
};

/// `buf curl`, with a process per call. Over gRPC it gets the schema by reflection. Reflection needs HTTP/2, and over
/// the other protocols `buf curl` uses HTTP/1.1, so there it gets the schema from a file.
#[derive(Clone, Debug)]
pub(crate) struct Buf {
    pub(crate) address: SocketAddr,
    pub(crate) descriptors: PathBuf,
    pub(crate) pool: DescriptorPool,
    pub(crate) program: PathBuf,
}

/// An error, in the form that `buf curl` prints for every protocol.
#[derive(Deserialize)]
struct Failure {
    code: String,
    #[serde(default)]
    details: Vec<EncodedDetail>,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct EncodedDetail {
    #[serde(rename = "type")]
    name: String,
    /// In base64 without padding.
    value: String,
}

impl Buf {
    pub(crate) async fn call(&self, protocol: Protocol, call: &Call) -> Result<Reply, String> {
        let mut command = Command::new(&self.program);
        command.args(["curl", "--verbose", "--data"]).arg(call.message.to_string());
        command.arg("--protocol").arg(match protocol {
            Protocol::ConnectProto => "connect",
            Protocol::Grpc => "grpc",
            Protocol::GrpcWeb => "grpcweb",
            other => return Err(format!("buf curl does not speak {other}")),
        });
        if protocol != Protocol::Grpc {
            command.arg("--schema").arg(&self.descriptors);
        }
        for (name, value) in &call.headers {
            // buf reads the argument as a line of comma-separated values.
            command.arg("--header").arg(format!("\"{name}: {}\"", value.replace('"', "\"\"")));
        }
        command.arg(format!("http://{}/{}", self.address, call.procedure)).kill_on_drop(true);
        let output = command.output().await.map_err(|error| format!("buf cannot be run: {error}"))?;

        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let headers = headers(&stderr);
        if output.status.success() {
            let body = serde_json::from_str(&stdout).map_err(|error| format!("{error}: {stdout}"))?;
            return Ok(Reply { body, headers, ..Reply::default() });
        }
        let failure = failure(&stderr).ok_or_else(|| format!("buf failed: {stderr}"))?;
        let details = failure.details.iter().map(|detail| {
            let encoded = STANDARD_NO_PAD.decode(&detail.value).map_err(|error| format!("{}: {error}", detail.name))?;
            details::decode(&self.pool, &detail.name, &encoded)
        });
        Ok(Reply {
            code: code(&failure.code).ok_or_else(|| format!("unknown code {}", failure.code))?,
            details: details.collect::<Result<_, _>>()?,
            headers,
            message: failure.message,
            ..Reply::default()
        })
    }
}

/// The headers of the last response, from lines such as `buf: < (#2) Idempotency-Status: processing`.
fn headers(log: &str) -> Vec<(String, String)> {
    let answer = log.rfind("* Invoking RPC").map_or("", |start| &log[start..]);
    let lines = answer.lines().filter_map(|line| line.strip_prefix("buf: < (#")?.split_once(") "));
    lines
        .filter_map(|(_, header)| header.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect()
}

/// The only JSON object among the lines of the log.
fn failure(log: &str) -> Option<Failure> {
    let lines: Vec<_> = log.lines().filter(|line| !line.starts_with("buf: ")).collect();
    serde_json::from_str(&lines.join("\n")).ok()
}

/// The number of a Connect code.
fn code(name: &str) -> Option<u64> {
    [
        "canceled",
        "unknown",
        "invalid_argument",
        "deadline_exceeded",
        "not_found",
        "already_exists",
        "permission_denied",
        "resource_exhausted",
        "failed_precondition",
        "aborted",
        "out_of_range",
        "unimplemented",
        "internal",
        "unavailable",
        "data_loss",
        "unauthenticated",
    ]
    .iter()
    .zip(1..)
    .find_map(|(code, number)| (*code == name).then_some(number))
}
