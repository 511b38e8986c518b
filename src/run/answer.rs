//! The answer to the caller of an operation, as the engine's.

use std::{borrow::Cow, error::Error};

use bytes::Bytes;
use tonic_idempotency_wire::ErrorOutcome;

use super::{Codec, CodecError, HandlerError, Outcome, RunError};
use crate::{
    engine::{
        answer::{Answer, Ending, Failure, NotReplayed, Notes, Replayed, ResponseSettings, Wanted},
        call::ProtectedCall,
    },
    grpc::{Provenance, decode_opaque_error, encode_opaque_error},
    policy::Mode,
    rejection::Rejection,
    status::IdempotencyStatus,
    store::StoredResponse,
};

/// The answer to the caller of an operation.
pub(super) struct RunAnswer<C: Codec, E> {
    result: Result<Outcome<C::Response>, RunError<E>>,
    /// The handler's response, if it can be encoded.
    encoded: Option<Bytes>,
}

impl<C: Codec, E> RunAnswer<C, E> {
    pub(super) fn of_handler(ended: Result<C::Response, E>, mode: Mode) -> Self {
        match ended.map(|response| (C::encode(&response), response)) {
            Ok((Err(error), _)) if mode == Mode::Transactional => Err(RunError::Response(error)).into(),
            Ok((encoded, response)) => {
                Self { result: Ok(Outcome::First(response)), encoded: encoded.ok().map(Bytes::from) }
            }
            Err(error) => Err(RunError::Failed { error, is_final: false }).into(),
        }
    }

    pub(super) fn into_result(self) -> Result<Outcome<C::Response>, RunError<E>> {
        self.result
    }
}

impl<C: Codec, E> From<Result<Outcome<C::Response>, RunError<E>>> for RunAnswer<C, E> {
    fn from(result: Result<Outcome<C::Response>, RunError<E>>) -> Self {
        Self { result, encoded: None }
    }
}

impl<C: Codec, E: HandlerError> Answer for RunAnswer<C, E> {
    fn rejected(rejection: Rejection) -> Self {
        Err(RunError::rejected(&rejection)).into()
    }

    fn failed(failure: Failure) -> Self {
        let error = match failure {
            // It is not heard: the future was dropped.
            Failure::Disconnected | Failure::Panicked => RunError::Panicked,
            Failure::Withheld { status, is_success } => RunError::Withheld { status, is_success },
        };
        Err(error).into()
    }

    fn replayed(
        _settings: &ResponseSettings,
        response: &StoredResponse,
        _status: IdempotencyStatus,
    ) -> Result<Replayed<Self>, NotReplayed> {
        let (answer, traceparent) = match response {
            StoredResponse::Message(stored) => {
                let Provenance { codec, traceparent } = Provenance::of(stored.metadata.as_deref());
                let unreadable = |error| RunError::Unreadable { error, is_success: true };
                (decode::<C>(&stored.message, &codec).map(Outcome::Replayed).map_err(unreadable), traceparent)
            }
            StoredResponse::Error(error) => {
                let error = decode_opaque_error(error).map_err(|_| NotReplayed::Corrupt)?;
                let error = error.and_then(|error| E::from_final(&error).ok_or("it is of another type".to_owned()));
                let unreadable = |why| {
                    let error = format!("its final error is not known: {why}").into();
                    RunError::Unreadable { error, is_success: false }
                };
                (Err(error.map_or_else(unreadable, |error| RunError::Failed { error, is_final: true })), String::new())
            }
            StoredResponse::NotStored | StoredResponse::Sealed(_) => return Err(NotReplayed::NotStored),
        };
        Ok(Replayed { answer: answer.into(), metadata_lost: false, traceparent })
    }

    fn ending(&self, settings: &ResponseSettings, call: &ProtectedCall, _wanted: Wanted) -> Ending {
        match &self.result {
            // One that is not encoded is not stored.
            Ok(_) => Ending::Success { message: self.encoded.clone(), metadata: None },
            Err(RunError::Failed { error, .. }) => match error.to_final(&call.procedure.policies().final_errors) {
                Some(stored) if stored.len() <= settings.max_bytes => {
                    Ending::FinalError(encode_opaque_error(Some(stored)))
                }
                // It still ends the operation.
                Some(_) => {
                    call.procedure.telemetry().error_cut(settings.max_bytes);
                    Ending::FinalError(encode_opaque_error(error.to_short_final(settings.max_bytes)))
                }
                None => Ending::Failure,
            },
            Err(_) => Ending::Failure,
        }
    }

    fn is_success(&self) -> bool {
        self.result.is_ok()
    }

    fn name(&self) -> Cow<'static, str> {
        match &self.result {
            Ok(_) => "Ok".into(),
            Err(RunError::Panicked) => "panicked".into(),
            Err(_) => "failed".into(),
        }
    }

    fn error(&self) -> Option<&(dyn Error + 'static)> {
        match &self.result {
            Err(RunError::Failed { error, .. }) => error.as_error(),
            _ => None,
        }
    }

    fn with(mut self, notes: Notes) -> Self {
        if let Err(RunError::Failed { is_final, .. }) = &mut self.result {
            *is_final |= notes.outcome == Some(ErrorOutcome::Kept);
        }
        self
    }
}

fn decode<C: Codec>(message: &[u8], codec: &str) -> Result<C::Response, CodecError> {
    // A reconciler's outcome, found in the background, names no codec.
    if !codec.is_empty() && codec != C::NAME {
        return Err(format!("it was written by the codec {codec:?}, and this one is {:?}", C::NAME).into());
    }
    C::decode(message)
}
