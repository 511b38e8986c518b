//! One service over every protocol, on a tonic server and on a native `connectrpc` server.

mod compression;
mod deadlines;
mod different;
mod disconnect;
mod duplicates;
mod errors;
mod get;
mod http;
mod json_vectors;
mod key_field;
mod limits;
mod malformed;
mod messages;
mod metadata;
mod mounting;
mod native;
mod protocol;
mod replay;
mod same;
mod server;
mod settings;
mod shared;
mod slow;
mod unknown;
mod watched;
