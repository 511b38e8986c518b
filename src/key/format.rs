//! The forms of keys.

/// The form of the keys that a procedure takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyFormat {
    /// 1–255 visible ASCII characters, such as `order-17`. A UUID in one of its usual forms is the same key as with
    /// [`Uuid`](Self::Uuid). Records are therefore still found after the setting has changed.
    Any,
    /// A UUID of any version. The default.
    #[default]
    Uuid,
}
