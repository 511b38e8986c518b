//! The program on Redis: it looks, and says what it cannot do.

use std::{
    process::{Command, Output},
    time::Duration,
};

use scratch_postgres::skip;
use scratch_redis::Server;
use tonic_idempotency::{
    Caller, IdempotencyKey, Scope, UserId,
    policy::{EffectPolicy, ForeignPolicy, KeyFormat, LeasePolicy},
    store::{CallSession, Claim, Completion, RequestHash, Reservation, Store as _, StoredResponse},
};
use tonic_idempotency_redis::{RedisStore, redis::Client};

const HOUR: Duration = Duration::from_secs(3600);

const KEY: [&str; 5] = ["order-17", "--user", "alice", "--scope", "acme"];

fn start(configuration: &[&str]) -> Option<Server> {
    if let Some(why) = scratch_redis::missing() {
        skip("redis", why);
        return None;
    }
    Some(Server::start(configuration).expect("a server"))
}

/// Runs the program, and returns what it says with its exit status.
fn run(url: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let program = env!("CARGO_BIN_EXE_tonic-idempotency");
    let output = Command::new(program).args(arguments).env("DATABASE_URL", url).output().expect("the program runs");
    let Output { status, stdout, stderr } = output;
    (status.code(), [stdout, stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat())
}

fn claim() -> Claim {
    let caller = Caller::new(UserId::from_text("alice").expect("a user"));
    let owner = caller.in_scope(Scope::from_text("acme").expect("a scope")).owner();
    let key = IdempotencyKey::new("order-17", KeyFormat::Any).expect("a key").id();
    Claim {
        reservation: Reservation::new(owner, key),
        session: CallSession { user: None, settings: None },
        procedure: "/a.B/C".to_owned(),
        request: RequestHash::from([7; 32]).into(),
        lease: HOUR,
        retention: HOUR,
        on_lease_ended: LeasePolicy::Rerun,
        on_foreign_reservation: ForeignPolicy::InProgress,
        effect: EffectPolicy::Anywhere,
        resource_type: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn shows_the_state_of_a_key() {
    let Some(server) = start(&[]) else { return };
    let inspect = || run(&server.url(), &[&["inspect"], &KEY[..]].concat());
    let (status, said) = inspect();
    assert!(status == Some(0) && said.starts_with("absent"), "{said}");
    let (store, claim) = (RedisStore::single(Client::open(server.url()).expect("a client")), claim());
    store.claim(&claim).await.expect("the store answers");
    let (status, said) = inspect();
    assert!(status == Some(0) && said.starts_with("running") && said.contains("nothing frees a key"), "{said}");
    let completion = Completion { response: StoredResponse::message("sesame"), resource: None, retention: HOUR };
    store.complete(&claim.reservation, &completion).await.expect("the store answers");
    let (status, said) = inspect();
    assert!(status == Some(0) && said.starts_with("completed: ") && said.contains("59m"), "{said}");
    let (_, json) = run(&server.url(), &[&["inspect"], &KEY[..], &["--json"]].concat());
    assert!(json.contains("\"state\":\"completed\"") && !json.contains("sesame"), "{json}");
}

#[test]
fn says_what_is_wrong_and_what_it_cannot_do() {
    let Some(server) = start(&[]) else { return };
    assert_eq!(run(&server.url(), &["doctor"]).0, Some(0));
    server.ask(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let (status, said) = run(&server.url(), &["doctor"]);
    assert!(status == Some(1) && said.contains("allkeys-lru") && said.contains("set it to noeviction"), "{said}");
    for arguments in
        [&["list"][..], &["status"], &["sweep"], &["release", "k", "--user", "u", "--token", "none", "--reason", "r"]]
    {
        let (status, said) = run(&server.url(), arguments);
        assert!(status == Some(2) && said.contains("docs/redis.md"), "{arguments:?}: {said}");
    }
    let (status, said) = run("redis://:hidden@127.0.0.1:1/", &["doctor"]);
    assert!(status == Some(3) && !said.contains("hidden"), "{said}");
}
