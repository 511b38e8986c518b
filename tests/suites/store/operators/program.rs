//! The program `tonic-idempotency` in the hands of an operator, who has no right on a table.

use std::process::{Output, Stdio};

use tokio::{io::AsyncWriteExt as _, process::Command};
use tonic_idempotency::KeyId;

use super::operated::{Operated, texts};
use crate::prelude::*;

/// In a response that no command may show, and the password of the address.
const HIDDEN: &str = "sesame-4711";

impl Operated {
    /// The address of the database with the role of the operator.
    pub(super) fn address_of(&self, role: &str) -> String {
        let (_, rest) = self.database.url().split_once('@').expect("a user");
        let password = self.database.url().parse::<Config>().expect("an address").get_password().map(<[u8]>::to_vec);
        let password = String::from_utf8(password.unwrap_or_else(|| HIDDEN.into())).expect("a password");
        format!("postgres://{role}:{password}@{rest}")
    }

    pub(super) async fn run(&self, arguments: &[&str]) -> Output {
        run(&self.address_of(OPERATOR), arguments, "").await
    }
}

/// Runs the program at an address, with this input.
async fn run(address: &str, arguments: &[&str], input: &str) -> Output {
    let program = tonic_idempotency_tests::binary("tonic-idempotency", "");
    let mut command = Command::new(program);
    command.args(arguments).env("DATABASE_URL", address).env_remove("PGPASSWORD");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().expect("the program runs");
    let mut stdin = child.stdin.take().expect("its input");
    // It may end without having read it.
    drop(stdin.write_all(input.as_bytes()).await);
    drop(stdin);
    let output = child.wait_with_output().await.expect("the program ends");
    for said in [&output.stdout, &output.stderr] {
        let said = String::from_utf8_lossy(said);
        assert!(!said.contains(HIDDEN) && !said.contains('\u{1b}'), "{said}");
    }
    output
}

/// The standard output of a run with this exit status.
fn said(output: &Output, status: i32) -> String {
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said).into_owned());
    assert_eq!(output.status.code(), Some(status), "{stdout}\n{stderr}");
    if status == 0 { stdout } else { format!("{stdout}{stderr}") }
}

/// A reservation whose lease has ended.
fn left() -> Claim {
    Claim { lease: Duration::ZERO, ..any() }
}

#[tokio::test]
async fn finds_a_stuck_key_learns_why_and_releases_it() {
    let operated = Operated::new().await;
    let (stuck, reserved, done) = (left(), any(), any());
    acquire(&operated.store, &stuck).await;
    acquire(&operated.store, &reserved).await;
    complete(&operated.store, &done, &completion(HIDDEN)).await;

    let listed = said(&operated.run(&["list"]).await, 0);
    let lines: Vec<_> = listed.lines().collect();
    let [key, user] = texts(&stuck);
    assert!(lines[0].starts_with("STATE") && lines[1].starts_with("abandoned"), "{listed}");
    assert!(lines[1].contains(&key) && lines[1].ends_with(&user) && lines[1].contains(PROCEDURE), "{listed}");
    assert!(
        lines[2].starts_with("reserved") && lines[3].starts_with("2 keys of the last 24h; 3 records read"),
        "{listed}"
    );

    let inspected = said(&operated.run(&["inspect", &key, "--user", &user]).await, 0);
    let token = stuck.reservation.token;
    assert!(
        inspected.starts_with("abandoned: its lease ended ") && inspected.contains("on_lease_ended"),
        "{inspected}"
    );
    // What it says to do next can be done.
    let command = inspected.split_once("tonic-idempotency release ").expect("a command").1.replace('…', "'ticket 17'");
    let words = ["release"].into_iter().chain(command.split_whitespace()).collect::<Vec<_>>();
    let (words, _) = words.split_at(words.len() - 2);
    let released = said(&operated.run(&[words, &["ticket 17"]].concat()).await, 0);
    assert_eq!(released, format!("{key} released: a retry runs the handler\n"));
    assert!(command.contains(&token.to_string()));
    assert!(said(&operated.run(&["inspect", &key, "--user", &user]).await, 0).starts_with("absent"));
    acquire(&operated.store, &again(&stuck)).await;
    let audit = operated.audit().await;
    let note = audit.iter().find(|line| line.contains("release abandoned released ticket 17 (")).expect("a note");
    assert!(note.ends_with(')') && note.contains('@'), "{note}");

    let shown = said(&operated.run(&["inspect", &texts(&done)[0], "--user", &texts(&done)[1], "--json"]).await, 0);
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!((&shown["state"], &shown["procedure"]), (&"completed".into(), &PROCEDURE.into()));
    operated.drop_owner().await;
}

