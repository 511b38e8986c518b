//! The gRPC responses of the layer, as the engine's answers.

use std::{borrow::Cow, error::Error};

use tonic::Status;
use tonic_idempotency_wire::MAX_MESSAGE_BYTES;

use crate::{
    engine::{
        answer::{Answer, Ending, Failure, NotReplayed, Notes, Replayed, ResponseSettings, Wanted},
        call::ProtectedCall,
    },
    grpc::{self, Encoded, UnaryResponse, with_metadata},
    rejection::Rejection,
    status::IdempotencyStatus,
    store::StoredResponse,
};

/// The size up to which a compressed response is always decompressed, in bytes, to find the id of the resource in a response that
/// is too large to store: the largest message that gRPC clients accept by default.
const MIN_READ: usize = MAX_MESSAGE_BYTES;

/// The error is the inner service's own, which is no response.
impl<E: Send + 'static> Answer for Result<UnaryResponse, E> {
    fn rejected(rejection: Rejection) -> Self {
        Ok(UnaryResponse::failed(rejection.into()))
    }

    fn failed(failure: Failure) -> Self {
        Ok(UnaryResponse::failed(match failure {
            Failure::Disconnected => Status::cancelled("the client disconnected"),
            Failure::Panicked => Status::internal("the handler panicked"),
            Failure::Withheld { status, .. } => status,
        }))
    }

    fn replayed(
        settings: &ResponseSettings,
        response: &StoredResponse,
        status: IdempotencyStatus,
    ) -> Result<Replayed<Self>, NotReplayed> {
        let filter = &settings.metadata_filter;
        let replayed = match response {
            StoredResponse::Error(error) => {
                UnaryResponse::replay_error(error, filter).map_err(|_| NotReplayed::Corrupt)?
            }
            StoredResponse::Message(stored) => {
                // A message that is larger than a gRPC frame is not from a handler behind this layer.
                UnaryResponse::replay(&stored.message, stored.metadata.as_deref(), filter, status.header_value())
                    .map_err(|_| NotReplayed::NotStored)?
            }
            StoredResponse::NotStored | StoredResponse::Sealed(_) => return Err(NotReplayed::NotStored),
        };
        let grpc::Replayed { response, metadata_lost, traceparent } = replayed;
        Ok(Replayed { answer: Ok(response), metadata_lost, traceparent })
    }

    fn ending(&self, settings: &ResponseSettings, call: &ProtectedCall, wanted: Wanted) -> Ending {
        let ResponseSettings { metadata_filter, max_bytes } = settings;
        match self {
            Ok(response) if response.is_success() => {
                let metadata = response.to_stored_metadata(metadata_filter);
                let limit = if wanted.is_rebuilt { usize::MAX } else { MIN_READ.max(*max_bytes) };
                Ending::Success { message: response.message(limit).ok(), metadata }
            }
            Ok(response) if wanted.is_final || call.procedure.policies().final_errors.contains(response.code()) => {
                let redact = |status: &Status| call.procedure.redacted_error(status);
                let Encoded { error, is_cut } = response.to_stored_error(metadata_filter, *max_bytes, redact);
                if is_cut {
                    call.procedure.telemetry().error_cut(*max_bytes);
                }
                Ending::FinalError(with_metadata(error, call.metadata.as_ref()))
            }
            _ => Ending::Failure,
        }
    }

    fn is_success(&self) -> bool {
        self.as_ref().is_ok_and(UnaryResponse::is_success)
    }

    fn name(&self) -> Cow<'static, str> {
        match self {
            Ok(response) if response.is_success() => "Ok".into(),
            Ok(response) => format!("{:?}", response.code()).into(),
            Err(_) => "Unknown".into(),
        }
    }

    fn error(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.as_ref().ok()?.error()?)
    }

    fn with(self, Notes { status, outcome, expires }: Notes) -> Self {
        self.map(|response| {
            let response = status.into_iter().fold(response, |it, status| it.with_status(status.header_value()));
            let response = outcome.into_iter().fold(response, UnaryResponse::with_outcome);
            expires.into_iter().fold(response, UnaryResponse::with_expiry)
        })
    }
}
