//! The keys for the hashes of requests.

use tonic_idempotency::seal::KeyRing as _;
use tonic_idempotency_vault::VaultKeys;

use crate::engine::{Engine, pass_time};

/// The versions that a server knows, the current one first.
async fn versions(keys: &VaultKeys) -> Vec<u64> {
    let shown = format!("{:?}", keys.hash_keys().await.expect("Vault answers"));
    let ids = shown.split("hashes-").skip(1).map(|rest| rest.split('"').next().unwrap_or_default());
    ids.map(|version| version.parse().expect("a version")).collect()
}

/// A server whose current version another does not know would be answered with `IDEMPOTENCY_KEY_REUSED` there.
#[tokio::test]
async fn are_known_on_all_servers_before_they_are_current_on_one() {
    let Some(engine) = Engine::new().await else { return };
    let name = "idempotency-hashes";
    let stale = engine.keys();
    assert_eq!(versions(&stale).await, [1]);
    engine.rotate(name).await;
    assert_eq!(versions(&stale).await, [1], "it is kept");
    let mut known = versions(&stale).await;
    for expected in [vec![1, 2], vec![2, 3, 1], vec![3, 4, 2], vec![4, 5, 3]] {
        let fresh = versions(&engine.keys()).await;
        assert_eq!(fresh, expected);
        // Records of either, by either.
        assert!(known.contains(&fresh[0]) && fresh.contains(&known[0]), "{known:?} {fresh:?}");
        known = fresh;
        engine.rotate(name).await;
    }
    engine.forbid_before(name, 5).await;
    pass_time().await;
    assert_eq!(versions(&stale).await, [5, 6]);
    engine.forbid_before(name, 6).await;
    assert_eq!(versions(&engine.keys()).await, [6]);
}
