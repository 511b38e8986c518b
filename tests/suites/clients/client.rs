//! A client and its protocol.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::timeout;

use crate::{
    buf::Buf,
    call::{Call, Reply},
    driver::Driver,
    grpcurl::Grpcurl,
    protocol::Protocol,
    tonic_client::TonicClient,
};

/// The time that a call may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client with one protocol: a row of the table.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) name: &'static str,
    pub(crate) protocol: Protocol,
    pub(crate) version: String,
    caller: Caller,
}

/// The program or library that makes the calls.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    Buf(Buf),
    Driver(Arc<Driver>),
    Grpcurl(Grpcurl),
    Tonic(Box<TonicClient>),
}

impl Client {
    pub(crate) fn new(name: &'static str, version: String, protocol: Protocol, caller: Caller) -> Self {
        Self { name, protocol, version, caller }
    }

    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Makes a call, and returns the reply as the client saw it.
    ///
    /// # Errors
    ///
    /// The call could not be made, or its answer could not be read. The error is a sentence.
    pub(crate) async fn call(&self, call: &Call) -> Result<Reply, String> {
        let reply = async {
            match &self.caller {
                Caller::Buf(buf) => buf.call(self.protocol, call).await,
                Caller::Driver(driver) => driver.call(self.name, self.protocol, call).await,
                Caller::Grpcurl(grpcurl) => grpcurl.call(call).await,
                Caller::Tonic(tonic) => tonic.call(self.protocol, call).await,
            }
        };
        timeout(PATIENCE, reply).await.map_err(|_| format!("no reply within {PATIENCE:?}"))?
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} over {}", self.name, self.protocol)
    }
}
