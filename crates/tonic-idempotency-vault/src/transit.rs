//! Requests to a transit engine.

use std::sync::{Arc, PoisonError, RwLock};

use tonic_idempotency::seal::Key;
use vaultrs::{
    api::transit::requests::{DataKeyType, GenerateHmacRequest},
    client::{Client as _, VaultClient, VaultClientSettings},
    transit::{data, generate, key},
};
use zeroize::Zeroizing;

use crate::{no_key::NoKey, setup_error::VaultSetupError};

/// The beginning of all that a transit engine makes; the version of its key follows.
const PREFIX: &str = "vault:v";

/// The text of which the hash keys are HMACs, "tonic-idempotency hash key v1", as Vault wants it.
const OF_HASHES: &str = "dG9uaWMtaWRlbXBvdGVuY3kgaGFzaCBrZXkgdjE=";

/// A transit engine, and the token that it is asked with.
pub(crate) struct Transit {
    mount: String,
    client: RwLock<Arc<VaultClient>>,
}

impl Transit {
    pub(crate) fn new(settings: VaultClientSettings, mount: String) -> Result<Self, VaultSetupError> {
        Ok(Self { mount, client: RwLock::new(connect(settings)?) })
    }

    pub(crate) fn mount(&self) -> &str {
        &self.mount
    }

    pub(crate) fn set_token(&self, token: &str) -> Result<(), VaultSetupError> {
        let settings = VaultClientSettings { token: token.to_owned(), ..self.client().settings().clone() };
        let client = connect(settings)?;
        *self.client.write().unwrap_or_else(PoisonError::into_inner) = client;
        Ok(())
    }

    /// Makes a data key, whose id is its ciphertext under the transit key of this name. That is made if there is none.
    pub(crate) async fn data_key(&self, name: &str) -> Result<Key, NoKey> {
        match self.data_key_of(name).await {
            Err(NoKey::Missing) => {
                self.make(name).await?;
                self.data_key_of(name).await
            }
            answer => answer,
        }
    }

    /// Opens a data key with this id.
    pub(crate) async fn open(&self, name: &str, id: &str) -> Result<Key, NoKey> {
        if !id.starts_with(PREFIX) {
            return Err(NoKey::away("the key of the record is not one of Vault's"));
        }
        let answer = data::decrypt(&*self.client(), &self.mount, name, id, None).await?;
        let plaintext = Zeroizing::new(answer.plaintext);
        Ok(Key::from_base64(id, &plaintext)?)
    }

    /// Makes the hash key of a version of the transit key of this name, or of its latest, and returns that version. The transit key is made if
    /// there is none. [`NoKey::Destroyed`] if its `min_encryption_version` forbids the version.
    pub(crate) async fn hash_key(&self, name: &str, version: Option<u64>) -> Result<(u64, Key), NoKey> {
        match self.hash_key_of(name, version).await {
            Err(NoKey::Missing) => {
                self.make(name).await?;
                self.hash_key_of(name, version).await
            }
            answer => answer,
        }
    }

    async fn data_key_of(&self, name: &str) -> Result<Key, NoKey> {
        let (client, kind) = (self.client(), DataKeyType::Plaintext);
        let answer = generate::data_key(&*client, &self.mount, name, kind, None).await?;
        let plaintext = Zeroizing::new(answer.plaintext.unwrap_or_default());
        Ok(Key::from_base64(answer.ciphertext, &plaintext)?)
    }

    async fn hash_key_of(&self, name: &str, version: Option<u64>) -> Result<(u64, Key), NoKey> {
        let mut request = GenerateHmacRequest::builder();
        version.map(|version| request.key_version(version));
        let answer = generate::hmac(&*self.client(), &self.mount, name, OF_HASHES, Some(&mut request)).await?;
        let hmac = Zeroizing::new(answer.hmac);
        let parts = hmac.strip_prefix(PREFIX).and_then(|rest| rest.split_once(':'));
        let (version, secret) = parts.ok_or_else(|| NoKey::away("an HMAC of it has no version"))?;
        let version = version.parse().map_err(|_| NoKey::away("an HMAC of it has no version"))?;
        Ok((version, Key::from_base64(format!("hashes-{version}"), secret)?))
    }

    /// Makes a transit key. It may exist already: other servers make it, too.
    async fn make(&self, name: &str) -> Result<(), NoKey> {
        Ok(key::create(&*self.client(), &self.mount, name, None).await?)
    }

    fn client(&self) -> Arc<VaultClient> {
        Arc::clone(&self.client.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Makes a client. Its TLS is that of the provider that the process has chosen, or else of ring.
fn connect(settings: VaultClientSettings) -> Result<Arc<VaultClient>, VaultSetupError> {
    // In a header, it would make the client panic.
    let is_token = !settings.token.is_empty() && settings.token.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_token {
        return Err(VaultSetupError::Token);
    }
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // Fails if another thread has chosen one meanwhile.
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    Ok(Arc::new(VaultClient::new(settings)?))
}
