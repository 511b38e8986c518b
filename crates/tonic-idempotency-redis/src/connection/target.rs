//! The destination of commands.

use std::fmt;

/// The destination of commands.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "cluster"), expect(dead_code, reason = "without a cluster there is one place"))]
pub(crate) enum Target<'a> {
    /// To the primary that has the record with this name.
    Record(&'a str),
    /// To this primary.
    Primary(&'a Primary),
}

/// A primary.
#[derive(Clone, Debug)]
pub(crate) enum Primary {
    /// The only one.
    Only,
    /// One of a cluster.
    #[cfg(feature = "cluster")]
    At { host: String, port: u16 },
}

impl fmt::Display for Primary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Only => f.write_str("the server"),
            #[cfg(feature = "cluster")]
            Self::At { host, port } => write!(f, "{host}:{port}"),
        }
    }
}
