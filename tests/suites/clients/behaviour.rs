//! The behaviours that every client is tested with: the columns of the table.

use uuid::Uuid;

use crate::{
    call::Call,
    client::Client,
    eventually::eventually,
    expect::{self, ABORTED, INVALID_ARGUMENT},
    first_calls::FirstCall,
    sample::Sample,
};

/// A column of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Behaviour {
    First,
    Replay,
    CrossProtocol,
    ChangedRequest,
    OtherProcedure,
    InFlight,
    BadKey,
    FreeFormKey,
    KeyInMessage,
    Completed,
}

impl Behaviour {
    pub(crate) const ALL: [Self; 10] = [
        Self::First,
        Self::Replay,
        Self::CrossProtocol,
        Self::ChangedRequest,
        Self::OtherProcedure,
        Self::InFlight,
        Self::BadKey,
        Self::FreeFormKey,
        Self::KeyInMessage,
        Self::Completed,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::First => "first call",
            Self::Replay => "replay",
            Self::CrossProtocol => "cross-protocol replay",
            Self::ChangedRequest => "changed request",
            Self::OtherProcedure => "other procedure",
            Self::InFlight => "in flight",
            Self::BadKey => "bad key",
            Self::FreeFormKey => "free-form key",
            Self::KeyInMessage => "key in the message",
            Self::Completed => "completed",
        }
    }

    /// Tests the behaviour with a client. An error says what the client saw instead of the expected result.
    pub(crate) async fn show(self, client: &Client, sample: &Sample, others: &[&FirstCall]) -> Result<(), String> {
        match self {
            Self::First => FirstCall::make(client, sample).await.map(drop),
            Self::Replay => replay(client, sample).await,
            Self::CrossProtocol => cross_protocol(client, sample, others).await,
            Self::ChangedRequest => changed_request(client, sample).await,
            Self::OtherProcedure => other_procedure(client, sample).await,
            Self::InFlight => in_flight(client, sample).await,
            Self::BadKey => bad_key(client, sample).await,
            Self::FreeFormKey => free_form_key(client, sample).await,
            Self::KeyInMessage => key_in_message(client, sample).await,
            Self::Completed => completed(client, sample).await,
        }
    }
}

async fn replay(client: &Client, sample: &Sample) -> Result<(), String> {
    let first = FirstCall::make(client, sample).await?;
    repeat(client, sample, &first).await
}

/// Repeats the first calls of the other clients, with their keys.
async fn cross_protocol(client: &Client, sample: &Sample, others: &[&FirstCall]) -> Result<(), String> {
    for first in others {
        repeat(client, sample, first).await.map_err(|error| format!("first {}: {error}", first.by))?;
    }
    Ok(())
}

async fn changed_request(client: &Client, sample: &Sample) -> Result<(), String> {
    let first = FirstCall::make(client, sample).await?;
    let mut changed = first.call.clone();
    changed.message["labels"]["tier"] = "silver".into();
    expect::mismatch(&client.call(&changed).await?, "request")?;
    created_once(sample, &first).await
}

async fn other_procedure(client: &Client, sample: &Sample) -> Result<(), String> {
    let first = FirstCall::make(client, sample).await?;
    let mut other = sample.create_cluster(&first.name);
    other.headers.clone_from(&first.call.headers);
    expect::mismatch(&client.call(&other).await?, "procedure")?;
    sample.has(0, "clusters", &first.name).await
}

/// Holds the handler of the first call, and repeats the call.
async fn in_flight(client: &Client, sample: &Sample) -> Result<(), String> {
    let (cluster, held) = sample.held_cluster().await;
    let key = Uuid::new_v4();
    let call = sample.create_project(cluster, &format!("project {key}")).key(key);
    let first = async {
        let first = client.call(&call).await?;
        expect::first(&first).map(drop)
    };
    let second = async {
        sample.until_blocked(&held).await;
        let second = client.call(&call).await;
        held.release().await;
        second
    };
    let (first, second) = tokio::join!(first, second);
    first?;
    let second = second?;
    expect::rejection(&second, ABORTED, "IDEMPOTENCY_IN_PROGRESS")?;
    let delay =
        second.detail("RetryInfo").and_then(|info| info["retryDelay"].as_str()?.strip_suffix('s')?.parse().ok());
    expect::that(delay.is_some_and(|delay: f64| delay > 0.0), "a RetryInfo with a delay", &second)
}

