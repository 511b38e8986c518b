//! A transit engine, and what its operator does to it.

use std::{net::SocketAddr, time::Duration};

use tokio::time;
use tonic_idempotency::{
    Caller, Scope, UserId,
    seal::{Key, KeyRing as _},
};
use tonic_idempotency_vault::{
    VaultKeys,
    vaultrs::{
        api::transit::requests::UpdateKeyConfigurationRequest,
        client::{VaultClient, VaultClientSettings, VaultClientSettingsBuilder},
        sys::mount,
        transit::key,
    },
};
use uuid::Uuid;

use crate::server::{PATIENCE, ROOT, Server};

/// How long servers keep keys.
const KEPT: Duration = Duration::from_secs(5 * 60);

/// A transit engine of its own, and a client with all rights.
pub(crate) struct Engine {
    pub(crate) admin: VaultClient,
    pub(crate) mount: String,
    client: VaultClientSettings,
    pub(crate) address: SocketAddr,
}

impl Engine {
    /// An engine on the server that the tests share; `None` if there is none.
    pub(crate) async fn new() -> Option<Self> {
        Some(Self::on(Server::shared()?).await)
    }

    pub(crate) async fn on(server: &Server) -> Self {
        Self::with(server.address, settings(server.address, ROOT)).await
    }

    /// An engine that is reached with these settings.
    pub(crate) async fn with(address: SocketAddr, client: VaultClientSettings) -> Self {
        let mount = format!("tests/{}", Uuid::new_v4());
        // The first keys choose a provider of TLS, without which there is no other client.
        drop(keys(client.clone(), &mount));
        let admin = VaultClient::new(client.clone()).expect("a client");
        let mut looks = time::interval(Duration::from_millis(50));
        let up = async {
            while mount::enable(&admin, &mount, "transit", None).await.is_err() {
                looks.tick().await;
            }
        };
        time::timeout(PATIENCE, up).await.expect("the server is up");
        Self { admin, mount, client, address }
    }

    /// The keys of a server that has just started.
    pub(crate) fn keys(&self) -> VaultKeys {
        keys(self.client.clone(), &self.mount)
    }

    pub(crate) fn keys_at(&self, address: SocketAddr, token: &str) -> VaultKeys {
        keys(settings(address, token), &self.mount)
    }

    pub(crate) async fn rotate(&self, name: &str) {
        key::rotate(&self.admin, &self.mount, name).await.expect("it is rotated");
    }

    /// Deletes a key, as the documentation says.
    pub(crate) async fn delete(&self, name: &str) {
        let mut allow = UpdateKeyConfigurationRequest::builder();
        allow.deletion_allowed(true);
        key::update(&self.admin, &self.mount, name, Some(&mut allow)).await.expect("it may be deleted");
        key::delete(&self.admin, &self.mount, name).await.expect("it is deleted");
    }

    /// Forbids the versions of a key before this one.
    pub(crate) async fn forbid_before(&self, name: &str, version: u64) {
        let mut minimum = UpdateKeyConfigurationRequest::builder();
        minimum.min_decryption_version(version).min_encryption_version(version);
        key::update(&self.admin, &self.mount, name, Some(&mut minimum)).await.expect("the versions are forbidden");
    }

    /// Whether there is a key of this name.
    pub(crate) async fn has(&self, name: &str) -> bool {
        key::read(&self.admin, &self.mount, name).await.is_ok()
    }
}

pub(crate) fn settings(address: SocketAddr, token: &str) -> VaultClientSettings {
    let mut settings = VaultClientSettingsBuilder::default();
    settings.address(format!("http://{address}")).token(token).build().expect("settings")
}

pub(crate) fn keys(settings: VaultClientSettings, mount: &str) -> VaultKeys {
    VaultKeys::builder(settings).mount(mount).build().expect("keys")
}

/// A caller in this scope.
pub(crate) fn caller(scope: &str) -> Caller {
    Caller::new(UserId::new(Uuid::from_u128(1))).in_scope(Scope::from_text(scope).expect("a scope"))
}

/// The key for a new record.
pub(crate) async fn current(keys: &VaultKeys, caller: &Caller) -> Key {
    keys.current(Some(caller)).await.expect("Vault answers").expect("a key")
}

/// The key with this id, for a server that has just started; `None` if it is destroyed.
pub(crate) async fn reopened(engine: &Engine, caller: &Caller, key: &Key) -> Option<Key> {
    engine.keys().named(caller, key.id()).await.expect("Vault answers")
}

/// Lets so much time pass that servers forget what they keep.
pub(crate) async fn pass_time() {
    time::pause();
    time::advance(KEPT).await;
    time::resume();
}
