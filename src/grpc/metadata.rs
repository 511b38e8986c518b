//! Response metadata as it is stored in the record, and the metadata that is never replayed.

use std::collections::HashSet;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use prost::Message;

use super::{WireError, headers};

/// Metadata that is never stored or replayed: it belongs to the connection, to the response itself, to a single call, or
/// only to the first caller.
const NEVER_REPLAYED: [&str; 39] = [
    "accept-encoding",
    "age",
    "alt-svc",
    "authentication-info",
    "authorization",
    "cache-control",
    "clear-site-data",
    "connection",
    "cookie",
    "date",
    "dpop-nonce",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "server",
    "server-timing",
    "set-cookie",
    "set-cookie2",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
    "via",
    "www-authenticate",
    "x-auth-token",
    "x-csrf-token",
    "x-powered-by",
    "x-request-id",
    headers::EXPIRES,
    headers::KEY,
    headers::OUTCOME,
    headers::STATUS,
    headers::REPLAYED,
];

/// Prefixes of metadata that is never stored or replayed: for browsers, of Connect, of the body, and of gRPC.
const NEVER_REPLAYED_PREFIXES: [&str; 4] = ["access-control-", "connect-", "content-", "grpc-"];

/// Selects the handler's metadata that is stored and replayed.
#[derive(Clone, Debug, Default)]
pub(crate) struct MetadataFilter {
    /// Only these; `None` for all.
    only: Option<HashSet<HeaderName>>,
    except: HashSet<HeaderName>,
}

impl MetadataFilter {
    pub(crate) fn new(only: Option<HashSet<HeaderName>>, except: HashSet<HeaderName>) -> Self {
        Self { only, except }
    }

    fn selects(&self, name: &HeaderName) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(name))
            && !self.except.contains(name)
            && !is_never_replayed(name)
    }
}

/// The metadata of a response as it is stored, independent of the protocol.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Metadata {
    #[prost(message, repeated, tag = "1")]
    headers: Vec<Field>,
    #[prost(message, repeated, tag = "2")]
    trailers: Vec<Field>,
    /// The `traceparent` of the call; empty for none. Never replayed.
    #[prost(string, tag = "3")]
    pub(super) traceparent: String,
    /// The codec that has written the message; empty for that of a gRPC service.
    #[prost(string, tag = "4")]
    codec: String,
}

#[derive(Clone, PartialEq, Message)]
struct Field {
    #[prost(string, tag = "1")]
    name: String,
    /// The value as in the header.
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

/// Metadata split into headers and trailers.
#[derive(Debug, Default)]
pub(super) struct HeadersAndTrailers {
    pub(super) headers: HeaderMap,
    pub(super) trailers: HeaderMap,
}

impl Metadata {
    /// Returns the metadata of a response to store.
    pub(super) fn of(headers: &HeaderMap, trailers: &HeaderMap, filter: &MetadataFilter) -> Self {
        let (headers, trailers) = (fields(headers, filter), fields(trailers, filter));
        Self { headers, trailers, ..Self::default() }
    }

    /// Encodes the metadata; `None` if there is none.
    pub(super) fn to_bytes(&self) -> Option<Bytes> {
        (!self.headers.is_empty() || !self.trailers.is_empty()).then(|| self.encode_to_vec().into())
    }

    pub(super) fn from_bytes(stored: &[u8]) -> Result<Self, WireError> {
        Self::decode(stored).map_err(|_| WireError::NoMetadata)
    }

