//! The canonical encoding, held to protobuf-go's answers and to its own promises on random messages.

mod bad_input;
mod json;
mod properties;
mod random;
mod reencode;
mod rules;
mod schema;
mod vectors;
