//! A Vault that is away: calls are refused and may be retried, and nothing counts as destroyed.

use std::{error::Error, time::Duration};

use tcp_proxy::Proxy;
use tokio::time::Instant;
use tonic_idempotency::{
    Caller,
    seal::{Key, KeyRing as _},
};
use tonic_idempotency_vault::{VaultKeys, vaultrs::sys};

use crate::{
    engine::{Engine, caller, current, keys, settings},
    server::{ROOT, Server},
};

/// How long the layer waits for keys.
const LAYER: Duration = Duration::from_secs(5);

type Refusal = Box<dyn Error + Send + Sync>;

/// Asserts that all that is asked for is away, in time, and returns the texts of the errors.
async fn assert_away(keys: &VaultKeys, caller: &Caller, key: &Key) -> String {
    let asked = Instant::now();
    let (current, named, hashes) =
        tokio::join!(keys.current(Some(caller)), keys.named(caller, key.id()), keys.hash_keys());
    assert!(asked.elapsed() < LAYER, "{:?}", asked.elapsed());
    let errors: [Refusal; 3] = [current.expect_err("no key"), named.expect_err("no key"), hashes.expect_err("no key")];
    errors.map(|error| error.to_string()).join("\n")
}

#[tokio::test]
async fn without_a_server_or_an_answer() {
    let Some(engine) = Engine::new().await else { return };
    let (acme, proxy) = (caller("acme"), Proxy::start(engine.address).expect("a proxy"));
    let key = current(&engine.keys(), &acme).await;
    let keys = engine.keys_at(proxy.address(), ROOT);

    proxy.cut();
    assert_away(&keys, &acme, &key).await;
    proxy.mend();
    assert!(keys.named(&acme, key.id()).await.expect("Vault answers").is_some());

    let keys = engine.keys_at(proxy.address(), ROOT);
    proxy.hold();
    let errors = assert_away(&keys, &acme, &key).await;
    assert!(errors.contains("no answer came within 4s"), "{errors}");
    proxy.release();
    assert!(keys.named(&acme, key.id()).await.expect("Vault answers").is_some());
}

#[tokio::test]
async fn while_it_is_sealed() {
    let Some(server) = Server::start(&[]) else { return };
    let engine = Engine::on(&server).await;
    let acme = caller("acme");
    let key = current(&engine.keys(), &acme).await;
    sys::seal(&engine.admin).await.expect("it is sealed");
    let errors = assert_away(&engine.keys(), &acme, &key).await;
    assert!(errors.contains("it answered 503: "), "{errors}");
}

#[tokio::test]
async fn without_the_engine_or_the_right_until_the_token_is_replaced() {
    let Some(engine) = Engine::new().await else { return };
    let acme = caller("acme");
    let key = current(&engine.keys(), &acme).await;
    let elsewhere = keys(settings(engine.address, ROOT), "tests/none");
    let errors = assert_away(&elsewhere, &acme, &key).await;
    assert!(errors.contains("it answered 404: "), "{errors}");

    let keys = engine.keys_at(engine.address, "s.expired");
    let errors = assert_away(&keys, &acme, &key).await;
    assert!(errors.contains("it answered 403: permission denied"), "{errors}");
    keys.set_token(ROOT).expect("a token");
    assert!(keys.named(&acme, key.id()).await.expect("Vault answers").is_some());
}

/// Something else answers, such as a proxy whose server is gone.
#[tokio::test]
async fn where_no_vault_answers() {
    let Some(engine) = Engine::new().await else { return };
    let acme = caller("acme");
    let key = current(&engine.keys(), &acme).await;
    for (status, body) in
        [("502 Bad Gateway", "gone"), ("400 Bad Request", "encryption key not found"), ("200 OK", "{}")]
    {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len());
        let proxy = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let answer = answer.clone();
                tokio::spawn(async move {
                    let mut request = [0; 4096];
                    let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut request).await;
                    let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, answer.as_bytes()).await;
                });
            }
        });
        assert_away(&engine.keys_at(address, ROOT), &acme, &key).await;
        proxy.abort();
    }
}
