//! The rights that a token needs, TLS, and what is logged.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, PoisonError},
};

use tonic_idempotency::seal::KeyRing as _;
use tonic_idempotency_vault::{
    VaultKeys,
    vaultrs::{
        api::token::requests::CreateTokenRequest,
        client::VaultClient,
        sys::policy,
        token,
        transit::{data, key},
    },
};
use tracing_subscriber::fmt::MakeWriter;

use crate::{
    engine::{Engine, caller, current, reopened, settings},
    server::{ROOT, Server},
};

/// The policy that the documentation shows.
const POLICY: &str = include_str!("../../../crates/tonic-idempotency-vault/src/policy.hcl");

/// A token that has this policy for an engine.
async fn token(engine: &Engine) -> String {
    let name = engine.mount.replace('/', "-");
    let of_engine = POLICY.replace("transit/", &format!("{}/", engine.mount));
    policy::set(&engine.admin, &name, &of_engine).await.expect("the policy is set");
    let mut request = CreateTokenRequest::builder();
    request.policies(vec![name]).no_default_policy(true);
    token::new(&engine.admin, Some(&mut request)).await.expect("a token").client_token
}

#[tokio::test]
async fn the_policy_suffices_and_destroys_nothing() {
    let Some(engine) = Engine::new().await else { return };
    let (acme, token) = (caller("acme"), token(&engine).await);
    let keys = engine.keys_at(engine.address, &token);
    let made = current(&keys, &acme).await;
    assert!(engine.keys_at(engine.address, &token).named(&acme, made.id()).await.expect("a right").is_some());
    engine
        .rotate(&{
            keys.hash_keys().await.expect("a right");
            "idempotency-hashes".to_owned()
        })
        .await;
    engine.keys_at(engine.address, &token).hash_keys().await.expect("a right");

    let server = VaultClient::new(settings(engine.address, &token)).expect("a client");
    let name = keys.key_name(acme.scope.as_ref());
    for refused in [
        key::update(&server, &engine.mount, &name, None).await,
        key::delete(&server, &engine.mount, &name).await,
        key::rotate(&server, &engine.mount, &name).await,
        key::read(&server, &engine.mount, &name).await.map(drop),
        key::backup(&server, &engine.mount, &name).await.map(drop),
    ] {
        assert!(format!("{refused:?}").contains("403"), "{refused:?}");
    }
}

#[tokio::test]
async fn are_in_no_log_and_no_debug() {
    let Some(engine) = Engine::new().await else { return };
    let (acme, token, log) = (caller("acme"), token(&engine).await, Log::default());
    // For all threads: what another test does to one of its own would be missed here.
    tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone()).init();
    tracing::error!("the log works: {}", engine.mount);
    let keys = engine.keys_at(engine.address, &token);
    let made = current(&keys, &acme).await;
    let opened = engine.keys_at(engine.address, &token).named(&acme, made.id()).await;
    let hashes = keys.hash_keys().await;
    let refused = engine.keys_at(engine.address, "s.expired").hash_keys().await;
    let logged = log.text();
    let builder = VaultKeys::builder(settings(engine.address, &token));
    let shown = format!("{keys:?} {builder:?} {made:?} {opened:?} {hashes:?} {refused:?}");

    let id = std::str::from_utf8(made.id()).expect("a text");
    let name = keys.key_name(acme.scope.as_ref());
    let plaintext = data::decrypt(&engine.admin, &engine.mount, &name, id, None).await.expect("it opens").plaintext;
    for text in [&logged, &shown] {
        for secret in [&*token, &*plaintext, "s.expired"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
    // A transit key that is made on first use is no error.
    let of_engine = logged.lines().filter(|line| line.contains(&engine.mount));
    let errors: Vec<_> = of_engine.filter(|line| line.contains("ERROR")).collect();
    assert!(matches!(&*errors, [line] if line.contains("the log works")), "{errors:#?}");
}

#[tokio::test]
async fn travel_under_tls() {
    let Some(server) = Server::start(&["-dev-tls"]) else { return };
    let mut client = settings(server.address, ROOT);
    client.address = format!("https://{}", server.address).parse().expect("an address");
    client.ca_certs = vec![server.certificate().await];
    let engine = Engine::with(server.address, client.clone()).await;
    let (acme, keys) = (caller("acme"), engine.keys());
    let made = current(&keys, &acme).await;
    assert!(reopened(&engine, &acme, &made).await.is_some());

    client.ca_certs.clear();
    let error = VaultKeys::builder(client).build().expect("keys").hash_keys().await.expect_err("an unknown authority");
    assert!(error.to_string().contains("certificate"), "{error}");
}

/// Takes what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
