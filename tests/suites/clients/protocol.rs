//! The protocols of the clients.

use std::fmt;

/// A protocol between a client and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    ConnectJson,
    ConnectProto,
    Grpc,
    GrpcWeb,
    GrpcWebText,
}

impl Protocol {
    /// The protocols of Connect's libraries.
    pub(crate) const OF_CONNECT: [Self; 4] = [Self::Grpc, Self::GrpcWeb, Self::ConnectJson, Self::ConnectProto];

    /// The protocol's name in a driver's input.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ConnectJson => "connect-json",
            Self::ConnectProto => "connect-proto",
            Self::Grpc => "grpc",
            Self::GrpcWeb => "grpc-web",
            Self::GrpcWebText => "grpc-web-text",
        }
    }

    /// The `content-type` of answers, without the message format of gRPC.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::ConnectJson => "application/json",
            Self::ConnectProto => "application/proto",
            Self::Grpc => "application/grpc",
            Self::GrpcWeb => "application/grpc-web",
            Self::GrpcWebText => "application/grpc-web-text",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ConnectJson => "Connect, JSON",
            Self::ConnectProto => "Connect, binary",
            Self::Grpc => "gRPC",
            Self::GrpcWeb => "gRPC-Web",
            Self::GrpcWebText => "gRPC-Web, text",
        })
    }
}
