//! A key as its caller wrote it.

use std::{
    fmt,
    hash::{Hash, Hasher},
};

use http::HeaderMap;
use uuid::{Uuid, fmt::Hyphenated};

use super::{InvalidKey, KeyFormat, KeyId, header::Keys, text::Text, uuid_text::uuid_of};
use crate::grpc::headers;

/// The key of one operation, as its caller wrote it. The client chooses it, and sends it with each attempt.
///
/// A key is a UUID of any version; or any text of 1–255 visible ASCII characters, if the procedure takes such keys
/// ([`KeyFormat`]). Two keys are equal if they are stored as the same [`KeyId`]: a UUID is the same key in all its forms.
///
/// Handlers find the key in the request's extensions.
///
/// ```
/// use tonic_idempotency::{IdempotencyKey, policy::KeyFormat};
///
/// let key = IdempotencyKey::new("8e03978e-40d5-43dd-bc93-6894a57f9324", KeyFormat::Uuid).unwrap();
/// let upper = IdempotencyKey::new("8E03978E-40D5-43DD-BC93-6894A57F9324", KeyFormat::Any).unwrap();
/// assert_eq!(key, upper);
///
/// assert!(IdempotencyKey::new("order-17", KeyFormat::Uuid).is_err());
/// let order = IdempotencyKey::new("order-17", KeyFormat::Any).unwrap();
/// assert_eq!(order.as_str(), "order-17");
/// assert_eq!(order.id().to_string(), "14d49737-423d-8590-ae64-e2f7f1f01f4b");
/// ```
#[derive(Clone)]
pub struct IdempotencyKey {
    id: KeyId,
    text: Text,
}

impl IdempotencyKey {
    /// The name of the request header.
    pub const HEADER: &'static str = headers::KEY;

    /// The maximum length of a key, in characters.
    pub const MAX_LEN: usize = tonic_idempotency_wire::headers::MAX_KEY;

    /// Returns the key with this text.
    ///
    /// # Errors
    ///
    /// [`InvalidKey`] if the text is empty, longer than [`MAX_LEN`](Self::MAX_LEN), or not a key of this format.
    pub fn new(text: &str, format: KeyFormat) -> Result<Self, InvalidKey> {
        if text.is_empty() {
            return Err(InvalidKey::Empty);
        }
        let id = match uuid_of(text) {
            Some(uuid) => KeyId::new(uuid),
            None if text.len() > Self::MAX_LEN => return Err(InvalidKey::TooLong),
            None if format == KeyFormat::Uuid => return Err(InvalidKey::NotAUuid),
            None if !text.bytes().all(|byte| byte.is_ascii_graphic()) => return Err(InvalidKey::NotVisible),
            None => KeyId::of_text(text),
        };
        Ok(Self { id, text: text.into() })
    }

    /// Returns the key of an operation with this path, for an id of any length and any characters.
    pub(crate) fn of_operation(path: &str, id: &str) -> Result<Self, InvalidKey> {
        match id {
            "" => Err(InvalidKey::Empty),
            id => Ok(Self { id: KeyId::of_operation(path, id), text: id.into() }),
        }
    }

    /// Returns the key in the headers of a request; `None` if there is no such header.
    ///
    /// The header has the key bare, or as an RFC 8941 string: in double quotes, as the [IETF draft] requires, with a
    /// backslash before each `"` and `\`. Parameters after a string are ignored. A key with a comma, a semicolon or a
    /// double quote has to be such a string. The header may be repeated, on separate lines or joined by commas as some
    /// proxies do, if all values are the same key.
    ///
    /// # Errors
    ///
    /// [`InvalidKey`] if the header is present and is not one key of this format.
    ///
    /// [IETF draft]: https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
    pub fn from_headers(headers: &HeaderMap, format: KeyFormat) -> Result<Option<Self>, InvalidKey> {
        Self::from_values(headers.get_all(Self::HEADER).iter().map(|value| value.as_bytes()), format)
    }

