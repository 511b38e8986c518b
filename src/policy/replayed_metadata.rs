//! The setting for the handler's response metadata in replays.

use std::collections::HashSet;

use http::HeaderName;

use crate::grpc::{MetadataFilter, is_never_replayed};

/// Selects the handler's response metadata that replays contain.
///
/// Selected metadata is stored with the response, or with the error if that is final. A replay has the headers as
/// headers and the trailers as trailers, with binary metadata (`-bin`) and repeated values. It counts towards
/// [`max_response_bytes`](crate::layer::IdempotencyLayerBuilder::max_response_bytes). The setting applies when a
/// response is stored, and again when it is replayed. List in [`except`](Self::except) metadata that is secret or
/// describes a single call, such as its cost or its trace id. Defaults to [`custom`](Self::custom).
///
/// Some metadata is never stored or replayed, whatever the setting:
///
/// | never replayed | |
/// |---|---|
/// | only for the first caller | `set-cookie`, `cookie`, `authorization`, `www-authenticate` and the like, `dpop-nonce`, `x-auth-token`, `x-csrf-token`, `clear-site-data` |
/// | for a single call | `traceparent`, `tracestate`, `x-request-id`, `cache-control` |
/// | of the connection | `connection` and the headers that it lists, `keep-alive`, `te`, `trailer`, `transfer-encoding`, `upgrade`, `via`, `alt-svc` and the like |
/// | of the protocol, or of the body | `grpc-*`, `connect-*`, `content-*`, `accept-encoding` |
/// | of the server, or for browsers | `date`, `server`, `server-timing`, `age`, `vary`, `access-control-*` and the like |
/// | of this layer | `idempotency-expires`, `idempotency-key`, `idempotency-outcome`, `idempotency-status`, `idempotent-replayed` |
///
/// ```
/// use tonic_idempotency::{IdempotencyLayer, policy::ReplayedMetadata};
/// # use tonic_idempotency::proto::FILE_DESCRIPTOR_SET;
/// # let builder = || IdempotencyLayer::builder(FILE_DESCRIPTOR_SET).allow_no_procedures();
///
/// // Default: all custom metadata.
/// assert!(builder().replayed_metadata(ReplayedMetadata::custom()).build().is_ok());
///
/// // Customised: all except some, or only some.
/// let cost = ReplayedMetadata::custom().except(["x-request-cost"]);
/// assert!(builder().replayed_metadata(cost).build().is_ok());
/// assert!(builder().replayed_metadata(ReplayedMetadata::only(["shop-region"])).build().is_ok());
///
/// // Metadata that is never replayed cannot be selected.
/// let error = builder().replayed_metadata(ReplayedMetadata::only(["set-cookie"])).build().unwrap_err();
/// assert!(error.to_string().contains("set-cookie"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayedMetadata {
    only: Option<Vec<String>>,
    except: Vec<String>,
}

impl ReplayedMetadata {
    /// Selects all metadata, except the metadata that is never replayed.
    pub fn custom() -> Self {
        Self::default()
    }

    /// Selects the metadata with these names. Names are case-insensitive.
    pub fn only(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { only: Some(names.into_iter().map(Into::into).collect()), except: Vec::new() }
    }

    /// Selects no metadata.
    pub fn none() -> Self {
        Self { only: Some(Vec::new()), except: Vec::new() }
    }

    /// Excludes the metadata with these names. Names are case-insensitive.
    pub fn except(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.except.extend(names.into_iter().map(Into::into));
        self
    }

    pub(crate) fn resolve(self) -> Result<MetadataFilter, InvalidMetadataName> {
        let only = self.only.map(parse).transpose()?;
        if let Some(name) = only.iter().flatten().find(|name| is_never_replayed(name)) {
            return Err(InvalidMetadataName::NeverReplayed(name.to_string()));
        }
        Ok(MetadataFilter::new(only, parse(self.except)?))
    }
}

/// A name that cannot be selected.
pub(crate) enum InvalidMetadataName {
    Malformed(String),
    NeverReplayed(String),
}

fn parse(names: Vec<String>) -> Result<HashSet<HeaderName>, InvalidMetadataName> {
    names.into_iter().map(|name| name.parse().map_err(|_| InvalidMetadataName::Malformed(name))).collect()
}
