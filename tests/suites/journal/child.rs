//! The other process of a test: this program again, with a role from its environment.

use std::{
    env,
    io::{self, Write as _},
    net::SocketAddr,
    process::Stdio,
    thread,
};

use http::Request;
use tonic::{body::Body, transport::Endpoint};
use tonic_idempotency_client::journal::{JournalStore, RedbStore};

use super::prelude::*;
use super::{
    foreign::Foreign,
    harness::{Setup, kept, keyed, layer},
};

const FILE: &str = "JOURNAL_TEST_FILE";
const ROLE: &str = "JOURNAL_TEST_ROLE";
const SERVER: &str = "JOURNAL_TEST_SERVER";
const STEP: &str = "JOURNAL_TEST_STEP";
const USER: &str = "JOURNAL_TEST_USER";

/// The record of an owner, and its number.
pub(crate) const OWNED: &str = "owned";
pub(crate) const OWNED_ID: u64 = 1_000_000;

/// Marks the start of a line of the other process, wherever the test harness has put it.
const SAYS: &str = "says: ";

/// The command of a process with this role and journal.
pub(crate) fn command(role: &str, file: &Path) -> Command {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command.args(["--exact", "journal::child::plays_its_role", "--nocapture"]).env(ROLE, role).env(FILE, file);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// A file that takes space on the disk of a journal.
pub(crate) fn beside(file: &Path) -> PathBuf {
    file.with_extension("space")
}

/// The command of a client's process that calls, or resumes, and dies at this step.
pub(crate) fn client(role: &str, file: &Path, server: SocketAddr, user: Uuid, step: &str) -> Command {
    let mut command = command(role, file);
    command.env(SERVER, server.to_string()).env(USER, user.to_string()).env(STEP, step);
    command
}

/// Returns the text after the mark, if it is a line of the other process.
pub(crate) fn said(line: &str) -> Option<&str> {
    Some(line.split_once(SAYS)?.1)
}

#[tokio::test]
async fn plays_its_role() {
    let Ok(role) = env::var(ROLE) else { return };
    let file = variable(FILE);
    match role.as_str() {
        "call" => call(&file).await,
        "fill" => drop(fill(&file).await),
        "fill_and_resume" => fill_and_resume(&file).await,
        "open" => say(Journal::open(file).err().map(|error| error.to_string()).unwrap_or_default()),
        "own_each" => own_each(),
        "resume" => resume(&file).await,
        other => panic!("no such role: {other}"),
    }
}

fn variable(name: &str) -> String {
    env::var(name).expect("the parent has set it")
}

#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn say(text: impl AsRef<str>) {
    println!("{SAYS}{}", text.as_ref());
}

/// Dies as in a power failure.
fn die() -> ! {
    Command::new("kill").args(["-9", &std::process::id().to_string()]).status().expect("kill");
    loop {
        thread::park();
    }
}

fn die_at(step: &str) {
    if env::var(STEP).is_ok_and(|wanted| wanted == step) {
        die();
    }
}

/// A store that dies around its commits.
struct Mortal(RedbStore);

impl JournalStore for Mortal {
    fn commit(&self, changes: &[Change]) -> Result<(), JournalError> {
        let [before, after] = match changes {
            [Change::Put { .. }, ..] => ["before_write", "after_write"],
            _ => ["before_end", "after_end"],
        };
        die_at(before);
        self.0.commit(changes)?;
        die_at(after);
        Ok(())
    }

    fn ids(&self) -> Result<Vec<u64>, JournalError> {
        self.0.ids()
    }

    fn read(&self, id: u64) -> Result<Option<Bytes>, JournalError> {
        self.0.read(id)
    }
}

/// The service of a client of the parent's server, which dies around a call.
fn service()
-> impl tower::Service<Request<Body>, Response = http::Response<Body>, Error = tonic::transport::Error, Future: Send>
+ Clone
+ Send
+ Sync
+ 'static {
    let endpoint = Endpoint::new(format!("http://{}", variable(SERVER))).expect("an address");
    let channel = endpoint.connect_lazy();
    tower::service_fn(move |mut request: Request<Body>| {
        let channel = channel.clone();
        request.headers_mut().insert("user", variable(USER).parse().expect("a header"));
        async move {
            die_at("before_send");
            let response = tower::ServiceExt::oneshot(channel, request).await;
            die_at("after_answer");
            response
        }
    })
}

fn mortal(file: &str) -> Journal {
    Journal::builder().store(Mortal(RedbStore::open(file).expect("a file"))).expect("a journal")
}

async fn call(file: &str) {
    let journal = mortal(file);
    let mut client = ShopClient::new(layer(&journal, |layer| layer).layer(service()));
    let name = if env::var(STEP).is_ok_and(|step| step == "in_handler") { "hold" } else { "shop" };
    client.create_order(super::foreign::order(name)).await.expect("an order");
    drop((client, journal));
    say("answered");
}

async fn resume(file: &str) {
    let journal = mortal(file);
    let resumed = journal.resume(layer(&journal, |layer| layer).layer(service())).await;
    for resumed in resumed {
        say(format!("{:?}", resumed.outcome));
    }
}

/// Opens each journal that the parent names, writes a record, and keeps it until the parent names the next.
fn own_each() {
    let mut held = None;
    for file in io::stdin().lines() {
        drop(held.take());
        match RedbStore::open(file.expect("text")) {
            Ok(store) => {
                let record = Bytes::from_static(OWNED.as_bytes());
                store.commit(&[Change::Put { id: OWNED_ID, record }]).expect("a commit");
                held = Some(store);
                say(OWNED);
            }
            Err(error) => say(error.to_string()),
        }
    }
}

/// Writes entries until there is no space, not even for a page, and sends them.
async fn fill_and_resume(file: &str) {
    let setup = fill(file).await;
    let mut rest = fs::File::create(beside(Path::new(file))).expect("a file");
    while rest.write_all(&[7; 512]).is_ok() {}
    let left = setup.keys().await.len();
    let resumed = setup.journal.resume(setup.service.clone()).await;
    let answered = resumed.iter().filter(|it| matches!(it.outcome, EntryOutcome::Answered(_))).count();
    assert!(left > 5 && answered == left, "{answered} of {left} are answered: {:?}", resumed.last());
    assert!(setup.keys().await.is_empty());
}

/// Writes entries until there is no space, and prints the error of the call that is not sent. Then removes the file beside the journal, if
/// there is one, and goes on.
async fn fill(file: &str) -> Setup {
    let server = Foreign::default();
    let mut setup = Setup::with(server, Journal::open(file).expect("a journal"), |layer| layer.max_attempts(1)).await;
    let mut written = Vec::new();
    let large = |number: usize| {
        keyed("shop", &format!("k-{number}")).map(|order| CreateOrderRequest { padding: vec![7; 64 << 10], ..order })
    };
    let full = loop {
        setup.server.fails([Status::unavailable("away")]);
        let failed = setup.client.create_order(large(written.len())).await.expect_err("the server is away");
        let Some(key) = kept(&failed) else { break failed };
        written.push(key);
    };
    assert_eq!(full.code(), Code::ResourceExhausted, "{full:?}");
    assert_eq!(setup.server.seen().len(), written.len(), "the last one was not sent");
    say(full.message());
    if fs::remove_file(beside(Path::new(file))).is_ok() {
        let failed = setup.client.create_order(large(written.len())).await.expect_err("the server is away");
        written.push(kept(&failed).expect("there is space again"));
    }
    for key in written {
        say(key.to_string());
    }
    setup.server.clear();
    setup
}
