//! The server that is checked, and what the promises ask of it.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use http::HeaderMap;
use prost::Message as _;
use prost_reflect::DynamicMessage;
use protobuf_canonical::Canonical;
use tokio::time::sleep;
use uuid::Uuid;

use super::{
    effects::{self, Counter},
    finding::{Checked, Finding, Proof, failed, not_checked},
    operation::Operation,
    options::{Level, Target},
    request::Template,
    schema::Schema,
    secrets::{Header, Secrets},
    wire::{Address, Answer, Connection},
};
use crate::{
    failure::Failure,
    output::{counted, quoted},
};

/// How long a server takes at most to be there again.
const START: Duration = Duration::from_secs(20);

/// The time between two attempts.
const BETWEEN: Duration = Duration::from_millis(400);

/// How long an effect may be late, of a call that was given up.
const LATE: Duration = Duration::from_millis(300);

/// How long calls take.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    /// Twice the time of the first call.
    pub(super) usual: Duration,
    /// The time of a call that is made slow; none without that.
    pub(super) slow: Duration,
}

pub(super) struct Server {
    pub(super) address: Arc<Address>,
    pub(super) also: Option<Arc<Address>>,
    pub(super) template: Template,
    pub(super) other: Option<Template>,
    pub(super) headers: Vec<Header>,
    pub(super) second_headers: Vec<Header>,
    pub(super) slow: Option<Header>,
    pub(super) level: Level,
    pub(super) secrets: Secrets,
    /// The flags with which grpcurl can call it.
    pub(super) grpcurl: Vec<String>,
    counter: Option<Counter>,
    restart: Option<String>,
    /// Measured by the probe.
    times: Mutex<Times>,
    shared: tokio::sync::Mutex<Option<Arc<Connection>>>,
    pub(super) calls: AtomicU64,
    /// The last call, for the line that repeats it.
    pub(super) last: Mutex<Option<String>>,
}

impl Server {
    /// Connects, and learns the types of what is called.
    pub(super) async fn of(target: &Target) -> Result<Self, Failure> {
        let mut secrets = Secrets::default();
        let mut header = |text: &String| secrets.header(text);
        let headers = target.headers.iter().map(&mut header).collect::<Result<Vec<_>, _>>()?;
        let second_headers = target.second_headers.iter().map(&mut header).collect::<Result<Vec<_>, _>>()?;
        let slow = target.slow.as_ref().map(&mut header).transpose()?;
        let address = |url: &String| Address::new(url, target.ca.as_deref()).map(Arc::new);
        let also = target.also.as_ref().map(address).transpose()?;
        let address = address(&target.url)?;
        let connection = Connection::open(&address).await;
        let connection = connection.map_err(|lost| Failure::NoAnswer(format!("{}: {lost}", target.url)))?;
        let sent: HeaderMap = headers.iter().map(|header| (header.name.clone(), header.value.clone())).collect();
        let schema = Schema::new(target.descriptor_set.as_deref(), &connection, &sent)?;
        // A server may repeat a token in its error.
        let method = schema.method(&target.method).await;
        let method = method.map_err(|failure| failure.reworded(|text| secrets.hide(text)))?;
        let template = Template::new(method, &target.request, &mut secrets)?;
        let other = match &target.other {
            Some(other) => {
                let (method, json) = other
                    .split_once(char::is_whitespace)
                    .ok_or_else(|| Failure::Input("--other: a method, a space and its JSON".to_owned()))?;
                let method = schema.method(method).await;
                let method = method.map_err(|failure| failure.reworded(|text| secrets.hide(text)))?;
                Some(Template::new(method, json, &mut secrets)?)
            }
            None => None,
        };
        let mut grpcurl = Vec::new();
        if address.is_plaintext() {
            grpcurl.push("-plaintext".to_owned());
        }
        for (flag, path) in [("-cacert", &target.ca), ("-protoset", &target.descriptor_set)] {
            grpcurl.extend(path.iter().map(|path| format!("{flag} {}", quoted(&path.display().to_string()))));
        }
        Ok(Self {
            address,
            also,
            template,
            other,
            headers,
            second_headers,
            slow,
            level: target.level,
            secrets,
            grpcurl,
            counter: target.count.as_deref().map(Counter::new),
            restart: target.restart.clone(),
            times: Mutex::default(),
            shared: tokio::sync::Mutex::new(Some(Arc::new(connection))),
            calls: AtomicU64::new(0),
            last: Mutex::default(),
        })
    }

    /// Returns a new operation, with a key of its own.
    pub(super) fn operation(&self) -> Result<Operation, Finding> {
        self.operation_of(&self.template, Uuid::new_v4())
    }

    /// Returns the call of the other method with an operation's `{{uuid}}` and key; `None` if no other method is given.
    pub(super) fn other_of(&self, operation: &Operation) -> Result<Option<Operation>, Finding> {
        let Some(template) = &self.other else { return Ok(None) };
        let other = self.operation_of(template, operation.uuid)?;
        Ok(Some(Operation { key: operation.key.clone(), ..other }))
    }

