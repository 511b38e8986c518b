//! Servers that `tonic-idempotency check` has checked: ours keep every promise that can be checked of them, and a server in Go with the
//! interceptor of the founding design does not. [`results/checked.md`](../../../results/checked.md) has what was found.

use std::{
    env,
    fmt::Write as _,
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Output,
};

use serde_json::Value;
use tempfile::TempDir;
use tokio::{net::TcpStream, process::Command};
use tonic_idempotency::{migrations, store::Schema};
use tonic_idempotency_tests::{Database, binary, example};

use crate::{clients::go_program, descriptors::Descriptors, document::WRITE, eventually::eventually, process::Ready};

/// The promises' own page has the sentences.
const HEAD: &str = "# Servers that were checked

What [`tonic-idempotency check`](promises.md) finds of the sample, of the example on `connectrpc`, and of a small server in Go with the
interceptor of the founding design, which shares the sample's table. All promises are kept that are not listed.
`cargo test --features full --test clients checked` compares this page with what it finds.
";

/// The secret of the sample's tokens, so that those of one process are good at the others.
const SECRET: &str = "a secret of the tests, of 32 bytes and more";

/// Kept by the server in Go if its handler ends before it hears of a reset.
const BY_LUCK: [&str; 2] = ["F3", "F4"];

#[tokio::test]
async fn the_page_has_what_is_found() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results/checked.md");
    let kept = fs::read_to_string(&path).unwrap_or_default();
    // They are built before a connection waits for them.
    let _ = (example("organization", ""), binary("connect-example", ""), binary("tonic-idempotency", ""));
    let ((sample, go), native) = tokio::join!(of_sample(), of_native());
    // Without Go, its section stays as it is.
    let go =
        go.unwrap_or_else(|| kept.split_once("\n## Go").map_or_else(String::new, |(_, go)| format!("\n## Go{go}")));
    let page = [HEAD, &sample, &native, &go].concat();
    if env::var_os(WRITE).is_some() {
        fs::write(&path, &page).expect("results/checked.md is written");
        return;
    }
    assert!(kept == page, "results/checked.md differs from what is found; set {WRITE} to update it. Found:\n{page}");
}

/// The level at which our own servers are checked.
const OURS: &str = "tonic-idempotency";

/// The role that the example on `connectrpc` logs in as.
const ROLE: &str = "idempotency_tests_checked";

/// A program that can be killed and started again.
struct Server {
    folder: TempDir,
    address: String,
}

