//! The canonical encoding, compared with protobuf-go's output and checked for its own properties on random messages.

mod bad_input;
mod encode;
mod evolution;
mod field_path;
mod ignored;
mod json;
mod properties;
mod random;
mod reencode;
mod schema;
mod undo;
mod vectors;
mod versions;
