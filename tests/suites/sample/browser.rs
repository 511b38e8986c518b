//! The playground in a real browser, driven by the scripts in `tests/suites/sample/browser/`.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use scratch_postgres::TestDatabase;
use tokio::{process::Command, time::timeout};
use tokio_postgres::Client;

use super::process::{Process, Ready};

/// The time that a script may take. Its own waits are bounded, too.
const PATIENCE: Duration = Duration::from_secs(240);

/// The folder of the screenshots.
const SCREENSHOTS: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/playground");

/// The folder of the README's pictures.
const PICTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");

/// The programs that drive the page: node, playwright-core and chromium.
#[derive(Debug)]
struct Browser {
    chromium: PathBuf,
    node: PathBuf,
    scripts: PathBuf,
}

impl Browser {
    /// `None` if one of the three is missing; the test is then reported as skipped.
    fn find() -> Option<Self> {
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites/sample/browser");
        let Some(node) = on_path(&["node"]) else {
            scratch_postgres::skip("browser", "node is not on PATH");
            return None;
        };
        let Some(chromium) = on_path(&["chromium", "chromium-browser", "google-chrome"]) else {
            scratch_postgres::skip("browser", "chromium is not on PATH: apt-get install chromium");
            return None;
        };
        if !Path::new(env!("CARGO_MANIFEST_DIR")).join("node_modules/playwright-core").is_dir() {
            scratch_postgres::skip("browser", "playwright-core is not installed: npm ci --prefix tests");
            return None;
        }
        Some(Self { chromium, node, scripts })
    }

    /// Runs a script of `tests/suites/sample/browser/` against the page of a sample.
    async fn run(&self, scenario: &str, ready: &Ready) {
        let mut command = Command::new(&self.node);
        command
            .arg("run.mjs")
            .arg(scenario)
            .arg(format!("http://{}/", ready.address))
            .arg(SCREENSHOTS)
            .env("CHROMIUM", &self.chromium)
            .current_dir(&self.scripts)
            .kill_on_drop(true);
        let output = timeout(PATIENCE, command.output()).await.expect("the script ends").expect("node runs");
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{scenario}: {}", String::from_utf8_lossy(&said));
    }
}

/// The sample on a new database, with outbox work that takes a second.
struct Site {
    _process: Process,
    ready: Ready,
    client: Client,
    /// The last field, so that it is dropped after the process that uses it.
    _database: TestDatabase,
}

impl Site {
    async fn start() -> Self {
        let database = scratch_postgres::database(None).await;
        let flags = ["--listen", "127.0.0.1:0", "--outbox-delay", "1s"];
        let mut process = Process::spawn(Some(database.url()), &flags);
        let ready = process.ready().await;
        let client = database.connect().await;
        Self { _process: process, ready, client, _database: database }
    }

    async fn count(&self, table: &str) -> i64 {
        let row = self.client.query_one(&format!("SELECT count(*) FROM {table}"), &[]).await;
        row.and_then(|row| row.try_get(0)).expect("a count")
    }
}

fn on_path(names: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let directories: Vec<_> = env::split_paths(&path).collect();
    let candidates = names.iter().flat_map(|name| directories.iter().map(move |directory| directory.join(name)));
    candidates.into_iter().find(|program| program.is_file())
}

#[tokio::test]
async fn the_page_shows_the_life_of_a_key() {
    let Some(browser) = Browser::find() else { return };
    let site = Site::start().await;
    browser.run("life", &site.ready).await;
    // Projects: alice's, bob's with the same key, one of twenty at once, and the one whose work fails.
    assert_eq!(site.count("tenant.projects").await, 4);
    assert_eq!(site.count("tenant.clusters").await, 1);
}

#[tokio::test]
async fn the_page_works_without_a_mouse() {
    let Some(browser) = Browser::find() else { return };
    let site = Site::start().await;
    browser.run("keyboard", &site.ready).await;
    assert_eq!(site.count("tenant.projects").await, 3);
}

#[tokio::test]
async fn the_page_advises_a_retry_after_a_lost_answer() {
    let Some(browser) = Browser::find() else { return };
    let site = Site::start().await;
    browser.run("trouble", &site.ready).await;
    assert_eq!(site.count("tenant.projects").await, 4);
}

#[tokio::test]
async fn the_page_sends_a_call_again_whose_answer_the_sample_loses() {
    let Some(browser) = Browser::find() else { return };
    let site = Site::start().await;
    browser.run("lost", &site.ready).await;
    assert_eq!(site.count("tenant.projects").await, 3);
}

#[tokio::test]
async fn the_page_shows_a_call_while_it_runs() {
    let Some(browser) = Browser::find() else { return };
    let site = Site::start().await;
    browser.run("running", &site.ready).await;
    assert_eq!(site.count("tenant.projects").await, 1);
}

#[tokio::test]
async fn the_page_has_the_diagram_next_to_its_buttons_and_details_below_their_call_on_a_phone() {
    let Some(browser) = Browser::find() else { return };
    let site = Site::start().await;
    browser.run("narrow", &site.ready).await;
}

#[tokio::test]
async fn the_page_has_a_light_and_a_dark_theme_and_fits_a_phone() {
    let Some(browser) = Browser::find() else { return };
    let site = Site::start().await;
    browser.run("looks", &site.ready).await;
    if env::var_os("IDEMPOTENCY_TEST_WRITE_PICTURES").is_some() {
        for theme in ["dark", "light"] {
            let picture = format!("{PICTURES}/playground-{theme}.png");
            fs::copy(format!("{SCREENSHOTS}/{theme}.png"), picture).expect("a picture of the README");
        }
    }
}

#[tokio::test]
async fn a_page_of_another_origin_can_call_and_read_the_status_of_its_key() {
    let Some(browser) = Browser::find() else { return };
    let site = Site::start().await;
    browser.run("origin", &site.ready).await;
    assert_eq!(site.count("tenant.projects").await, 1);
}
