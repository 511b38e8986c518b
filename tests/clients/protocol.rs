use std::fmt;

/// How a client speaks to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    ConnectJson,
    ConnectProto,
    Grpc,
    GrpcWeb,
}

impl Protocol {
    pub(crate) const ALL: [Self; 4] = [Self::Grpc, Self::GrpcWeb, Self::ConnectJson, Self::ConnectProto];

    /// Its name in a driver's input.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ConnectJson => "connect-json",
            Self::ConnectProto => "connect-proto",
            Self::Grpc => "grpc",
            Self::GrpcWeb => "grpc-web",
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
        })
    }
}