    fn operation_of(&self, template: &Template, uuid: Uuid) -> Result<Operation, Finding> {
        let message = template.message(uuid).map_err(Failure::Input)?;
        let plain = message.encode_to_vec();
        let canonical = Canonical::new(&template.method.input);
        let encoded = canonical.encode(&plain).map_err(|error| Failure::Input(error.to_string()))?.into_owned();
        Ok(Operation { uuid, key: Uuid::new_v4().to_string(), message, encoded: encoded.into() })
    }

    /// The connection that calls share. It is opened again if the server has closed it.
    pub(super) async fn shared(&self) -> Result<Arc<Connection>, Answer> {
        let mut shared = self.shared.lock().await;
        match &*shared {
            Some(connection) if connection.is_open() => Ok(Arc::clone(connection)),
            _ => {
                let connection =
                    Arc::new(Connection::open(&self.address).await.map_err(|lost| Answer::from(Err(lost)))?);
                *shared = Some(Arc::clone(&connection));
                Ok(connection)
            }
        }
    }

    /// Opens connections of their own, at this server or at the other.
    pub(super) async fn connections(&self, address: &Arc<Address>, number: usize) -> Result<Vec<Connection>, Finding> {
        let mut connections = Vec::new();
        for _ in 0..number {
            connections.push(self.connection(address).await?);
        }
        Ok(connections)
    }

    pub(super) async fn connection(&self, address: &Arc<Address>) -> Result<Connection, Finding> {
        let lost = |lost| Failure::NoAnswer(format!("{}: {lost}", address.target()));
        Ok(Connection::open(address).await.map_err(lost)?)
    }

    /// Finds that an operation has had one effect.
    pub(super) async fn has_one_effect(&self, operation: &Operation, answers: &[&Answer]) -> Checked {
        self.has_effects(operation, 1, answers).await
    }

    /// Finds that an operation has had so many effects. Without a counter, ids in the answers may show that it had too many.
    pub(super) async fn has_effects(&self, operation: &Operation, expected: u64, answers: &[&Answer]) -> Checked {
        let Some(effects) = self.effects(operation).await? else {
            let mut ids = answers.iter().filter_map(|answer| self.ids(answer.message()?));
            return match ids.next() {
                Some(first) if ids.any(|other| other != first) => failed("two responses, with different ids"),
                _ => not_checked("needs --count"),
            };
        };
        if effects == expected {
            return Ok(Proof::Effects(effects));
        }
        failed(format!("{} instead of {expected}", counted(effects, "effect")))
    }

    /// Returns how often an operation has taken effect; `None` without a counter.
    pub(super) async fn effects(&self, operation: &Operation) -> Result<Option<u64>, Finding> {
        match &self.counter {
            Some(counter) => Ok(Some(counter.count(operation.uuid).await?)),
            None => Ok(None),
        }
    }

    /// Waits until a call that was given up has had its effect, if it ever will. It began then, and takes so long.
    pub(super) async fn settles(&self, begun: Instant, time: Duration) {
        sleep((time + LATE).saturating_sub(begun.elapsed())).await;
    }

    /// The ids in a response, as far as its names tell.
    fn ids(&self, message: &[u8]) -> Option<Vec<String>> {
        let message = DynamicMessage::decode(self.template.method.output.clone(), message).ok()?;
        let ids = message.fields().filter(|(field, _)| {
            let name = field.name();
            matches!(name, "id" | "uid" | "name" | "number") || name.ends_with("_id") || name.ends_with("_uid")
        });
        Some(ids.map(|(_, value)| value.to_string()).collect())
    }

    pub(super) fn times(&self) -> Times {
        *self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_times(&self, times: Times) {
        *self.times.lock().unwrap_or_else(PoisonError::into_inner) = times;
    }

    /// The middle of a handler that is made slow.
    pub(super) async fn is_in_handler(&self) {
        sleep(self.times().slow / 3).await;
    }

    /// Kills the server, and starts it again.
    pub(super) async fn restart(&self) -> Result<(), Finding> {
        let Some(command) = &self.restart else { return not_checked("needs --restart") };
        effects::restart(command).await?;
        let begun = Instant::now();
        loop {
            match Connection::open(&self.address).await {
                Ok(connection) => {
                    *self.shared.lock().await = Some(Arc::new(connection));
                    return Ok(());
                }
                Err(lost) if begun.elapsed() > START => {
                    return Err(Failure::NoAnswer(format!("after --restart: {lost}")).into());
                }
                Err(_) => sleep(BETWEEN).await,
            }
        }
    }

    pub(super) fn restarts(&self) -> bool {
        self.restart.is_some()
    }

    pub(super) fn add_call(&self, repeat: String) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(repeat);
    }
}