/// Nothing that was not seen is freed.
#[tokio::test]
async fn frees_no_key_that_is_not_as_it_was_seen() {
    let operated = Operated::new().await;
    let store = &operated.store;
    let [reserved, taken, done, running, foreign] = [any(), left(), any(), any(), any()];
    for claim in [&reserved, &taken, &foreign] {
        acquire(store, claim).await;
    }
    take_over(store, &again(&taken)).await;
    complete(store, &done, &completion(HIDDEN)).await;
    let go = "UPDATE tenant.idempotency_keys SET token = NULL, lease_expires = NULL WHERE idempotency_key = $1";
    operated.superuser.query_typed(go, &[(foreign.reservation.key.as_uuid(), Type::UUID)]).await.expect("Go's");
    let transaction = open_transaction(store, &running).await;
    let release = async |claim: &Claim, token: &str, more: &[&str]| {
        let [key, user] = texts(claim);
        let first = ["release", &key, "--user", &user, "--token", token, "--reason", "r"];
        operated.run(&[&first, more].concat()).await
    };
    let stopped = &["--call-is-stopped"][..];
    let token = |claim: &Claim| claim.reservation.token.to_string();
    let other = Uuid::new_v4().to_string();
    for (claim, token, more, expected) in [
        (&reserved, token(&reserved), &[][..], "--call-is-stopped"),
        (&reserved, other.clone(), stopped, "other_token"),
        (&reserved, "none".to_owned(), stopped, "other_token"),
        (&taken, token(&taken), stopped, "other_token"),
        (&done, token(&done), stopped, "completed"),
        (&running, token(&running), stopped, "pg_terminate_backend("),
        (&foreign, "none".to_owned(), &[], "--call-is-stopped"),
    ] {
        let refused = said(&release(claim, &token, more).await, 1);
        assert!(refused.contains(expected) && refused.contains("nothing was released"), "{refused}");
    }
    assert_eq!(count(&operated.superuser, "tenant.idempotency_audit WHERE outcome = 'released'").await, 0);
    said(&release(&reserved, &token(&reserved), stopped).await, 0);
    said(&release(&foreign, "none", stopped).await, 0);
    said(&release(&foreign, "none", stopped).await, 0);
    transaction.roll_back().await;
    operated.drop_owner().await;
}

/// A person deletes the lines of those whose effect has happened.
#[tokio::test]
async fn frees_the_keys_of_a_file_and_a_second_run_does_no_harm() {
    let operated = Operated::new().await;
    let claims: Vec<_> = (0..5).map(|_| left()).collect();
    for claim in &claims {
        acquire(&operated.store, claim).await;
    }
    let listed = operated.run(&["list", "--json"]).await;
    assert!(String::from_utf8_lossy(&listed.stderr).starts_with("5 keys"));
    let listed = said(&listed, 0);
    // A retry has taken one over since, and one is left out.
    take_over(&operated.store, &again(&claims[2])).await;
    let lines: Vec<_> = listed.lines().skip(1).collect();
    let release = &["release", "--from", "-", "--reason", "r"];
    let address = operated.address_of(OPERATOR);
    let with_rubbish = format!("{}\n\nnonsense\n", lines.join("\n"));
    let refused = said(&run(&address, release, &with_rubbish).await, 2);
    assert!(refused.contains("line 6") && refused.contains("nothing was released"), "{refused}");
    let many = lines[0..1].repeat(1001).join("\n");
    assert!(said(&run(&address, release, &many).await, 2).contains("1001 keys"));
    assert_eq!(count(&operated.superuser, "tenant.idempotency_audit WHERE action = 'release'").await, 0);
    for (outcome, times) in [("released", 3), ("absent", 3)] {
        let freed = said(&run(&address, release, &lines.join("\n")).await, 1);
        assert_eq!(freed.matches(&format!(" {outcome}: ")).count(), times, "{freed}");
        assert!(freed.contains("other_token") && freed.contains("1 of 4 keys were not released"), "{freed}");
    }
    let kept = said(&operated.run(&["list", "--json"]).await, 0);
    assert_eq!(kept.lines().count(), 2, "{kept}");
    operated.drop_owner().await;
}

