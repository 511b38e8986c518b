//! A key as it is stored.

use std::{fmt, time::Duration};

use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid, Variant, Version};

use super::uuid_text::uuid_of;

/// Separates the hashes of keys from all other hashes. The documentation has it in SQL.
const DOMAIN: &str = "tonic-idempotency key ";

/// The same for the keys of operations: `tenant.idempotency_operation_key` in SQL.
const OPERATION_DOMAIN: &str = "tonic-idempotency operation ";

/// A key as it is stored: in the column `idempotency_key` of the table.
///
/// A key that is a UUID is stored as that UUID. Any other is stored as a UUID of version 8 (RFC 9562): the first 16 bytes
/// of the SHA-256 of `tonic-idempotency key ` and the key's text. So whoever has the text finds the record.
///
/// Handlers record it with their effect, so that a [`Reconciler`](crate::policy::Reconciler) finds the effect by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(Uuid);

impl KeyId {
    /// Creates the id of a key that is stored as this UUID.
    pub fn new(id: Uuid) -> Self {
        Self(id)
    }

    /// Returns the id of a key whose text is not a UUID.
    pub(super) fn of_text(text: &str) -> Self {
        Self(uuid_v8(Sha256::new().chain_update(DOMAIN).chain_update(text)))
    }

    /// Returns the key of an [operation](crate::run::Operation) with this name, such as `billing.v1/ChargeOrder`, that is run with this id:
    /// see [`Call::key`](crate::run::Call::key). In SQL it is `tenant.idempotency_operation_key`.
    pub fn of_operation(name: &str, id: &str) -> Self {
        let uuid = uuid_of(id);
        let mut usual = Uuid::encode_buffer();
        let id = uuid.map_or(id, |uuid| uuid.hyphenated().encode_lower(&mut usual));
        let path = name.strip_prefix('/').unwrap_or(name);
        let hash = Sha256::new().chain_update(OPERATION_DOMAIN).chain_update("/").chain_update(path);
        let hash = hash.chain_update(" ").chain_update(id);
        let made = uuid_v8(hash);
        let Some(dated) = uuid.filter(|&uuid| Self(uuid).time().is_some()) else { return Self(made) };
        let mut bytes = made.into_bytes();
        bytes[..6].copy_from_slice(&dated.as_bytes()[..6]);
        Self(Builder::from_bytes(bytes).with_version(Version::SortRand).into_uuid())
    }

    /// Returns the id as a UUID.
    pub fn as_uuid(&self) -> &Uuid {
        &self.0
    }

    /// Returns the time in the key, since the Unix epoch, in milliseconds; `None` if it is not a UUID of version 7.
    pub(crate) fn time(&self) -> Option<Duration> {
        if self.0.get_version_num() != 7 || self.0.get_variant() != Variant::RFC4122 {
            return None;
        }
        Some(Duration::from_millis((self.0.as_u128() >> 80) as u64))
    }

    /// Returns the key for a further call that the operation makes: see [`IdempotencyKey::downstream`].
    ///
    /// [`IdempotencyKey::downstream`]: super::IdempotencyKey::downstream
    pub fn downstream(&self, name: &str) -> Uuid {
        Uuid::new_v5(&self.0, name.as_bytes())
    }
}