async fn bad_key(client: &Client, sample: &Sample) -> Result<(), String> {
    let name = format!("project {}", Uuid::new_v4());
    let refused = client.call(&sample.create_project(sample.ready.cluster_id, &name).key("order-17")).await?;
    expect::rejection(&refused, INVALID_ARGUMENT, "IDEMPOTENCY_KEY_INVALID")?;
    let violations = refused.detail("BadRequest").map(|detail| &detail["fieldViolations"]);
    let header = violations.is_some_and(|violations| violations[0]["field"] == "idempotency-key");
    expect::that(header, "a BadRequest that names the header", &refused)?;
    sample.has(0, "projects", &name).await
}

/// Repeats a call with a key that is not a UUID, bare and as a string; and one whose key has to be a string.
async fn free_form_key(client: &Client, sample: &Sample) -> Result<(), String> {
    let name = format!("install {}", Uuid::new_v4());
    let add = |key: &str| sample.add_install(&name).key(key);
    let (order, list) = (format!("order-{}", Uuid::new_v4()), format!("\"order,{}\"", Uuid::new_v4()));
    for (first, again) in [(order.clone(), format!("\"{order}\"")), (list.clone(), list)] {
        let first = client.call(&add(&first)).await?;
        expect::first_of(&first, "installId")?;
        expect::replay_of(&client.call(&add(&again)).await?, &first.body)?;
    }
    sample.has(2, "installs", &name).await
}

/// Repeats a call whose key is in the message, without the header and with one that disagrees.
async fn key_in_message(client: &Client, sample: &Sample) -> Result<(), String> {
    let name = format!("cluster {}", Uuid::new_v4());
    let mut call = sample.create_cluster(&name);
    call.message["requestId"] = Uuid::new_v4().to_string().into();
    let first = client.call(&call).await?;
    expect::first_of(&first, "clusterId")?;
    expect::replay_of(&client.call(&call).await?, &first.body)?;

    let refused = client.call(&call.key(Uuid::new_v4())).await?;
    let info = expect::rejection(&refused, INVALID_ARGUMENT, "IDEMPOTENCY_KEY_INVALID")?;
    expect::that(info["metadata"]["mismatch"] == "key_field", "mismatch: key_field", &refused)?;
    sample.has(1, "clusters", &name).await
}

/// Replays until the status has changed.
async fn completed(client: &Client, sample: &Sample) -> Result<(), String> {
    let key = Uuid::new_v4();
    let call: Call = sample.create_project(sample.ready.cluster_id, &format!("project {key}")).key(key);
    let first = client.call(&call).await?;
    let project = expect::first(&first)?;
    let replayed = async || {
        let reply = client.call(&call).await?;
        expect::replay(&reply, &first.body).map(str::to_owned)
    };
    let before = replayed().await?;
    if before != "processing" {
        return Err(format!("expected processing, got {before}"));
    }
    sample.age(project).await;
    let after = eventually("the outbox is processed", || async {
        match replayed().await {
            Ok(status) if status == "processing" => None,
            moved => Some(moved),
        }
    });
    match after.await?.as_str() {
        "completed" => Ok(()),
        other => Err(format!("expected completed, got {other}")),
    }
}

/// Repeats a call that was made before.
async fn repeat(client: &Client, sample: &Sample, first: &FirstCall) -> Result<(), String> {
    match expect::replay(&client.call(&first.call).await?, &first.response)? {
        "processing" => created_once(sample, first).await,
        other => Err(format!("expected processing, got {other}")),
    }
}

async fn created_once(sample: &Sample, first: &FirstCall) -> Result<(), String> {
    sample.has(1, "projects", &first.name).await
}
