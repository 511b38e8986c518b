//! The clients: each sends one operation, more than once.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::time::{sleep, sleep_until, timeout};
use tonic::{Code, Request, Status};
use tonic_idempotency::rejection::Reason;
use tonic_idempotency_client::{IdempotencyClientLayer, Layer as _, OperationKey, Unresolved};
use uuid::Uuid;

use crate::{
    headers::{ATTEMPT, DELIVERED, SCOPE, USER},
    ledger::{Answer, Ledger, Says},
    network::Network,
    plan::{Operation, Procedure, Settings},
    service::{
        message_of,
        proto::{EnterReply, EnterRequest, ledger_client::LedgerClient},
    },
    world::{Random, World},
};

/// How often an operation is sent when all faults are over, and how long apart, before its key counts as stuck.
const LAST_ATTEMPTS: u32 = 100;
const LAST_PAUSE: Duration = Duration::from_secs(2);
const LAST_PATIENCE: Duration = Duration::from_secs(60);

/// The client of one operation.
#[derive(Clone)]
pub struct Client {
    /// The world.
    pub world: World,
    /// The operation.
    pub operation: Arc<Operation>,
    /// The way to the servers.
    pub network: Network,
    /// The settings of the run.
    pub settings: Arc<Settings>,
    /// The evidence.
    pub ledger: Ledger,
    /// The client's layer, if it has one.
    pub layer: Option<IdempotencyClientLayer>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("operation", &self.operation.number).finish_non_exhaustive()
    }
}

impl Client {
    /// Sends the operation as its plan says, while there are faults.
    pub async fn send(self, mut random: Random) {
        let operation = &self.operation;
        let begun = tokio::time::Instant::now();
        sleep_until(begun + operation.begins).await;
        let duplicates = (0..operation.duplicates).map(|_| {
            let client = self.clone();
            tokio::spawn(async move { client.attempt(client.operation.patience).await })
        });
        let duplicates: Vec<_> = duplicates.collect();
        for _ in 0..operation.attempts {
            self.attempt(operation.patience).await;
            sleep(random.duration(Duration::from_millis(1)..=operation.pause)).await;
        }
        for duplicate in duplicates {
            duplicate.await.expect("a client does not panic");
        }
    }

    /// Sends the operation once, with its duplicates, and without a layer.
    pub async fn send_at_last(mut self) {
        self.layer = None;
        let server = self.operation.server;
        let attempts = (0..=self.operation.duplicates).map(|_| {
            let mut client = self.clone();
            client.network = client.network.to(server);
            async move { client.attempt(LAST_PATIENCE).await }
        });
        join_all(attempts.collect::<Vec<_>>()).await;
    }

    /// Sends the operation until there is a final answer, when all faults are over. Returns whether there was one.
    pub async fn end(&self) -> bool {
        let mut left = if self.operation.has_key { LAST_ATTEMPTS } else { 0 };
        let mut crowded = 0;
        while left > 0 {
            let says = self.attempt(LAST_PATIENCE).await;
            // Hundreds whose handlers take long wait for a few transactions: such an answer counts for a quarter.
            let is_crowded = matches!(says, Says::Refused(Reason::Overloaded));
            crowded += u32::from(is_crowded);
            left -= u32::from(!is_crowded || crowded.is_multiple_of(4));
            match says {
                Says::Done { .. }
                | Says::Refused(
                    Reason::KeyExpired
                    | Reason::KeyReused
                    | Reason::NotStored
                    | Reason::NoUser
                    | Reason::OutcomeUnknown
                    | Reason::TooManyRecords,
                ) => return true,
                Says::Failed(Code::FailedPrecondition, _) if !self.settings.policies.final_errors.is_empty() => {
                    return true;
                }
                _ => sleep(LAST_PAUSE).await,
            }
        }
        !self.operation.has_key
    }