    pub(crate) fn from_values<'a>(
        values: impl Iterator<Item = &'a [u8]>,
        format: KeyFormat,
    ) -> Result<Option<Self>, InvalidKey> {
        let mut found: Option<Self> = None;
        for text in values.flat_map(Keys::of) {
            let text = text?;
            match &found {
                Some(first) if first.as_str().as_bytes() == &*text => {}
                Some(first) if *first != Self::from_bytes(&text, format)? => return Err(InvalidKey::Repeated),
                Some(_) => {}
                None => found = Some(Self::from_bytes(&text, format)?),
            }
        }
        Ok(found)
    }

    /// Returns the key with this text, which may be in any encoding.
    pub(crate) fn from_bytes(text: &[u8], format: KeyFormat) -> Result<Self, InvalidKey> {
        match str::from_utf8(text) {
            Ok(text) => Self::new(text, format),
            Err(_) if text.len() > Self::MAX_LEN => Err(InvalidKey::TooLong),
            Err(_) if format == KeyFormat::Uuid => Err(InvalidKey::NotAUuid),
            Err(_) => Err(InvalidKey::NotVisible),
        }
    }

    /// Returns the key if it is one of this format.
    pub(crate) fn checked(&self, format: KeyFormat) -> Result<Self, InvalidKey> {
        match format {
            KeyFormat::Uuid if uuid_of(self.as_str()).is_none() => Err(InvalidKey::NotAUuid),
            _ => Ok(self.clone()),
        }
    }

    /// Returns the key as it is stored.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// Returns the key's text as the caller wrote it, without the quotes and escapes of the header.
    pub fn as_str(&self) -> &str {
        self.text.as_str()
    }

    /// Returns the key for a further call that the operation makes, such as one to a payment provider: a UUID of version 5
    /// (RFC 9562) with the key's [id](Self::id) as its namespace. It is the same in each attempt, and different for each name.
    ///
    /// Keys belong to their callers: two callers may use the same key, even by chance if their keys are not UUIDs. If they share
    /// an account with the provider, put the caller into the name:
    ///
    /// ```
    /// use tonic_idempotency::{IdempotencyKey, policy::KeyFormat};
    ///
    /// let key = IdempotencyKey::new("order-17", KeyFormat::Any).unwrap();
    /// let (alice, bob) = ("alice", "bob");
    /// let charge = key.downstream(&format!("charge {alice}"));
    /// assert_eq!(charge.get_version_num(), 5);
    /// assert_eq!(charge, key.downstream(&format!("charge {alice}")));
    /// assert_ne!(charge, key.downstream(&format!("charge {bob}")));
    /// ```
    pub fn downstream(&self, name: &str) -> Uuid {
        self.id.downstream(name)
    }
}

impl From<Uuid> for IdempotencyKey {
    fn from(uuid: Uuid) -> Self {
        let mut text = [0; Hyphenated::LENGTH];
        let text: &str = uuid.hyphenated().encode_lower(&mut text);
        Self { id: KeyId::new(uuid), text: text.into() }
    }
}

impl PartialEq for IdempotencyKey {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Eq for IdempotencyKey {}

impl Hash for IdempotencyKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IdempotencyKey").field(&self.as_str()).finish()
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const KEY: &str = "8e03978e-40d5-43dd-bc93-6894a57f9324";
    const OTHER: &str = "019a0e7c-6a1f-7000-8000-000000000001";

    /// The text of the key in a header with these values.
    fn parsed(values: &[impl AsRef<[u8]>], format: KeyFormat) -> Result<Option<String>, InvalidKey> {
        let name = http::HeaderName::from_static(IdempotencyKey::HEADER);
        let value = |value: &_| HeaderValue::from_bytes(AsRef::<[u8]>::as_ref(value)).expect("a header value");
        let headers: HeaderMap = values.iter().map(|it| (name.clone(), value(it))).collect();
        let key = IdempotencyKey::from_headers(&headers, format)?;
        Ok(key.map(|key| key.as_str().to_owned()))
    }

