//! The calls that are refused.

use std::{collections::HashMap, time::Duration};

use axum::response::Response;
use tonic::{Code, Status, metadata::MetadataValue};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::fault::{Fault, Faults};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    InProgress,
    KeyInvalid,
    Malformed,
    OtherProcedure,
    OtherRequest,
}

impl Refusal {
    pub(crate) fn respond(self, faults: Faults) -> Response {
        let (code, reason, mismatch) = match self {
            Self::InProgress => (Code::Aborted, "IDEMPOTENCY_IN_PROGRESS", None),
            Self::KeyInvalid => (Code::InvalidArgument, "IDEMPOTENCY_KEY_INVALID", None),
            Self::Malformed => (Code::Internal, "IDEMPOTENCY_REQUEST_MALFORMED", None),
            Self::OtherProcedure => (Code::InvalidArgument, "IDEMPOTENCY_KEY_REUSED", Some("procedure")),
            Self::OtherRequest => (Code::InvalidArgument, "IDEMPOTENCY_KEY_REUSED", Some("request")),
        };
        let metadata: HashMap<_, _> =
            mismatch.map(|what| ("mismatch".to_owned(), what.to_owned())).into_iter().collect();
        let mut details = ErrorDetails::new();
        details.set_error_info(reason, "tonic-idempotency", metadata);
        match self {
            Self::InProgress => {
                details.set_retry_info(Some(Duration::from_millis(100)));
            }
            Self::KeyInvalid => {
                details.add_bad_request_violation("idempotency-key", "one valid key");
            }
            _ => {}
        }
        if faults.has(Fault::PlainRefusals) {
            details = ErrorDetails::new();
        }
        let mut status = Status::with_error_details(code, reason, details);
        status.metadata_mut().insert("grpc-retry-pushback-ms", MetadataValue::from_static("100"));
        status.into_http()
    }
}