    async fn attempt(&self, patience: Duration) -> Says {
        let sent = self.world.time();
        let attempt = self.ledger.attempt(self.operation.number);
        self.tell(format_args!("{}", if self.operation.is_delivered { "delivers" } else { "sends" }));
        let says = match timeout(patience, self.call(patience, attempt)).await {
            Err(_) => Says::Nothing,
            Ok(Ok(reply)) => said(reply),
            Ok(Err(status)) => failed(&status),
        };
        self.tell(format_args!("hears {says:?}"));
        self.hear(attempt, sent, says.clone());
        says
    }

    /// Notes an answer.
    pub(crate) fn hear(&self, attempt: usize, sent: Duration, says: Says) {
        self.world.count("answer", &says.kind());
        if let Says::Done { status: Some(status), .. } = &says {
            self.world.count("status", status);
        }
        let (operation, got) = (self.operation.number, self.world.time());
        self.ledger.lock().answers.push(Answer { operation, attempt, sent, got, says });
    }

    async fn call(&self, patience: Duration, attempt: usize) -> Result<Reply, Status> {
        let mut request = self.request(patience, attempt);
        let procedure = self.operation.procedure;
        if let Some(layer) = &self.layer {
            answered(LedgerClient::new(layer.layer(self.network.clone())), request, procedure).await
        } else {
            if self.operation.has_key {
                let key = Uuid::to_string(&self.operation.key);
                request.metadata_mut().insert("idempotency-key", key.parse().expect("a UUID is ASCII"));
            }
            answered(LedgerClient::new(self.network.clone()), request, procedure).await
        }
    }

    /// Makes the request. The client's layer finds its key in it.
    pub(crate) fn request(&self, patience: Duration, attempt: usize) -> Request<EnterRequest> {
        let operation = &self.operation;
        let mut request = Request::new(message_of(operation));
        request.extensions_mut().insert(OperationKey::from(operation.key));
        request.metadata_mut().insert(ATTEMPT, (attempt as u64).into());
        if let Some(user) = operation.user {
            request.metadata_mut().insert(USER, user.to_string().parse().expect("a UUID is ASCII"));
            request.metadata_mut().insert(SCOPE, i16::from(operation.scope).into());
        }
        if operation.is_delivered {
            request.metadata_mut().insert(DELIVERED, 1.into());
        }
        if operation.tells_patience {
            request.set_timeout(patience.mul_f64(operation.told));
        }
        request
    }

    pub(crate) fn tell(&self, event: fmt::Arguments<'_>) {
        self.world.tell(format_args!("client {}", self.operation.number), event);
    }
}

/// A reply, and what its head says.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) reply: EnterReply,
    pub(crate) is_replay: bool,
    pub(crate) status: Option<String>,
}

pub(crate) fn said(Reply { reply, is_replay, status }: Reply) -> Says {
    let run = usize::try_from(reply.run).unwrap_or(usize::MAX);
    Says::Done { run, owner: reply.owner, text: reply.text, is_replay, status }
}

pub(crate) fn failed(status: &Status) -> Says {
    match Reason::of(status) {
        Some(Reason::OutcomeUnknown) => Says::Refused(Reason::OutcomeUnknown),
        _ if Unresolved::of(status).is_some() => Says::Unresolved,
        Some(reason) => Says::Refused(reason),
        None => Says::Failed(status.code(), status.message().to_owned()),
    }
}

pub(crate) async fn answered<S>(
    mut client: LedgerClient<S>,
    request: Request<EnterRequest>,
    procedure: Procedure,
) -> Result<Reply, Status>
where
    S: tonic::client::GrpcService<tonic::body::Body>,
    S::Error: Into<tonic::codegen::StdError>,
    S::ResponseBody: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    <S::ResponseBody as http_body::Body>::Error: Into<tonic::codegen::StdError> + Send,
{
    let response = match procedure {
        Procedure::Send => client.send(request).await?,
        Procedure::Insert => client.insert(request).await?,
        Procedure::Enter => client.enter(request).await?,
    };
    let is_replay = response.metadata().contains_key("idempotent-replayed");
    let status = response.metadata().get("idempotency-status").map(|status| status.to_str().unwrap_or("?").to_owned());
    Ok(Reply { reply: response.into_inner(), is_replay, status })
}
