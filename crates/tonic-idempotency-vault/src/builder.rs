//! The settings of [`VaultKeys`].

use std::fmt;

use vaultrs::client::VaultClientSettings;

use crate::{
    keys::VaultKeys,
    names::{Names, is_path},
    setup_error::VaultSetupError,
    transit::Transit,
};

impl VaultKeys {
    /// Begins with a client's settings: address, token, and certificates.
    pub fn builder(client: VaultClientSettings) -> VaultKeysBuilder {
        VaultKeysBuilder { client, mount: "transit".to_owned(), prefix: "idempotency".to_owned() }
    }
}

/// The settings of [`VaultKeys`].
#[derive(Clone)]
pub struct VaultKeysBuilder {
    client: VaultClientSettings,
    mount: String,
    prefix: String,
}

impl VaultKeysBuilder {
    /// Sets the path of the transit engine. Defaults to `transit`.
    pub fn mount(self, mount: impl Into<String>) -> Self {
        Self { mount: mount.into(), ..self }
    }

    /// Sets the text with which the names of all transit keys begin. Defaults to `idempotency`. Services with the same prefix at the same
    /// mount share their keys: a scope is erased in all of them.
    pub fn prefix(self, prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// Makes the keys. Vault is not asked yet.
    ///
    /// # Errors
    ///
    /// [`VaultSetupError`] says which setting is wrong.
    pub fn build(self) -> Result<VaultKeys, VaultSetupError> {
        let Self { client, mount, prefix } = self;
        let names = Names::new(&prefix).ok_or(VaultSetupError::Prefix)?;
        if !is_path(&mount) {
            return Err(VaultSetupError::Mount);
        }
        Ok(VaultKeys::new(names, Transit::new(client, mount)?))
    }
}

/// Shows no token.
impl fmt::Debug for VaultKeysBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VaultKeysBuilder")
            .field("mount", &self.mount)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}