    /// Splits the metadata into headers and trailers again, without metadata that the filter no longer selects.
    pub(super) fn into_headers_and_trailers(self, filter: &MetadataFilter) -> Result<HeadersAndTrailers, WireError> {
        Ok(HeadersAndTrailers { headers: map(self.headers, filter)?, trailers: map(self.trailers, filter)? })
    }
}

/// The origin of a stored message.
#[derive(Debug, Default)]
pub(crate) struct Provenance {
    /// The codec that has written it; empty for that of a gRPC service.
    pub(crate) codec: String,
    /// The `traceparent` of the call; empty for none.
    pub(crate) traceparent: String,
}

impl Provenance {
    /// Returns the origin of a message with this metadata.
    pub(crate) fn of(metadata: Option<&[u8]>) -> Self {
        let metadata = metadata.and_then(|it| Metadata::from_bytes(it).ok()).unwrap_or_default();
        Self { codec: metadata.codec, traceparent: metadata.traceparent }
    }
}

/// Encodes the metadata of a message that this codec has written.
pub(crate) fn encode_codec(codec: &str) -> Bytes {
    Metadata { codec: codec.to_owned(), ..Metadata::default() }.encode_to_vec().into()
}

/// Encodes the metadata of a call that has nothing but a `traceparent`.
pub(crate) fn encode_traceparent(traceparent: Box<str>) -> Bytes {
    Metadata { traceparent: traceparent.into(), ..Metadata::default() }.encode_to_vec().into()
}

/// Returns whether metadata with this name is never stored or replayed, regardless of the settings.
pub(crate) fn is_never_replayed(name: &HeaderName) -> bool {
    let name = name.as_str();
    NEVER_REPLAYED.contains(&name) || NEVER_REPLAYED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn fields(metadata: &HeaderMap, filter: &MetadataFilter) -> Vec<Field> {
    let connection: Vec<_> = metadata.get_all(header::CONNECTION).iter().filter_map(|it| it.to_str().ok()).collect();
    let belongs_to_connection = |name: &HeaderName| {
        connection.iter().flat_map(|names| names.split(',')).any(|it| it.trim().eq_ignore_ascii_case(name.as_str()))
    };
    metadata
        .iter()
        .filter(|(name, _)| filter.selects(name) && !belongs_to_connection(name))
        .map(|(name, value)| Field { name: name.as_str().to_owned(), value: Bytes::copy_from_slice(value.as_bytes()) })
        .collect()
}

fn map(fields: Vec<Field>, filter: &MetadataFilter) -> Result<HeaderMap, WireError> {
    let mut map = HeaderMap::new();
    for Field { name, value } in fields {
        let name: HeaderName = name.parse().map_err(|_| WireError::NoMetadata)?;
        let value = HeaderValue::from_maybe_shared(value).map_err(|_| WireError::NoMetadata)?;
        if filter.selects(&name) {
            map.try_append(name, value).map_err(|_| WireError::NoMetadata)?;
        }
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn restores_headers_and_trailers_with_repeated_values_in_order() {
        let sent = headers(&[("shop-note", "one"), ("shop-trace-bin", "AHRyYWNl"), ("shop-note", "two")]);
        let trailers = headers(&[("shop-note", "three"), ("shop-cost", "7")]);
        let filter = MetadataFilter::default();
        let stored = Metadata::of(&sent, &trailers, &filter).to_bytes().expect("there is some");
        let restored =
            Metadata::from_bytes(&stored).and_then(|it| it.into_headers_and_trailers(&filter)).expect("metadata");
        assert_eq!((restored.headers, restored.trailers), (sent, trailers));
    }

    #[test]
    fn does_not_store_metadata_of_the_connection_the_protocol_or_the_first_caller() {
        let sent = headers(&[
            ("content-type", "application/grpc"),
            ("grpc-status", "0"),
            ("grpc-status-details-bin", "AA"),
            ("access-control-expose-headers", "grpc-status"),
            ("connect-content-encoding", "gzip"),
            ("connection", "close, shop-hop"),
            ("shop-hop", "1"),
            ("set-cookie", "session=1"),
            ("authorization", "Bearer 1"),
            ("idempotency-expires", "1"),
            ("idempotency-key", "1"),
            ("idempotency-status", "completed"),
            ("idempotent-replayed", "true"),
        ]);
        assert_eq!(Metadata::of(&sent, &sent, &MetadataFilter::default()).to_bytes(), None);
    }

    #[test]
    fn does_not_restore_metadata_that_is_no_longer_selected() {
        let metadata = Metadata::of(
            &headers(&[("a", "1"), ("b", "2"), ("c", "3")]),
            &HeaderMap::new(),
            &MetadataFilter::default(),
        );
        let names = |names: &[&'static str]| names.iter().copied().map(HeaderName::from_static).collect();
        let filter = MetadataFilter { only: Some(names(&["a", "b"])), except: names(&["b"]) };
        let restored = metadata.into_headers_and_trailers(&filter).expect("metadata");
        assert_eq!(restored.headers, headers(&[("a", "1")]));

        // Even if another server has stored it.
        let field = |name: &str| Field { name: name.to_owned(), value: "5".into() };
        let trailers = vec![field("grpc-status"), field("shop-cost")];
        let written = Metadata { trailers, ..Metadata::default() };
        let restored = written.into_headers_and_trailers(&MetadataFilter::default()).expect("metadata");
        assert_eq!(restored.trailers, headers(&[("shop-cost", "5")]));
    }

    #[test]
    fn does_not_restore_invalid_metadata() {
        assert_eq!(Metadata::from_bytes(b"\xff").err(), Some(WireError::NoMetadata));
        for (name, value) in [("", "1"), ("no name", "1"), ("name", "a\r\nb: c")] {
            let field = Field { name: name.to_owned(), value: value.into() };
            let written = Metadata { headers: vec![field], ..Metadata::default() };
            assert_eq!(
                written.into_headers_and_trailers(&MetadataFilter::default()).err(),
                Some(WireError::NoMetadata),
                "{name:?}"
            );
        }
    }
}
