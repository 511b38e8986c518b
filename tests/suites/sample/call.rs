//! Calls with grpcurl.

use std::{
    env,
    net::SocketAddr,
    path::PathBuf,
    process::{Command, Output},
};

use serde_json::Value;

/// The real grpcurl program.
#[derive(Clone, Debug)]
pub(crate) struct Grpcurl {
    program: PathBuf,
}

impl Grpcurl {
    /// The program on PATH, or else in the directory of `go install`. If there is none, the test is reported as
    /// skipped.
    pub(crate) fn find() -> Option<Self> {
        let found = on_path().or_else(of_go_install);
        if found.is_none() {
            let how = "go install github.com/fullstorydev/grpcurl/cmd/grpcurl@latest";
            scratch_postgres::skip("grpcurl", format_args!("it is neither on PATH nor in $(go env GOPATH)/bin: {how}"));
        }
        found.map(|program| Self { program })
    }

    /// A command that runs it with `arguments` and then the address.
    pub(crate) fn command(&self, arguments: &[String], address: SocketAddr, symbol: &str) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(&self.program);
        command.arg("-plaintext").args(arguments).arg(address.to_string()).arg(symbol).kill_on_drop(true);
        command
    }
}

/// One call, in grpcurl's terms.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) procedure: String,
    request: Value,
    headers: Vec<(String, String)>,
}

impl Call {
    /// A call of a procedure such as `ProjectService/CreateProject`.
    pub(crate) fn new(procedure: &str, request: Value) -> Self {
        Self::of(format!("organization.v1.{procedure}"), request)
    }

    /// A call of a procedure of any package.
    pub(crate) fn of(procedure: String, request: Value) -> Self {
        Self { procedure, request, headers: Vec::new() }
    }

    pub(crate) fn header(mut self, name: &str, value: impl ToString) -> Self {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    pub(crate) fn key(self, key: impl ToString) -> Self {
        self.header("idempotency-key", key)
    }

    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["-v".to_owned(), "-format-error".to_owned()];
        for (name, value) in &self.headers {
            arguments.extend(["-rpc-header".to_owned(), format!("{name}: {value}")]);
        }
        arguments.extend(["-d".to_owned(), self.request.to_string()]);
        arguments
    }
}

/// The answer, as grpcurl showed it.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The response message; `Null` for a failed call.
    pub(crate) body: Value,
    /// A `google.rpc.Code`; 0 for success.
    pub(crate) code: u64,
    details: Vec<Value>,
    headers: Vec<(String, String)>,
}

impl Reply {
    /// Parses the output of `grpcurl -v -format-error`.
    pub(crate) fn read(output: &Output) -> Self {
        let stdout = String::from_utf8_lossy(&output.stdout);
        let headers = section(&stdout, "Response headers received:\n")
            .lines()
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        if output.status.success() {
            let body = section(&stdout, "Response contents:\n");
            let body = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {stdout}"));
            return Self { body, code: 0, details: Vec::new(), headers };
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        let error = stderr.find('{').and_then(|start| serde_json::from_str::<Value>(&stderr[start..]).ok());
        let error = error.unwrap_or_else(|| panic!("grpcurl failed: {stderr}{stdout}"));
        Self {
            body: Value::Null,
            code: error["code"].as_u64().expect("a code"),
            details: error["details"].as_array().cloned().unwrap_or_default(),
            headers,
        }
    }

    #[track_caller]
    pub(crate) fn succeeded(self) -> Self {
        assert_eq!(self.code, 0, "the call failed: {self:?}");
        self
    }

    /// A field of the response message.
    #[track_caller]
    pub(crate) fn field(&self, name: &str) -> &str {
        self.body[name].as_str().unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    /// The header `idempotency-status`.
    pub(crate) fn status(&self) -> Option<&str> {
        self.header("idempotency-status")
    }

    /// The header `idempotent-replayed`.
    pub(crate) fn replayed(&self) -> Option<&str> {
        self.header("idempotent-replayed")
    }

    /// The detail of an error, by its type name in `google.rpc`.
    #[track_caller]
    pub(crate) fn detail(&self, name: &str) -> &Value {
        let url = format!("type.googleapis.com/google.rpc.{name}");
        let found = self.details.iter().find(|detail| detail["@type"] == url.as_str());
        found.unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    /// The reason in the error's `ErrorInfo`.
    #[track_caller]
    pub(crate) fn reason(&self) -> &str {
        let info = self.detail("ErrorInfo");
        assert_eq!(info["domain"], "tonic-idempotency");
        info["reason"].as_str().unwrap_or_default()
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }
}

/// The part of the output after `title`, up to the next empty line.
fn section<'a>(output: &'a str, title: &str) -> &'a str {
    let Some((_, rest)) = output.split_once(title) else {
        return "";
    };
    rest.split_once("\n\n").map_or(rest, |(section, _)| section)
}

fn on_path() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|directory| directory.join(program())).find(|program| program.is_file())
}

fn of_go_install() -> Option<PathBuf> {
    let output = Command::new("go").args(["env", "GOPATH"]).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    let program = PathBuf::from(path.trim()).join("bin").join(program());
    program.is_file().then_some(program)
}

fn program() -> String {
    format!("grpcurl{}", env::consts::EXE_SUFFIX)
}
