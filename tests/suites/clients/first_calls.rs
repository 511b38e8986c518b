//! First calls, which other clients repeat.

use serde_json::Value;
use uuid::Uuid;

use crate::{call::Call, client::Client, expect, sample::Sample};

/// A call that one client has made, for others to repeat.
#[derive(Debug)]
pub(crate) struct FirstCall {
    /// The client that made it.
    pub(crate) by: String,
    pub(crate) call: Call,
    pub(crate) name: String,
    pub(crate) response: Value,
}

impl FirstCall {
    /// Makes a call with a new key.
    pub(crate) async fn make(client: &Client, sample: &Sample) -> Result<Self, String> {
        let key = Uuid::new_v4();
        let name = format!("project {key}");
        let call = sample.create_project(sample.ready.cluster_id, &name).key(key);
        let reply = client.call(&call).await?;
        expect::first(&reply)?;
        expect::protocol(&reply, client.protocol)?;
        Ok(Self { by: client.to_string(), call, name, response: reply.body })
    }
}
