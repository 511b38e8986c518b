//! Which of the handler's response metadata a replay has.

use std::collections::HashSet;

use http::HeaderName;

use crate::grpc::{MetadataFilter, is_never_kept};

/// Which of the handler's response metadata a replay has: its headers as headers and its trailers as trailers, binary ones
/// (`-bin`) and repeated values included; of errors that are replayed, too.
///
/// It is stored with the response, and counts towards
/// [`max_response_bytes`](crate::layer::IdempotencyLayerBuilder::max_response_bytes). The setting holds when a response is stored and
/// again when it is replayed. Name in [`except`](Self::except) what is secret, and what tells of one call alone, such as its
/// cost or the id of its trace.
///
/// Some metadata is never kept, whatever the setting says:
///
/// | never kept | |
/// |---|---|
/// | for the first caller alone | `set-cookie`, `cookie`, `authorization`, `www-authenticate` and the like |
/// | of the connection | `connection` and what it names, `keep-alive`, `te`, `trailer`, `transfer-encoding`, `upgrade`, `via`, `alt-svc` and the like |
/// | of the protocol, or of the body | `grpc-*`, `connect-*`, `content-*`, `accept-encoding` |
/// | of the server, or for browsers | `date`, `server`, `server-timing`, `age`, `vary`, `access-control-*` and the like |
/// | of this layer | `idempotency-key`, `idempotency-status`, `idempotent-replayed` |
///
/// ```
/// use tonic_idempotency::{IdempotencyLayer, policy::ReplayedMetadata};
/// # use tonic_idempotency::proto::FILE_DESCRIPTOR_SET;
/// # let builder = || IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).allow_no_procedures();
///
/// // Default: all custom metadata.
/// assert!(builder().replayed_metadata(ReplayedMetadata::custom()).build().is_ok());
///
/// // Customised: all but some, or some alone.
/// let cost = ReplayedMetadata::custom().except(["x-request-cost"]);
/// assert!(builder().replayed_metadata(cost).build().is_ok());
/// assert!(builder().replayed_metadata(ReplayedMetadata::only(["shop-region"])).build().is_ok());
///
/// // What is never kept cannot be asked for.
/// let error = builder().replayed_metadata(ReplayedMetadata::only(["set-cookie"])).build().unwrap_err();
/// assert!(error.to_string().contains("set-cookie"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayedMetadata {
    only: Option<Vec<String>>,
    except: Vec<String>,
}

impl ReplayedMetadata {
    /// All metadata but what is never kept.
    pub fn custom() -> Self {
        Self::default()
    }

    /// What has one of these names. In names, case does not count.
    pub fn only(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { only: Some(names.into_iter().map(Into::into).collect()), except: Vec::new() }
    }

    /// No metadata.
    pub fn none() -> Self {
        Self { only: Some(Vec::new()), except: Vec::new() }
    }

    /// Without what has one of these names.
    pub fn except(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.except.extend(names.into_iter().map(Into::into));
        self
    }

    pub(crate) fn resolve(self) -> Result<MetadataFilter, InvalidMetadataName> {
        let only = self.only.map(parse).transpose()?;
        if let Some(name) = only.iter().flatten().find(|name| is_never_kept(name)) {
            return Err(InvalidMetadataName::NeverReplayed(name.to_string()));
        }
        Ok(MetadataFilter::new(only, parse(self.except)?))
    }
}

/// A name of metadata that cannot be asked for.
pub(crate) enum InvalidMetadataName {
    Malformed(String),
    NeverReplayed(String),
}

fn parse(names: Vec<String>) -> Result<HashSet<HeaderName>, InvalidMetadataName> {
    names.into_iter().map(|name| name.parse().map_err(|_| InvalidMetadataName::Malformed(name))).collect()
}