    fn any(value: impl AsRef<[u8]>) -> Result<String, InvalidKey> {
        parsed(&[value], KeyFormat::Any).map(|key| key.expect("a key"))
    }

    fn forms(key: &str) -> [String; 7] {
        [
            key.to_owned(),
            key.to_uppercase(),
            key.replace('-', ""),
            format!("\"{key}\""),
            format!("  \"{key}\"; v=1 "),
            format!("urn:uuid:{key}"),
            format!("\"{{{key}}}\";a=\"x, y\";b"),
        ]
    }

    #[test]
    fn accepts_a_uuid_of_any_version_bare_or_as_a_string_in_each_format() {
        for (key, format) in [(KEY, KeyFormat::Uuid), (OTHER, KeyFormat::Uuid), (KEY, KeyFormat::Any)] {
            let id = KeyId::new(key.parse().expect("a UUID"));
            for value in forms(key) {
                let text = parsed(&[&value], format).expect("valid").expect("a key");
                assert!(value.contains(&text), "as it was written: {text}");
                assert_eq!(IdempotencyKey::new(&text, format).map(|key| key.id()), Ok(id), "{value}");
            }
        }
    }

    #[test]
    fn finds_no_key_without_the_header() {
        assert_eq!(parsed(&[""; 0], KeyFormat::Any), Ok(None));
        assert_eq!(parsed(&[""; 0], KeyFormat::Uuid), Ok(None));
    }

