//! The commands on Redis and Valkey, where operators can look, and change nothing.

use crate::{args::Command, failure::Failure};

/// Returns the address, if `DATABASE_URL` is that of Redis.
pub(crate) fn address() -> Option<String> {
    std::env::var("DATABASE_URL").ok().filter(|url| url.starts_with("redis://") || url.starts_with("rediss://"))
}

#[cfg(not(feature = "redis"))]
pub(crate) async fn ask(_: &Command, _: &str) -> Result<(), Failure> {
    let build = "cargo install --path crates/tonic-idempotency-cli --features redis";
    Err(Failure::Input(format!("this program was built without Redis: {build}; see docs/redis.md")))
}

#[cfg(feature = "redis")]
pub(crate) use self::with_redis::ask;

#[cfg(feature = "redis")]
mod with_redis {
    use std::time::SystemTime;

    use tonic_idempotency::{
        Caller, IdempotencyKey, KeyId, Scope, UserId,
        policy::KeyFormat,
        store::{CallSession, KeyRecord, KeyState, LookUp, Store as _},
    };
    use tonic_idempotency_redis::{RedisStore, VerifyError, redis::Client};

    use super::{Command, Failure};
    use crate::{
        health::{DoctorOptions, Finding, report},
        keys::{InspectOptions, Key},
        output,
    };

    /// Runs a command that looks. The others are of PostgreSQL.
    pub(crate) async fn ask(command: &Command, url: &str) -> Result<(), Failure> {
        // The address may have a password.
        let client = Client::open(url).map_err(|error| Failure::Input(format!("DATABASE_URL: {error}")))?;
        let store = RedisStore::single(client);
        match command {
            Command::Inspect(options) => inspect(options, &store).await,
            Command::Doctor(options) => doctor(options, &store).await,
            _ => Err(Failure::Input("on Redis there are `inspect` and `doctor` only: see docs/redis.md".to_owned())),
        }
    }

    async fn inspect(options: &InspectOptions, store: &RedisStore) -> Result<(), Failure> {
        let look_up = look_up(&options.key)?;
        let record = store.look_up(&look_up).await.map_err(|error| Failure::NoAnswer(error.to_string()))?;
        let KeyRecord { state, procedure, expires, resource, .. } = record;
        if options.connection.json {
            let expires = expires.map(|time| humantime::format_rfc3339_seconds(time).to_string());
            let resource = resource.map(|resource| resource.id.to_text().into_owned());
            let (key_id, owner) = (look_up.key.as_uuid(), look_up.owner.as_uuid());
            let line = serde_json::json!({ "state": state.as_str(), "procedure": procedure, "expires": expires,
                "resource": resource, "key_id": key_id.to_string(), "owner": owner.to_string() });
            return output::line(&line.to_string());
        }
        let left = expires.and_then(|expires| expires.duration_since(SystemTime::now()).ok());
        let for_now =
            left.map_or(String::new(), |left| format!(" for another {}", output::duration(left.as_secs_f64())));
        let [cause, retry, next] = match state {
            KeyState::Running => ["a call holds it", "is refused, or waits", "wait: nothing frees a key on Redis"],
            KeyState::Completed => ["the call has a response", "gets the response", "nothing"],
            KeyState::Failed => ["the call has an error that ended its operation", "gets the error", "nothing"],
            KeyState::Unknown => [
                "the call ended without an outcome",
                "runs again, is refused or asks the reconciler: on_lease_ended",
                "look for the effect; nothing frees a key on Redis but the end of its record",
            ],
            _ => ["there is no record, or it has expired", "runs", "nothing"],
        };
        output::line(&format!("{}: {cause}{for_now}", state.as_str()))?;
        output::line(&format!("{:<10} {retry}", "a retry"))?;
        output::line(&format!("{:<10} {next}", "next"))
    }

    fn look_up(key: &Key) -> Result<LookUp, Failure> {
        let bad = |name: &str, error: &dyn std::fmt::Display| Failure::Input(format!("{name}: {error}"));
        let id = match &key.operation {
            Some(name) => KeyId::of_operation(name, &key.key),
            None => IdempotencyKey::new(&key.key, KeyFormat::Any).map_err(|error| bad("the key", &error))?.id(),
        };
        let mut caller = Caller::new(UserId::from_text(&key.user).map_err(|error| bad("--user", &error))?);
        if let Some(scope) = &key.scope {
            caller = caller.in_scope(Scope::from_text(scope).map_err(|error| bad("--scope", &error))?);
        }
        let owner = caller.owner();
        Ok(LookUp { owner, key: id, session: CallSession { user: None, settings: None }, with_status: false })
    }

    async fn doctor(options: &DoctorOptions, store: &RedisStore) -> Result<(), Failure> {
        let findings = match store.verify().await {
            Ok(()) => vec![Finding::ok("server", "its version, policy and replicas are right")],
            Err(VerifyError::Setup(problems)) => problems
                .iter()
                .map(|problem| {
                    let said = problem.to_string();
                    let (reason, cure) = said.split_once("; ").unwrap_or((&said, "see docs/redis.md"));
                    Finding::found("server", reason, cure, "an administrator of Redis")
                })
                .collect(),
            Err(error) => return Err(Failure::NoAnswer(error.to_string())),
        };
        report(&findings, options.connection.json)
    }
}
