//! grpcurl as a client.

use std::{net::SocketAddr, path::PathBuf};

use serde::Deserialize;
use serde_json::Value;
use tokio::process::Command;

use crate::call::{Call, Detail, Reply};

/// grpcurl, with a process per call and the schema from reflection.
#[derive(Clone, Debug)]
pub(crate) struct Grpcurl {
    pub(crate) address: SocketAddr,
    pub(crate) program: PathBuf,
}

/// An error, as `-format-error` prints it.
#[derive(Deserialize)]
struct Failure {
    code: u64,
    #[serde(default)]
    details: Vec<Value>,
    #[serde(default)]
    message: String,
}

impl Grpcurl {
    pub(crate) async fn call(&self, call: &Call) -> Result<Reply, String> {
        let mut command = Command::new(&self.program);
        command.args(["-plaintext", "-v", "-format-error", "-d"]).arg(call.message.to_string());
        for (name, value) in &call.headers {
            command.arg("-H").arg(format!("{name}: {value}"));
        }
        command.arg(self.address.to_string()).arg(&call.procedure).kill_on_drop(true);
        let output = command.output().await.map_err(|error| format!("grpcurl cannot be run: {error}"))?;

        let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let lines = section(&stdout, "Response headers received:\n").lines();
        let headers = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        if output.status.success() {
            let body = section(&stdout, "Response contents:\n");
            let body = serde_json::from_str(body).map_err(|error| format!("{error}: {stdout}"))?;
            return Ok(Reply { body, headers, ..Reply::default() });
        }
        let failure = stderr.find('{').and_then(|start| serde_json::from_str::<Failure>(&stderr[start..]).ok());
        let failure = failure.ok_or_else(|| format!("grpcurl failed: {stderr}{stdout}"))?;
        Ok(Reply {
            code: failure.code,
            details: failure.details.into_iter().map(detail).collect::<Option<_>>().ok_or("a detail without a type")?,
            headers,
            message: failure.message,
            ..Reply::default()
        })
    }
}

/// A detail from the JSON of its `google.protobuf.Any`.
fn detail(mut value: Value) -> Option<Detail> {
    let url = value.as_object_mut()?.remove("@type")?;
    let name = url.as_str()?.strip_prefix("type.googleapis.com/")?;
    Some(Detail { name: name.to_owned(), value })
}

/// The part of the output after `title`, up to the next empty line.
fn section<'a>(output: &'a str, title: &str) -> &'a str {
    let Some((_, rest)) = output.split_once(title) else {
        return "";
    };
    rest.split_once("\n\n").map_or(rest, |(section, _)| section)
}
