//! Without the feature `seal` there are no keys: nothing is sealed, and nothing opened.

use std::error::Error;

use protobuf_canonical::RequestHashes;

use super::subject::Subject;
use crate::store::StoredResponse;

pub(crate) type KeyError = Box<dyn Error + Send + Sync>;

/// There is none.
pub(crate) enum Sealer {}

/// There are none.
#[derive(Clone, Debug)]
pub(crate) enum CallKeys {}

impl Sealer {
    pub(crate) async fn keys(&self, _: Subject<'_>) -> Result<Option<CallKeys>, KeyError> {
        match *self {}
    }

    pub(crate) async fn other_hashes(
        &self,
        _: Subject<'_>,
        _: Option<&CallKeys>,
        _: &RequestHashes,
    ) -> Result<Vec<RequestHashes>, KeyError> {
        match *self {}
    }

    pub(crate) async fn open(
        &self,
        _: Subject<'_>,
        _: &StoredResponse,
    ) -> Result<Result<StoredResponse, String>, KeyError> {
        match *self {}
    }
}

impl CallKeys {
    pub(crate) fn hashes(&self, _: Subject<'_>, _: &RequestHashes) -> RequestHashes {
        match *self {}
    }

    pub(crate) fn seal(&self, _: Subject<'_>, _: StoredResponse) -> StoredResponse {
        match *self {}
    }
}
