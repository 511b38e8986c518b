//! The variations between the encodings of a message.

/// The variations between the encodings of a message. By default there are none.
///
/// By the rules of protobuf, every decoder reads the same message from them, with two exceptions: [`Padding::Longest`], and decoders with
/// closed enums, which keep an undeclared number as an unknown field even if a later value [replaces](Self::replaced) it. To prost and
/// protobuf-go, all enums are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Variations {
    /// The fields are in another order. The records of one field, and those of the members of one oneof, keep their order.
    pub field_order: bool,
    /// The entries of a map are in another order, in the places that they had. Those of one key keep their order.
    pub map_order: bool,
    /// Repeated scalars that were not packed are, and the other way round; or they are in other pieces.
    pub packing: bool,
    /// Varints are longer than they need to be.
    pub padding: Padding,
    /// Unset fields with implicit presence are written as their default.
    pub defaults: bool,
    /// Before a value come others that it replaces, of the same field, oneof or map key. A message is in two pieces, which a decoder merges.
    pub replaced: bool,
}

impl Variations {
    /// Returns all variations, with the longest padding.
    pub fn all() -> Self {
        Self {
            field_order: true,
            map_order: true,
            packing: true,
            padding: Padding::Longest,
            defaults: true,
            replaced: true,
        }
    }
}

/// The varints that are longer than they need to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Padding {
    /// None.
    #[default]
    None,
    /// Tags and lengths have at most 5 bytes, values at most 10. Every decoder takes them.
    Portable,
    /// All have at most 10 bytes. Some decoders, that of C++ among them, refuse a tag or a length of more than 5.
    Longest,
}
