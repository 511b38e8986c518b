//! Sealed records: responses, their metadata and kept errors are stored so that only the holder of a key reads them.
//!
//! ```
//! # #[cfg(feature = "seal")]
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use tonic_idempotency::{
//!     IdempotencyLayer,
//!     seal::{Key, StaticKeys},
//!     store::MemoryStore,
//! };
//! # const FILE_DESCRIPTOR_SET: &[u8] = tonic_idempotency::proto::FILE_DESCRIPTOR_SET;
//! # let (november, december) = ("TXGiEzFQ1mRBDdR0xt6pVZSP0mg4VSVQC4WRk7Fi1x8=", "sxNv0kPq3v3z4O6xk5cS0KpYw2mR6m4vSxB7m9c5fRk=");
//!
//! let keys = StaticKeys::new(Key::from_base64("2026-11", november)?);
//! let layer = IdempotencyLayer::builder(FILE_DESCRIPTOR_SET)
//!     .allow_no_procedures()
//!     .store(MemoryStore::new())
//!     .seal(keys.clone())
//!     .build()?;
//!
//! // While it runs, on all servers: the next key is known; later, it is the current one.
//! keys.add(Key::from_base64("2026-12", december)?)?;
//! keys.rotate_to("2026-12")?;
//! # Ok(())
//! # }
//! # #[cfg(feature = "seal")]
//! # example().unwrap();
//! ```
//!
//! Of a record, the response message, its metadata, and the message, details and metadata of a kept error are sealed: with AES-256-GCM, by a
//! key of their own each, which is derived from that of the [`KeyRing`]. They open only in the record that they were made for. The hashes of requests become
//! HMACs, so that a dump of the table does not tell which of some guessed requests was made. In the open stay: owner, key, procedure, times, the
//! id of the created resource, the code of an error, and the size of a response, roughly.
//!
//! # Deployment
//!
//! 1. This version on all servers.
//! 2. [`open_sealed`](crate::layer::IdempotencyLayerBuilder::open_sealed) on all: they read sealed records, and write plain ones.
//! 3. [`seal`](crate::layer::IdempotencyLayerBuilder::seal) on all.
//!
//! Back likewise: `open_sealed` until the longest retention has passed. A server without either answers a sealing server's keys with
//! `IDEMPOTENCY_KEY_REUSED`, which ends an operation.
//!
//! # Rotation
//!
//! A new key is known everywhere before it is current anywhere, and is known until the longest retention after it was current has passed.
//! Without it, a record is still a record: a retry never runs.
//!
//! | the key of a record | a retry gets |
//! |---|---|
//! | is known | its response |
//! | is destroyed for good ([`KeyRing::named`] returns `None`), or the record was changed | `IDEMPOTENCY_RESPONSE_NOT_STORED`, or the error's code |
//! | cannot be asked for | `UNAVAILABLE`, `IDEMPOTENCY_STORE_UNAVAILABLE`, as does a new call, before its claim; [`StorePolicy::Proceed`](crate::policy::StorePolicy::Proceed) does not apply |

#[cfg(feature = "seal")]
mod content;
#[cfg(feature = "seal")]
mod key_ring;
#[cfg(not(feature = "seal"))]
mod off;
#[cfg(feature = "seal")]
mod sealer;
#[cfg(feature = "seal")]
mod static_keys;
mod subject;

#[cfg(not(feature = "seal"))]
pub(crate) use self::off::{CallKeys, KeyError, Sealer};
#[cfg(feature = "seal")]
pub(crate) use self::sealer::{CallKeys, Sealer};
pub(crate) use self::subject::Subject;
#[cfg(feature = "seal")]
pub use self::{
    key_ring::{HashKeys, KeyError, KeyRing},
    static_keys::{KeyRingError, StaticKeys},
};
#[cfg(feature = "seal")]
pub use tonic_idempotency_wire::seal::{InvalidKey, Key};
