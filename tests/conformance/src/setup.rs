//! The server to start.

use std::str::FromStr;

/// The library that the service is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// tonic, with gRPC-Web and Connect translated to gRPC.
    Tonic,
    /// `connectrpc`, which speaks all protocols itself.
    Native,
}

/// The layers around the service, and the keys of its unary calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setup {
    /// Without any layer of this project.
    Bare,
    /// With the layers, without keys.
    Plain,
    /// With a new key for each unary call.
    Keyed,
    /// With a new key for each unary call, which is sent twice. The suite gets the second answer.
    Replayed,
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "tonic" => Ok(Self::Tonic),
            "native" => Ok(Self::Native),
            _ => Err(format!("unknown server: {name}")),
        }
    }
}

impl FromStr for Setup {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "bare" => Ok(Self::Bare),
            "plain" => Ok(Self::Plain),
            "keyed" => Ok(Self::Keyed),
            "replayed" => Ok(Self::Replayed),
            _ => Err(format!("unknown setup: {name}")),
        }
    }
}
