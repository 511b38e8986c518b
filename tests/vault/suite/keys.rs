//! The keys of records.

use tcp_proxy::Proxy;
use tokio::task::JoinSet;
use tonic_idempotency::{
    Caller, UserId,
    seal::{Key, KeyRing as _, StaticKeys},
};
use tonic_idempotency_vault::{VaultKeys, VaultSetupError};
use uuid::Uuid;

use crate::{
    engine::{Engine, caller, current, keys, pass_time, reopened, settings},
    server::ROOT,
};

#[tokio::test]
async fn are_made_on_first_use_and_asked_for_once_by_many() {
    let Some(engine) = Engine::new().await else { return };
    let (acme, proxy) = (caller("acme"), Proxy::start(engine.address).expect("a proxy"));
    let keys = engine.keys_at(proxy.address(), ROOT);
    let name = keys.key_name(acme.scope.as_ref());
    assert!(!engine.has(&name).await);

    let mut calls = JoinSet::new();
    for _ in 0..50 {
        let (keys, acme) = (keys.clone(), acme.clone());
        calls.spawn(async move { current(&keys, &acme).await.id().to_vec() });
    }
    let mut ids = calls.join_all().await;
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert!(ids[0].starts_with(b"vault:v1:") && ids[0].len() == 89, "{ids:?}");
    assert!(engine.has(&name).await);
    // There is no key; it is made; it makes a data key.
    assert_eq!(proxy.round_trips(), 3);

    // A replay of a record that was made just now asks nothing, and another server's replays ask once.
    let key = keys.named(&acme, &ids[0]).await.expect("it is kept").expect("a key");
    assert_eq!(proxy.round_trips(), 3);
    let other = engine.keys_at(proxy.address(), ROOT);
    for _ in 0..3 {
        let opened = other.named(&acme, &ids[0]).await.expect("Vault answers").expect("a key");
        assert_eq!(opened.tag(&[b"a"]), key.tag(&[b"a"]));
    }
    assert_eq!(proxy.round_trips(), 4);
}

#[tokio::test]
async fn are_forgotten_after_five_minutes() {
    let Some(engine) = Engine::new().await else { return };
    let (keys, acme) = (engine.keys(), caller("acme"));
    let first = current(&keys, &acme).await;
    assert_eq!(current(&keys, &acme).await.id(), first.id());
    pass_time().await;
    let second = current(&keys, &acme).await;
    assert_ne!(second.id(), first.id());
    assert!(keys.named(&acme, first.id()).await.expect("Vault answers").is_some());
}

#[tokio::test]
async fn are_of_one_scope_and_those_without_a_scope_share_one() {
    let Some(engine) = Engine::new().await else { return };
    let (keys, acme, globex) = (engine.keys(), caller("acme"), caller("globex"));
    let of_acme = current(&keys, &acme).await;
    assert_ne!(of_acme.id(), current(&keys, &globex).await.id());
    assert!(reopened(&engine, &globex, &of_acme).await.is_none());
    let [one, other] = [1, 2].map(|id| Caller::new(UserId::new(Uuid::from_u128(id))));
    assert_eq!(current(&keys, &one).await.id(), current(&keys, &other).await.id());
    // A recovery knows none.
    assert!(keys.current(None).await.expect("it asks nothing").is_none());
}

#[tokio::test]
async fn of_a_rotated_transit_key_open() {
    let Some(engine) = Engine::new().await else { return };
    let (acme, keys) = (caller("acme"), engine.keys());
    let name = keys.key_name(acme.scope.as_ref());
    let before = current(&keys, &acme).await;
    engine.rotate(&name).await;
    pass_time().await;
    let after = current(&keys, &acme).await;
    assert!(after.id().starts_with(b"vault:v2:"));
    for key in [before, after] {
        assert!(reopened(&engine, &acme, &key).await.is_some());
    }
}