#[tokio::test]
async fn names_the_key_of_an_operation() {
    let operated = Operated::new().await;
    let id = Uuid::new_v4().to_string();
    let key = KeyId::of_operation("billing.v1/ChargeOrder", &id);
    let stuck = Claim { reservation: Reservation { key, ..left().reservation }, ..left() };
    acquire(&operated.store, &stuck).await;
    let user = &texts(&stuck)[1];
    let inspect = ["inspect", &id, "--user", user, "--operation", "billing.v1/ChargeOrder"];
    let inspected = said(&operated.run(&inspect).await, 0);
    assert!(
        inspected.starts_with("abandoned") && inspected.contains("--operation billing.v1/ChargeOrder"),
        "{inspected}"
    );
    operated.drop_owner().await;
}

#[tokio::test]
async fn shows_how_the_tables_are_and_sweeps_as_the_api() {
    let operated = Operated::new().await;
    for _ in 0..3 {
        let expired = Claim { retention: Duration::ZERO, ..left() };
        acquire(&operated.store, &expired).await;
    }
    let status = said(&operated.run(&["status"]).await, 0);
    for expected in ["migrations   V9 ", "expired      the oldest record waits", "sessions not seen: "] {
        assert!(status.contains(expected), "{status}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&said(&operated.run(&["status", "--json"]).await, 0)).expect("JSON");
    assert_eq!(json["migrations"][8], "V9 rights");
    let refused = said(&operated.run(&["sweep"]).await, 4);
    assert!(refused.contains("idempotency_grant("), "{refused}");
    let swept = said(&run(&operated.address_of(API_LOGIN), &["sweep"], "").await, 0);
    assert!(swept.starts_with("3 expired records deleted"), "{swept}");
    assert!(said(&operated.run(&["status"]).await, 0).contains("no record waits"));
    operated.drop_owner().await;
}

#[tokio::test]
async fn says_what_is_wrong_why_and_who_mends_it() {
    let operated = Operated::new().await;
    let well = said(&operated.run(&["doctor"]).await, 0);
    assert!(well.contains("ok        migrations") && well.contains("not seen  API"), "{well}");
    assert!(well.contains("not seen  transactions") && well.contains("needs pg_monitor"), "{well}");
    let of_api = said(&run(&operated.address_of(API_LOGIN), &["doctor"], "").await, 0);
    assert!(of_api.contains("ok        API") && of_api.contains("not seen  tables"), "{of_api}");

    let spoil = format!(
        "REVOKE EXECUTE ON ROUTINE tenant.idempotency_status FROM {API_ROLE};
         INSERT INTO tenant.idempotency_keys (idempotency_key, user_id, procedure, request_hash, response_bytes, token, expires)
         VALUES (gen_random_uuid(), gen_random_uuid(), '/a.B/C', '\\x07', '', gen_random_uuid(), now() - interval '9 hours')"
    );
    operated.superuser.batch_execute(&spoil).await.expect("faults");
    let of_tables = said(&operated.run(&["doctor"]).await, 1);
    assert!(
        of_tables.contains("found     sweep") && of_tables.contains("as the API's role: tonic-idempotency sweep"),
        "{of_tables}"
    );
    let of_api = run(&operated.address_of(API_LOGIN), &["doctor", "--json"], "").await;
    let lines = said(&of_api, 1);
    let found = lines.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let found: Vec<_> = found.filter(|finding| finding["verdict"] == "found").collect();
    let [finding] = &found[..] else { panic!("{lines}") };
    let text = |name: &str| finding[name].as_str().expect("a text").to_owned();
    assert!(text("reason").contains("idempotency_status") && text("cure").contains("migrations::grant"), "{finding}");
    assert_eq!(text("role"), "the owner of the tables");
    operated.drop_owner().await;
}

/// The exit status says what is wrong, and the message what to do.
#[tokio::test]
async fn says_what_is_missing() {
    let operated = Operated::new().await;
    let stranger = "idempotency_tests_stranger";
    operated.database.login(stranger).await;
    let empty = Database::empty().await;
    for (address, arguments, status, expected) in [
        (operated.address_of(stranger), &["list"][..], 4, "idempotency_grant_operator("),
        (operated.address_of(stranger), &["doctor"], 4, "idempotency_grant_operator("),
        (operated.address_of(API_LOGIN), &["list"], 4, "idempotency_grant_operator("),
        (empty.url().to_owned(), &["list"], 3, "is not migrated"),
        (operated.address_of(OPERATOR), &["list", "--schema", "elsewhere"], 3, "elsewhere is not migrated"),
        (operated.address_of(OPERATOR), &["list", "--schema", "a b"], 2, "--schema"),
        (operated.address_of("idempotency_tests_nobody"), &["list"], 2, "DATABASE_URL"),
        ("postgres://a@127.0.0.1:1/b".to_owned(), &["status"], 3, "cannot be asked"),
        ("postgres://a@h/b?sslmode=on".to_owned(), &["status"], 2, "sslmode"),
        (operated.address_of(OPERATOR), &["inspect", "k", "--user", ""], 0, "absent"),
        (operated.address_of(OPERATOR), &["release", "k", "--user", "u", "--reason", "r"], 2, "--token"),
        (
            operated.address_of(OPERATOR),
            &["release", "k", "--user", "u", "--token", "17", "--reason", "r"],
            2,
            "--token",
        ),
        (operated.address_of(OPERATOR), &["release", "--reason", "r"], 2, "--user"),
    ] {
        let answer = said(&run(&address, arguments, "").await, status);
        assert!(answer.contains(expected), "{arguments:?}: {answer}");
    }
    operated.drop_owner().await;
}

#[tokio::test]
async fn asks_behind_pgbouncer_and_not_where_nothing_can_be_noted() {
    if let Some(why) = PgBouncer::missing() {
        return skip("pgbouncer", why);
    }
    let operated = Operated::new().await;
    let stuck = left();
    acquire(&operated.store, &stuck).await;
    let bouncer = operated.database.behind_bouncer(&[]).await;
    // It logs in as the API.
    let grant = format!("SELECT tenant.idempotency_grant_operator('{API_LOGIN}')");
    operated.superuser.batch_execute(&grant).await.expect("the grant");
    for _ in 0..3 {
        let listed = said(&run(bouncer.url(), &["list"], "").await, 0);
        assert!(listed.starts_with("STATE"), "{listed}");
    }
    let read_only = format!("{}?options=-c%20default_transaction_read_only%3Don", operated.address_of(OPERATOR));
    assert!(said(&run(&read_only, &["list"], "").await, 3).contains("read-only"));
    assert!(said(&run(&read_only, &["status"], "").await, 0).starts_with("server"));
    operated.drop_owner().await;
}

/// `sslmode` and `sslrootcert` mean what they do to libpq.
#[tokio::test]
async fn verifies_the_servers_certificate() {
    let server = match Server::start_durable_with(&[]).await {
        Ok(server) => server,
        Err(error) => return skip("installed-postgres", error),
    };
    let database = Database::on(server.url()).await;
    let owner = database.owner().await;
    let signed = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    for (name, pem) in [("crt", signed.cert.pem()), ("key", signed.signing_key.serialize_pem())] {
        let write = format!(
            "DO $$ BEGIN EXECUTE format('COPY (SELECT unnest(string_to_array(%L, E''\\n''))) TO PROGRAM %L', '{pem}',
                                        'umask 077; cat > ' || current_setting('data_directory') || '/server.{name}'); END $$"
        );
        owner.batch_execute(&write).await.expect("a file");
    }
    owner.batch_execute("ALTER SYSTEM SET ssl = on").await.expect("a setting");
    owner.batch_execute("SELECT pg_reload_conf()").await.expect("a reload");
    let folder = tempfile::tempdir().expect("a folder");
    let roots = folder.path().join("root.pem");
    fs::write(&roots, signed.cert.pem()).expect("a file");
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let others = folder.path().join("other.pem");
    fs::write(&others, other.cert.pem()).expect("a file");
    let [roots, others] = [&roots, &others].map(|path| path.to_str().expect("UTF-8").replace('/', "%2F"));

    let on = |host: &str, parameters: &str| {
        let url = database.url().replace("127.0.0.1", host);
        format!("{url}{}{parameters}", if url.contains('?') { '&' } else { '?' })
    };
    until("it has the certificate", async || {
        run(&on("127.0.0.1", "sslmode=require"), &["status"], "").await.status.success()
    })
    .await;
    for (host, parameters, status, expected) in [
        ("127.0.0.1", "sslmode=disable", 0, "server"),
        ("127.0.0.1", &*format!("sslmode=verify-ca&sslrootcert={roots}"), 0, "server"),
        ("127.0.0.1", &*format!("sslmode=require&sslrootcert={others}"), 3, "certificate"),
        ("127.0.0.1", &*format!("sslmode=verify-ca&sslrootcert={others}"), 3, "certificate"),
        ("127.0.0.1", "sslmode=verify-full", 3, "certificate"),
        ("127.0.0.1", &*format!("sslmode=verify-full&sslrootcert={roots}"), 3, "certificate"),
        ("localhost", &*format!("sslmode=verify-full&sslrootcert={roots}"), 0, "server"),
        ("127.0.0.1", "sslmode=verify-full&sslrootcert=/none", 2, "/none"),
    ] {
        let answer = said(&run(&on(host, parameters), &["status"], "").await, status);
        assert!(answer.contains(expected), "{parameters}: {answer}");
    }
}