/// A UUID of version 8 (RFC 9562) from the first 16 bytes of a hash.
fn uuid_v8(hash: Sha256) -> Uuid {
    let hash: [u8; 32] = hash.finalize().into();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    Builder::from_custom_bytes(bytes).into_uuid()
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use uuid::uuid;

    use super::*;

    /// The same in Python: `h = bytearray(sha256(b"tonic-idempotency key order-17").digest()[:16])`,
    /// `h[6] = h[6] & 0x0f | 0x80`, `h[8] = h[8] & 0x3f | 0x80`, `UUID(bytes=bytes(h))`.
    #[test]
    fn of_a_text_is_a_hash_that_anybody_can_compute() {
        for (text, id) in [
            ("order-17", uuid!("14d49737-423d-8590-ae64-e2f7f1f01f4b")),
            ("a", uuid!("0f01fc6b-0220-8163-a9ae-2dad49a000fd")),
            ("{\"a\":\"b\\c\"}", uuid!("191a4d11-6ea9-89d9-b1c9-332df3c36098")),
        ] {
            assert_eq!(KeyId::of_text(text), KeyId::new(id), "{text}");
            assert_eq!((id.get_version_num(), id.get_variant()), (8, uuid::Variant::RFC4122), "{text}");
        }
    }

    /// The same in Python: as above, of `b"tonic-idempotency operation /billing.v1/ChargeOrder " + id`, a UUID in its usual form. Of a UUIDv7,
    /// `h[:6]` is the id's, and the version `0x70`.
    #[test]
    fn of_an_operation_is_made_of_its_path_and_its_id_and_keeps_a_time() {
        let charge = "/billing.v1/ChargeOrder";
        for (path, id, key) in [
            (charge, "evt_17", uuid!("a5209193-5ae3-8a7c-bfcd-2f7789f1320e")),
            ("/ledger.v1/Book", "evt_17", uuid!("7e156ae6-c5dc-8e0e-9d4a-aa5cfd428eb3")),
            ("billing.v1/ChargeOrder", "Rechnung März.pdf", uuid!("6dbf4e1f-9121-85cf-bf70-d5ce9ea07046")),
            (charge, "8E03978E-40D5-43DD-BC93-6894A57F9324", uuid!("8b730475-86da-8ae4-a8e7-4d94a86f676d")),
            (charge, "8e03978e40d543ddbc936894a57f9324", uuid!("8b730475-86da-8ae4-a8e7-4d94a86f676d")),
            (charge, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f", uuid!("017f22e2-79b0-70ad-9277-862182434edb")),
            (charge, "{017F22E2-79B0-7CC3-98C4-DC0C0C07398F}", uuid!("017f22e2-79b0-70ad-9277-862182434edb")),
        ] {
            let made = KeyId::of_operation(path, id);
            assert_eq!(made, KeyId::new(key), "{path} {id}");
            let time = |id: &str| Uuid::try_parse(id).ok().and_then(|uuid| KeyId::new(uuid).time());
            assert_eq!(made.time(), time(id), "{id}");
        }
    }

    /// The example of RFC 9562.
    #[test]
    fn of_version_7_has_a_time() {
        let time = |key| KeyId::new(key).time();
        let made = Duration::from_millis(0x017F_22E2_79B0);
        assert_eq!(time(uuid!("017f22e2-79b0-7cc3-98c4-dc0c0c07398f")), Some(made));
        assert_eq!(time(uuid!("017f22e2-79b0-4cc3-98c4-dc0c0c07398f")), None, "version 4");
        assert_eq!(time(uuid!("017f22e2-79b0-7cc3-c8c4-dc0c0c07398f")), None, "another variant");
        assert_eq!(time(uuid!("14d49737-423d-8590-ae64-e2f7f1f01f4b")), None, "the hash of a text");
    }

    /// The same in Python: `uuid5(UUID("8e03978e-40d5-43dd-bc93-6894a57f9324"), "charge")`.
    #[test]
    fn of_a_further_call_is_a_uuid_that_anybody_can_compute() {
        let key = KeyId::new(uuid!("8e03978e-40d5-43dd-bc93-6894a57f9324"));
        assert_eq!(key.downstream("charge"), uuid!("ef110cb4-f06a-534b-80e2-ed557c2d60a5"));
        assert_eq!(key.downstream("größe"), uuid!("b76e4012-2883-59e6-9877-680e376581df"));
        assert_eq!(key.downstream(""), uuid!("39e35be5-8705-5781-bce1-4b965d857753"));
    }
}