#[tokio::test]
async fn are_destroyed_with_their_version_and_with_their_transit_key() {
    let Some(engine) = Engine::new().await else { return };
    let (acme, keys) = (caller("acme"), engine.keys());
    let name = keys.key_name(acme.scope.as_ref());
    let first = current(&keys, &acme).await;
    engine.rotate(&name).await;
    pass_time().await;
    let second = current(&keys, &acme).await;
    engine.forbid_before(&name, 2).await;
    assert!(reopened(&engine, &acme, &first).await.is_none());
    assert!(reopened(&engine, &acme, &second).await.is_some());

    engine.delete(&name).await;
    // This server keeps it for a while.
    assert!(keys.named(&acme, second.id()).await.expect("it is kept").is_some());
    assert!(reopened(&engine, &acme, &second).await.is_none());
    pass_time().await;
    assert!(keys.named(&acme, second.id()).await.expect("Vault answers").is_none());

    // Made anew: a key with one version, which is none of those.
    let third = current(&keys, &acme).await;
    assert!(third.id().starts_with(b"vault:v1:"));
    for key in [first, second] {
        assert!(reopened(&engine, &acme, &key).await.is_none());
    }
    assert!(reopened(&engine, &acme, &third).await.is_some());
}

/// Use does not keep an opened key: another server would open a shredded record for as long as it is replayed.
#[tokio::test]
async fn that_were_opened_are_destroyed_in_time_though_they_are_used() {
    let Some(engine) = Engine::new().await else { return };
    let (acme, keys) = (caller("acme"), engine.keys());
    let key = current(&engine.keys(), &acme).await;
    assert!(keys.named(&acme, key.id()).await.expect("Vault answers").is_some());
    engine.delete(&keys.key_name(acme.scope.as_ref())).await;
    assert!(keys.named(&acme, key.id()).await.expect("it is kept").is_some());
    pass_time().await;
    assert!(keys.named(&acme, key.id()).await.expect("Vault answers").is_none());
}

/// A server with the other ring may open them, whether or not there is a transit key of the scope.
#[tokio::test]
async fn of_other_rings_are_away() {
    let Some(engine) = Engine::new().await else { return };
    let (acme, globex, keys) = (caller("acme"), caller("globex"), engine.keys());
    current(&keys, &acme).await;
    let other = current_id(&StaticKeys::new(Key::new("2026-11", &[7; 32]).expect("a key"))).await;
    let strange: [&[u8]; 4] = [b"\xff", b"vault:v1:", b"vault:v1:c2hvcnQ=", b"vault:vx:c2hvcnQ="];
    let of_scopes = [(&acme, &*other), (&globex, &other)].into_iter().chain(strange.map(|id| (&acme, id)));
    for (caller, id) in of_scopes {
        let error = keys.named(caller, id).await.expect_err("no key of Vault's").to_string();
        assert!(error.starts_with("Vault gave no key: "), "{error}");
    }
}

async fn current_id(ring: &StaticKeys) -> Vec<u8> {
    ring.current(None).await.expect("a key").expect("a key").id().to_vec()
}

#[test]
fn are_not_set_up_with_settings_that_cannot_work() {
    let at = ([127, 0, 0, 1], 1).into();
    for token in ["", "s.token\n", "s.tok en", "s.tökén"] {
        let error = VaultKeys::builder(settings(at, token)).build();
        assert!(matches!(error, Err(VaultSetupError::Token)), "{token}: {error:?}");
    }
    let builder = VaultKeys::builder(settings(at, ROOT));
    let error = builder.clone().mount("transit/").build();
    assert!(matches!(error, Err(VaultSetupError::Mount)), "{error:?}");
    let error = builder.prefix("a/b").build();
    assert!(matches!(error, Err(VaultSetupError::Prefix)), "{error:?}");
    let mut of_files = settings(at, ROOT);
    of_files.address = "https://127.0.0.1:1/".parse().expect("an address");
    of_files.ca_certs = vec!["/there/is/no/such/file".to_owned()];
    let error = VaultKeys::builder(of_files).build();
    assert!(matches!(error, Err(VaultSetupError::Client(_))), "{error:?}");
    let error = keys(settings(at, ROOT), "transit").set_token("");
    assert!(matches!(error, Err(VaultSetupError::Token)), "{error:?}");
}
