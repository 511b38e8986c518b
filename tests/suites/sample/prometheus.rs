//! Prometheus scrapes the sample, loads the rules, and fires one.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use serde_json::Value;
use tonic_idempotency_tests::rules::{FILE, rules};
use uuid::Uuid;

use super::{
    alerts::{forbid, until},
    subject::Sample,
};

/// A running Prometheus with the rules, which asks a server every second.
#[derive(Debug)]
struct Prometheus {
    child: Child,
    directory: PathBuf,
    address: SocketAddr,
}

impl Prometheus {
    /// `None` if it is missing and the test is skipped.
    async fn start(server: SocketAddr) -> Option<Self> {
        if Command::new("prometheus").arg("--version").output().is_err() {
            scratch_postgres::skip("prometheus", "it is not on PATH: apt install prometheus");
            return None;
        }
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(Uuid::new_v4().to_string());
        fs::create_dir_all(&directory).expect("a directory");
        let config = format!(
            "global: {{ scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }}\nrule_files: [alerts.yml]\n\
             scrape_configs: [{{ job_name: sample, static_configs: [{{ targets: ['{server}'] }}] }}]\n"
        );
        fs::write(directory.join("prometheus.yml"), config).expect("a file");
        fs::write(directory.join("alerts.yml"), FILE).expect("a file");
        let log = File::create(directory.join("log")).expect("a log file");
        let child = Command::new("prometheus")
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:0"])
            .current_dir(&directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("it starts");
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut this = Self { child, directory, address: unknown };
        until("Prometheus listens", async || this.listens_at().is_some()).await;
        this.address = this.listens_at().expect("an address");
        Some(this)
    }

    fn listens_at(&self) -> Option<SocketAddr> {
        let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
        let line = log.lines().find(|line| line.contains("msg=\"Listening on\""))?;
        line.split("address=").nth(1)?.split_whitespace().next()?.parse().ok()
    }

    /// The data of an answer of its API.
    async fn ask(&self, path: &str) -> Value {
        let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
        let url = format!("http://{}{path}", self.address).parse().expect("a URL");
        let Ok(answer) = client.get(url).await else { return Value::Null };
        let json = answer.into_body().collect().await.expect("an answer").to_bytes();
        serde_json::from_slice::<Value>(&json).unwrap_or_default()["data"].take()
    }

    /// The alerts that fire.
    async fn firing(&self) -> Vec<String> {
        let alerts = self.ask("/api/v1/alerts").await;
        let alerts = alerts["alerts"].as_array().into_iter().flatten().filter(|alert| alert["state"] == "firing");
        alerts.filter_map(|alert| alert["labels"]["alertname"].as_str().map(str::to_owned)).collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[tokio::test]
async fn loads_the_rules_and_fires_the_one_whose_fault_happens() {
    let Some(sample) = Sample::start(&[]).await else { return };
    let Some(prometheus) = Prometheus::start(sample.ready.address).await else { return };
    let loaded = async || {
        let groups = prometheus.ask("/api/v1/rules").await;
        let loaded = groups["groups"][0]["rules"].as_array().cloned().unwrap_or_default();
        loaded.iter().filter(|rule| rule["health"] == "ok").count()
    };
    until("it has evaluated all rules", async || loaded().await == rules().len()).await;
    sample.as_alice(sample.create_project("shop").key(Uuid::new_v4())).await.succeeded();
    let first_calls = "/api/v1/query?query=sum(idempotency_calls_total)";
    until("it has seen the call", async || prometheus.ask(first_calls).await["result"][0]["value"][1] == "1").await;
    assert_eq!(prometheus.firing().await, [] as [&str; 0], "a healthy call");

    forbid(&sample).await;
    until("the rule fires", async || prometheus.firing().await == ["IdempotencyStoreFails"]).await;
}
