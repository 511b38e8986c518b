//! [Sealed records](tonic_idempotency::seal) of `tonic-idempotency` with keys of HashiCorp Vault or OpenBao: for each scope (tenant) a
//! transit key, which rotates and can be destroyed.
//!
//! ```no_run
//! # async fn serve(descriptors: &[u8], token: &str, next_token: &str) -> Result<(), Box<dyn std::error::Error>> {
//! use tonic_idempotency::{IdempotencyLayer, store::MemoryStore};
//! use tonic_idempotency_vault::{VaultKeys, vaultrs::client::VaultClientSettingsBuilder};
//!
//! let client = VaultClientSettingsBuilder::default().address("https://vault.internal:8200").token(token).build()?;
//! // Default: the engine at `transit`, and keys whose names begin with `idempotency`. Customised:
//! let keys = VaultKeys::builder(client).mount("teams/orders/transit").prefix("orders").build()?;
//! let layer = IdempotencyLayer::builder(descriptors).store(MemoryStore::new()).seal(keys.clone()).build()?;
//!
//! // While it runs, before the token expires:
//! keys.set_token(next_token)?;
//! # Ok(())
//! # }
//! ```
//!
//! # How it works
//!
//! A transit key is made when its scope is used for the first time, with Vault's defaults. Callers in no scope share one. A server has Vault
//! make a data key for a scope, seals new records with it for five minutes, and forgets it. Each record names its data key by the ciphertext
//! of it, 89 bytes, which Vault opens for a replay; the server keeps that for five minutes, too. Calls that need the same at one time ask once.
//!
//! | for a replay, Vault says | a retry gets |
//! |---|---|
//! | 400, `encryption key not found` | `IDEMPOTENCY_RESPONSE_NOT_STORED`, or the error's code: the key is destroyed |
//! | 400, `too old`: the version is below `min_decryption_version` | the same |
//! | 400, `message authentication failed` or `version is too new`: the key was deleted, and made anew for a later call | the same |
//! | anything else, or nothing within 4 seconds; or the record's key is another ring's | `UNAVAILABLE`, `IDEMPOTENCY_STORE_UNAVAILABLE`, and may retry |
//!
//! The [recovery](tonic_idempotency::maintenance::Recovery) knows no scope: the response of a call that it reconciles is not stored.
//!
//! # Rights
//!
//! The token has to be renewed, or replaced by [`VaultKeys::set_token`], before it expires. It needs this policy, with which it can destroy
//! nothing:
//!
//! ```hcl
#![doc = include_str!("policy.hcl")]
//! ```
//!
//! # Rotation
//!
//! Transit keys of scopes may be rotated at any time, by hand or by `auto_rotate_period`. Older records still open.
//!
//! The transit key `idempotency-hashes` makes the key for the hashes of requests, the same for all scopes and on all servers. Its version
//! before the latest is current, and those around that are known: rotate it once to make a version known, and once more, five minutes later,
//! to make it current; then not before the longest retention has passed. Never delete it: retries would be told `IDEMPOTENCY_KEY_REUSED`.
//!
//! # Erasure
//!
//! Delete the scope's transit key, whose name [`VaultKeys::key_name`] tells:
//!
//! ```sh
//! name=idempotency-scope-$(printf %s acme | sha256sum | cut -d ' ' -f 1)
//! vault write "transit/keys/$name/config" deletion_allowed=true
//! vault delete "transit/keys/$name"
//! ```
//!
//! Five minutes later no server opens the scope's records, nor those of a restored backup of the table: their retries are told that the call
//! has succeeded, and never run. A backup of Vault itself still has the key. New calls of the scope get a new one.

mod builder;
mod kept;
mod keys;
mod names;
mod no_key;
mod setup_error;
mod transit;

#[doc(no_inline)]
pub use vaultrs;

pub use self::{builder::VaultKeysBuilder, keys::VaultKeys, setup_error::VaultSetupError};