impl Server {
    /// Starts a program at an address that its words name as `ADDRESS`.
    async fn start(words: &[&str], environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        // Nothing else takes it meanwhile, most likely: the system gives each port once before it repeats one.
        let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port");
        let address = address.to_string();
        let at = folder.path().display().to_string();
        let quoted = |word: &str| format!("'{}'", word.replace("ADDRESS", &address).replace("FOLDER", &at));
        let words: Vec<_> = words.iter().map(|word| quoted(word)).collect();
        let variables: Vec<_> = environment.iter().map(|(name, value)| format!("{name}={}", quoted(value))).collect();
        let script = format!(
            "rm -f '{at}/ready'\n{} setsid sh -c 'echo $$ > \"$0\"; exec \"$@\"' '{at}/pid' {} </dev/null >>'{at}/log' 2>&1 &\n",
            variables.join(" "),
            words.join(" ")
        );
        fs::write(folder.path().join("start"), script).expect("a script");
        let server = Self { folder, address };
        let started = Command::new("sh").arg(server.path("start")).status().await.expect("a shell");
        assert!(started.success(), "{started}");
        eventually("the server listens", || async { TcpStream::connect(&server.address).await.ok() }).await;
        server
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn restart(&self) -> String {
        let (folder, address) = (self.folder.path().display(), self.address.replace(':', "/"));
        // A process that was killed may have its port for a moment.
        let is_free = format!("bash -c 'while (exec 3<>/dev/tcp/{address}) 2>/dev/null; do sleep 0.02; done'");
        format!("kill -9 $(cat '{folder}/pid'); {is_free}; sh '{folder}/start'")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(pid) = fs::read_to_string(self.path("pid")) {
            let _ = std::process::Command::new("kill").args(["-9", pid.trim()]).status();
        }
    }
}

/// Checks the sample, and the server in Go on the same database, if Go is installed.
async fn of_sample() -> (String, Option<String>) {
    let database = scratch_postgres::database(None).await;
    let program = example("organization", "");
    let words = [
        program.to_str().expect("text"),
        "--listen",
        "ADDRESS",
        "--outbox-delay",
        "300ms",
        "--ready-file",
        "FOLDER/ready",
    ];
    let environment = [("DATABASE_URL", database.url()), ("TOKEN_SECRET", SECRET)];
    let (server, also) = tokio::join!(Server::start(&words, &environment), Server::start(&words, &environment));
    let ready = eventually("the sample is ready", || async { fs::read(server.path("ready")).ok() }).await;
    let ready: Ready = serde_json::from_slice(&ready).expect("one JSON object");
    let request = format!(
        r#"{{"clusterId": "{}", "name": "{{{{uuid}}}}", "alias": "a", "labels": {{"a": "1", "b": "2", "c": "3"}}}}"#,
        ready.cluster_id
    );
    let tokens = &ready.tokens;
    let check = Check {
        request: &request,
        token: &tokens.alice,
        database: database.url(),
        effects: "tenant.projects WHERE name",
    };
    let second = format!("authorization: Bearer {}", tokens.bob);
    let common = ["--slow", "sample-handler-delay-ms: 1200", "--second-header", &second];
    let other = r#"organization.v1.ClusterService/CreateCluster {"name": "{{uuid}}", "region": "nl-1"}"#;
    let method = "organization.v1.ProjectService/CreateProject";
    let found = check.run(&server, &also, method, &[&common[..], &["--level", OURS, "--other", other]].concat()).await;
    let sample = section("The sample", OURS, &found);

    let Some(go) = go_program("server").await else { return (sample, None) };
    let descriptors = Descriptors::write();
    let descriptors = descriptors.path().to_str().expect("text");
    let words = [go.to_str().expect("text"), descriptors, database.url(), "organization_api", "ADDRESS"];
    let (server, also) = tokio::join!(Server::start(&words, &[]), Server::start(&words, &[]));
    let mut found =
        check.run(&server, &also, method, &[&common[..], &["--descriptor-set", descriptors]].concat()).await;
    let is_luck = |line: &&mut Value| {
        BY_LUCK.iter().any(|code| line["code"] == *code) && (line["verdict"] == "ok" || line["verdict"] == "failed")
    };
    for line in found.iter_mut().filter(is_luck) {
        (line["verdict"], line["detail"]) = ("by luck".into(), "its handler may end with the reset".into());
    }
    (sample, Some(section("Go", "core", &found)))
}

/// Checks the example on `connectrpc`, on the database that its page makes.
async fn of_native() -> String {
    let database = Database::empty().await;
    let mut owner = database.owner().await;
    migrations::run(&mut owner, &Schema::default()).await.expect("the migrations run");
    database.login(ROLE).await;
    migrations::grant(&owner, &Schema::default(), ROLE).await.expect("the grant");
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/connect.md")).expect("the page");
    let (_, rest) = page.split_once("```sql\n").expect("the table of orders");
    let (table, _) = rest.split_once("```").expect("its end");
    owner.batch_execute(&table.replace("my_api", ROLE)).await.expect("the table of orders");
    let (scheme, rest) = database.url().split_once("://").expect("a URL");
    let (_, rest) = rest.split_at(rest.find([':', '@']).expect("a user"));
    let url = format!("{scheme}://{ROLE}{rest}");

    let program = binary("connect-example", "");
    let (words, environment) =
        ([program.to_str().expect("text")], [("DATABASE_URL", url.as_str()), ("ADDRESS", "ADDRESS")]);
    let (server, also) = tokio::join!(Server::start(&words, &environment), Server::start(&words, &environment));
    let descriptors = Descriptors::of(quickstart::FILE_DESCRIPTOR_SET);
    let effects = "orders WHERE item";
    let check = Check { request: r#"{"item": "{{uuid}}"}"#, token: "alice-at-acme", database: database.url(), effects };
    let more = ["--level", OURS, "--descriptor-set", descriptors.path().to_str().expect("text")];
    let found = check.run(&server, &also, "orders.v1.OrderService/CreateOrder", &more).await;
    section("`connectrpc`", OURS, &found)
}

/// How a server is checked.
struct Check<'a> {
    request: &'a str,
    token: &'a str,
    database: &'a str,
    /// The table and the column that have the `{{uuid}}` of each effect.
    effects: &'a str,
}

impl Check<'_> {
    /// Returns what is found of each promise.
    async fn run(&self, server: &Server, also: &Server, method: &str, more: &[&str]) -> Vec<Value> {
        let Self { request, token, database, effects } = self;
        let count = format!("psql -qtAX '{database}' -c \"SELECT count(*) FROM {effects} = '$CHECK_UUID'\"");
        let mut command = Command::new(binary("tonic-idempotency", ""));
        command.args(["check", &server.url(), method, "--request", request, "--count", &count]);
        command.args(["--header", &format!("authorization: Bearer {token}"), "--also", &also.url()]);
        command.args(["--restart", &server.restart(), "--yes", "--json"]).args(more);
        let Output { stdout, stderr, .. } = command.output().await.expect("the program runs");
        let lines = String::from_utf8(stdout).expect("text");
        let found: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert!(!found.is_empty(), "{}", String::from_utf8_lossy(&stderr));
        found
    }
}

/// Writes down what was found of a server.
fn section(name: &str, level: &str, found: &[Value]) -> String {
    let text = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
    let entries = found.iter().filter(|line| line.get("code").is_some());
    let (ok, rest): (Vec<_>, Vec<_>) = entries.partition(|line| line["verdict"] == "ok");
    let mut section = format!(
        "\n## {name}\n\nLevel `{level}`: {} promises are kept.\n\n| | promise | verdict | |\n|---|---|---|---|\n",
        ok.len()
    );
    for line in rest {
        // What it was this time is left out: a number of seconds, or of effects.
        let detail = text(line, "detail").split(": ").next().unwrap_or_default().to_owned();
        let verdict = text(line, "verdict").replace('_', " ");
        let _ = writeln!(section, "| {} | {} | {verdict} | {detail} |", text(line, "code"), text(line, "promise"));
    }
    section
}
