//! Translates errors of gRPC into errors of Connect.

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use bytes::Bytes;
use connectrpc::{ConnectError, ErrorCode, ErrorDetail};
use prost::Message as _;
use prost_reflect::DescriptorPool;
use protobuf_canonical::json::Json;
use tonic::{Code, Status};

use crate::rejection::Reason;

/// Translates statuses into errors of Connect.
#[derive(Debug)]
pub(super) struct Errors {
    /// The types of details that are also shown as JSON.
    pools: Vec<DescriptorPool>,
    json: Json,
}

impl Errors {
    pub(super) fn new(pool: DescriptorPool) -> Self {
        let google = DescriptorPool::decode(tonic_types::pb::FILE_DESCRIPTOR_SET).ok();
        Self { pools: google.into_iter().chain([pool]).collect(), json: Json::new(false) }
    }

    /// Returns the error with its details and without metadata.
    pub(super) fn connect(&self, status: Status) -> ConnectError {
        let code = match Reason::of(&status) {
            // gRPC specifies INTERNAL for malformed requests, Connect specifies invalid_argument.
            Some(Reason::RequestMalformed) if status.code() == Code::Internal => ErrorCode::InvalidArgument,
            _ => ErrorCode::from_grpc_code(code_number(status.code())).unwrap_or(ErrorCode::Unknown),
        };
        let details = tonic_types::pb::Status::decode(status.details()).unwrap_or_default().details;
        details.into_iter().fold(ConnectError::new(code, status.message()), |error, detail| {
            let name = detail.type_url.rsplit('/').next().unwrap_or_default().to_owned();
            error.with_detail(ErrorDetail {
                debug: self.readable(&name, &detail.value),
                value: Some(STANDARD_NO_PAD.encode(&detail.value)),
                type_url: name,
            })
        })
    }

    /// Converts a detail to JSON for people to read; `None` if its type is unknown, or it is nested too deeply.
    fn readable(&self, name: &str, value: &[u8]) -> Option<serde_json::Value> {
        let message = self.pools.iter().find_map(|pool| pool.get_message_by_name(name))?;
        let json = self.json.encode(message, Bytes::copy_from_slice(value)).ok()?;
        serde_json::from_slice(&json).ok()
    }
}

/// Converts the error as its conversion to `Status` does.
#[cfg(feature = "postgres")]
impl From<crate::store::TransactionError> for ConnectError {
    fn from(error: crate::store::TransactionError) -> Self {
        let status = Status::from(error);
        let code = ErrorCode::from_grpc_code(code_number(status.code())).unwrap_or(ErrorCode::Unknown);
        Self::new(code, status.message())
    }
}

fn code_number(code: Code) -> u32 {
    i32::from(code).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use prost_types::Any;
    use tonic::Code;

    use super::*;

    fn details(levels: usize) -> Vec<ErrorDetail> {
        let any = (0..levels).fold(Any::default(), |any, _| Any {
            type_url: "a/google.protobuf.Any".to_owned(),
            value: any.encode_to_vec(),
        });
        let status = tonic_types::pb::Status { details: vec![any], ..Default::default() };
        let status = Status::with_details(Code::NotFound, "", status.encode_to_vec().into());
        Errors::new(DescriptorPool::global()).connect(status).details
    }

    #[test]
    fn a_detail_that_is_nested_too_deeply_is_not_shown_as_json() {
        for (levels, shown) in [(5, true), (12, false), (5_000, false)] {
            let [detail] = &details(levels)[..] else { panic!("one detail") };
            assert!(detail.value.is_some(), "it is there as bytes");
            assert_eq!(detail.debug.is_some(), shown, "{levels}");
        }
    }
}