    #[test]
    fn accepts_a_repeated_header_with_equal_values() {
        for values in [vec![KEY.to_owned(), format!("\"{KEY}\"")], vec![format!("{KEY}, {KEY}")], forms(KEY).into()] {
            assert_eq!(parsed(&values, KeyFormat::Uuid).map(|key| key.is_some()), Ok(true), "{values:?}");
        }
        assert_eq!(parsed(&["order-17 ,\"order-17\";v=1", "order-17"], KeyFormat::Any), Ok(Some("order-17".into())));
        assert_eq!(parsed(&[r#""a,b", "a,b""#, r#""a,b""#], KeyFormat::Any), Ok(Some("a,b".into())));
    }

    #[test]
    fn does_not_accept_a_header_that_is_not_one_uuid() {
        let uuid = |values: &[&str]| parsed(values, KeyFormat::Uuid).map(drop);
        assert_eq!(uuid(&[""]), Err(InvalidKey::Empty));
        assert_eq!(uuid(&["  "]), Err(InvalidKey::Empty));
        assert_eq!(uuid(&["\"\""]), Err(InvalidKey::Empty));
        assert_eq!(uuid(&[KEY, ""]), Err(InvalidKey::Empty));
        assert_eq!(uuid(&[&format!("{KEY},")]), Err(InvalidKey::Empty));
        assert_eq!(uuid(&[KEY, OTHER]), Err(InvalidKey::Repeated));
        assert_eq!(uuid(&[&format!("{KEY},{OTHER}")]), Err(InvalidKey::Repeated));
        assert_eq!(uuid(&["order-17"]), Err(InvalidKey::NotAUuid));
        assert_eq!(uuid(&[&format!("{KEY}0")]), Err(InvalidKey::NotAUuid));
        assert_eq!(uuid(&[&format!("\"{KEY}")]), Err(InvalidKey::NotAString));
        assert_eq!(uuid(&[&format!("\"{KEY}\" x")]), Err(InvalidKey::NotAString));
        assert_eq!(uuid(&[&"a".repeat(IdempotencyKey::MAX_LEN + 1)]), Err(InvalidKey::TooLong));
        assert_eq!(parsed(&[b"\xff"], KeyFormat::Uuid), Err(InvalidKey::NotAUuid));
    }

    #[test]
    fn accepts_visible_characters_bare_or_as_a_string_with_escapes() {
        for (value, key) in [
            ("order-17", "order-17"),
            ("\"order-17\"", "order-17"),
            ("~!#$%&'()*+-./:<=>?@[\\]^_`{|}", "~!#$%&'()*+-./:<=>?@[\\]^_`{|}"),
            (r#""a\\b\"c""#, r#"a\b"c"#),
            (r#""\\";a="\\\"""#, r"\"),
            ("\"a,b;c\"", "a,b;c"),
            ("order-17, order-17", "order-17"),
        ] {
            assert_eq!(any(value).as_deref(), Ok(key), "{value}");
        }
        let longest = "k".repeat(IdempotencyKey::MAX_LEN);
        assert_eq!(any(&longest).as_ref(), Ok(&longest));
        let escaped = "\\\"".repeat(IdempotencyKey::MAX_LEN);
        assert_eq!(any(format!("\"{escaped}\"")), Ok("\"".repeat(IdempotencyKey::MAX_LEN)));
    }

    #[test]
    fn does_not_accept_a_header_that_is_not_one_key() {
        for (value, error) in [
            ("", InvalidKey::Empty),
            ("\"\"", InvalidKey::Empty),
            ("a,", InvalidKey::Empty),
            ("order 17", InvalidKey::NotVisible),
            ("\"order 17\"", InvalidKey::NotVisible),
            ("order\t17", InvalidKey::NotVisible),
            ("größe", InvalidKey::NotVisible),
            ("\"größe\"", InvalidKey::NotVisible),
            ("\"order-17", InvalidKey::NotAString),
            ("\"order-17\\\"", InvalidKey::NotAString),
            ("\"order\\-17\"", InvalidKey::NotAString),
            ("\"order\"-17", InvalidKey::NotAString),
            ("\"order-17\";a=\"", InvalidKey::NotAString),
            ("order\"17", InvalidKey::NotQuoted),
            ("order;17", InvalidKey::NotQuoted),
            ("order,17", InvalidKey::Repeated),
            ("\"a\",\"b\"", InvalidKey::Repeated),
        ] {
            assert_eq!(any(value), Err(error), "{value}");
        }
        for value in ["k".repeat(256), format!("\"{}\"", "k".repeat(256)), "k".repeat(4096)] {
            assert_eq!(any(value), Err(InvalidKey::TooLong));
        }
        assert_eq!(any(b"\xff"), Err(InvalidKey::NotVisible));
    }

    #[test]
    fn does_not_accept_control_characters() {
        for byte in (0..=b' ').chain([0x7f]) {
            let text = format!("a{}", char::from(byte));
            assert_eq!(IdempotencyKey::new(&text, KeyFormat::Any), Err(InvalidKey::NotVisible), "{text:?}");
        }
    }

    #[test]
    fn is_another_key_with_another_text() {
        let key = |text| IdempotencyKey::new(text, KeyFormat::Any).expect("a key");
        assert_ne!(key("order-17"), key("order-18"));
        assert_ne!(key("order-17"), key("Order-17"));
        assert_eq!(key("order-17").downstream("charge").to_string(), "7b2e3e46-01ed-5f62-8da0-c6610c61afc2");
    }

    #[test]
    fn is_only_a_key_of_a_format_that_it_fits() {
        let order = IdempotencyKey::new("order-17", KeyFormat::Any).expect("a key");
        assert_eq!(order.checked(KeyFormat::Any), Ok(order.clone()));
        assert_eq!(order.checked(KeyFormat::Uuid), Err(InvalidKey::NotAUuid));
        let uuid = IdempotencyKey::from(Uuid::from_u128(7));
        assert_eq!(uuid.as_str(), "00000000-0000-0000-0000-000000000007");
        assert_eq!(uuid.checked(KeyFormat::Uuid), Ok(uuid));
    }
}
