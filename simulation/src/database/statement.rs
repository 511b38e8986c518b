//! Statements, known by their texts: [`Action`].

use std::{collections::HashMap, fmt, sync::LazyLock, time::Duration};

use bytes::Bytes;
use tonic_idempotency::{
    KeyId, OwnerId,
    policy::{EffectPolicy, ForeignPolicy, LeasePolicy},
    status::{Resource, ResourceId},
    store::{
        AbandonedQuery, CallSession, Claim, Completion, RequestHash, RequestHashes, Reservation, ResourceType,
        ResourceTypes, StoredMessage, StoredResponse,
        driver::{Statement, Value, statements},
    },
};
use uuid::Uuid;

use super::error::SqlError;

/// Returns the resource types that the database knows: `project`, with a column of its own and a status, and `email`, without.
pub fn resource_types() -> ResourceTypes {
    ResourceTypes::new([
        ResourceType::new("project", "project_id", "tenant.projects").tracked(),
        ResourceType::unreferenced("email"),
    ])
}

/// The names of the statements by their texts. Only looked up in, so that its order does not matter.
static NAMES: LazyLock<HashMap<String, String>> =
    LazyLock::new(|| statements(resource_types()).into_iter().map(|(name, text)| (text, name)).collect());

/// A statement that was sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) name: &'static str,
    /// Whether it is a procedure, which commits first, and so fails in a transaction block.
    pub(super) is_procedure: bool,
    /// Whether the store counts it, if it asks which of its statements still run.
    pub(super) is_of_store: bool,
    pub(super) action: Action,
}

/// The question about statements that run, up to the age that it ends in.
static RUNNING: LazyLock<String> = LazyLock::new(|| {
    let (text, _) = NAMES.iter().find(|(_, name)| *name == "running").expect("the store asks it");
    text.trim_end_matches('0').to_owned()
});

/// A statement's meaning, with its parameters.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Abandon(Reservation),
    Abandoned(AbandonedQuery),
    Allow(Allowance),
    Ask,
    Begin {
        claim: Claim,
        idle: f64,
        until: f64,
    },
    /// `asks` says whether its message finds out that a transaction was open.
    BeginTransaction {
        asks: bool,
    },
    BeginWithoutKey {
        idle: f64,
    },
    Claim {
        claim: Claim,
        until: f64,
    },
    Commit {
        claim: Claim,
        completion: Completion,
    },
    Committed(Reservation),
    CommitTransaction,
    Complete {
        reservation: Reservation,
        completion: Completion,
    },
    Effect {
        owner: Uuid,
        key: Uuid,
        call: u64,
        is_unique: bool,
    },
    Empty,
    Extend {
        reservation: Reservation,
        lease: Duration,
    },
    Look(Vec<(Reservation, Option<String>)>),
    LookUp {
        reservation: Reservation,
        status_of: Vec<String>,
    },
    /// A column that no resource type has.
    NoType,
    Record {
        claim: Claim,
        completion: Completion,
    },
    Release(Reservation),
    ReleaseSavepoint(String),
    RollBack,
    RollBackTo(String),
    Savepoint(String),
    SelectOne,
    Status {
        resource: String,
    },
    Sweep {
        batch: usize,
    },
    Take {
        reservation: Reservation,
        idle: f64,
        until: f64,
        is_free: bool,
    },
    Who,
    WriteMany {
        claims: Vec<Claim>,
        is_asynchronous: bool,
        until: f64,
        completions: Vec<(Reservation, Completion)>,
    },
}

/// The parameters of `tenant.idempotency_allow`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    pub(super) owner: Uuid,
    pub(super) server: Uuid,
    pub(super) most: i64,
    pub(super) in_flight: i64,
    pub(super) records: i64,
    pub(super) seconds: f64,
}

impl Sent {
    /// Recognises a statement.
    ///
    /// # Panics
    ///
    /// If it is not known, or has other parameters.
    pub(super) fn query(statement: Statement<'_>) -> Self {
        let Some((_, name)) = NAMES.get_key_value(statement.sql).filter(|(_, name)| *name != "running") else {
            panic!("an unknown statement: {}", statement.sql)
        };
        let mut given = Parameters(statement.parameters.iter());
        let action = given.action(name);
        assert!(given.0.next().is_none(), "further parameters of {name}");
        Self::new(name, statement.sql, action)
    }

    /// Recognises a statement without parameters.
    ///
    /// # Panics
    ///
    /// If it is not known.
    pub(super) fn simple(sql: &str) -> Self {
        let after = |words| sql.strip_prefix(words).map(str::to_owned);
        let (name, action) = match sql {
            "" => ("nothing", Action::Empty),
            _ if sql.starts_with("BEGIN ISOLATION LEVEL ") => {
                ("BEGIN", Action::BeginTransaction { asks: sql.contains("statement_timestamp()") })
            }
            "COMMIT" => ("COMMIT", Action::CommitTransaction),
            "DO $$ BEGIN COMMIT; END $$" => ("in no transaction", Action::SelectOne),
            "ROLLBACK" => ("ROLLBACK", Action::RollBack),
            "SELECT 1" => ("SELECT 1", Action::SelectOne),
            _ => (after("SAVEPOINT ").map(|name| ("SAVEPOINT", Action::Savepoint(name))))
                .or_else(|| Some(("ROLLBACK TO", Action::RollBackTo(after("ROLLBACK TO SAVEPOINT ")?))))
                .or_else(|| Some(("RELEASE", Action::ReleaseSavepoint(after("RELEASE SAVEPOINT ")?))))
                .unwrap_or_else(|| panic!("an unknown statement: {sql}")),
        };
        Self::new(name, sql, action)
    }

    /// The handler's own statement.
    pub(super) fn effect(owner: Uuid, key: Uuid, call: u64, is_unique: bool) -> Self {
        Self::new("effect", "", Action::Effect { owner, key, call, is_unique })
    }

    /// Returns whether it carries as many calls as a statement may.
    pub(super) fn is_full(&self) -> bool {
        matches!(&self.action, Action::WriteMany { claims, completions, .. } if claims.len() + completions.len() >= 64)
    }

    fn new(name: &'static str, sql: &str, action: Action) -> Self {
        let is_procedure = sql.starts_with("CALL ") || sql.starts_with("DO ");
        // As the question about them says, whose pattern ignores case.
        let is_of_store = sql.contains("idempotency") || sql.contains("COMMIT");
        Self { name, is_procedure, is_of_store, action }
    }
}

impl Action {
    /// Reads the age off the question about statements that run.
    ///
    /// # Panics
    ///
    /// If it is another.
    pub(super) fn age(begin: &str, sql: &str) -> Duration {
        let age = sql.strip_prefix(RUNNING.as_str()).and_then(|age| age.parse().ok());
        let (true, Some(age)) = (begin.starts_with("BEGIN READ ONLY;"), age) else {
            panic!("an unknown question: {begin}; {sql}")
        };
        Duration::from_secs_f64(age)
    }

    /// Returns whether it begins, ends or divides a transaction, or is none at all.
    pub(super) fn is_of_transaction(&self) -> bool {
        matches!(
            self,
            Self::BeginTransaction { .. }
                | Self::CommitTransaction
                | Self::Empty
                | Self::ReleaseSavepoint(_)
                | Self::RollBack
                | Self::RollBackTo(_)
                | Self::Savepoint(_)
        )
    }

    /// Returns whether it works on a standby. (A look answers nothing there.)
    pub(super) fn is_for_standby(&self) -> bool {
        self.is_of_transaction() || matches!(self, Self::Ask | Self::Look(_) | Self::SelectOne | Self::Who)
    }

    /// Returns its `lock_timeout`.
    pub(super) fn lock_timeout(&self) -> Option<Duration> {
        let is_brief = matches!(
            self,
            Self::Abandon(_) | Self::Complete { .. } | Self::Extend { .. } | Self::Release(_) | Self::WriteMany { .. }
        );
        is_brief.then_some(Duration::from_millis(50))
    }

    /// Returns whether it reads the status of what a call has created, if that call has succeeded.
    pub(super) fn asks_for_status(&self) -> bool {
        match self {
            Self::Begin { claim, .. } | Self::Claim { claim, .. } => claim.resource_type.is_some(),
            Self::Look(looks) => looks.iter().any(|(_, resource_type)| resource_type.is_some()),
            Self::LookUp { status_of, .. } => !status_of.is_empty(),
            Self::Status { .. } => true,
            _ => false,
        }
    }

    fn key(&self) -> Option<Uuid> {
        Some(match self {
            Self::Abandon(reservation)
            | Self::Committed(reservation)
            | Self::Complete { reservation, .. }
            | Self::Extend { reservation, .. }
            | Self::LookUp { reservation, .. }
            | Self::Release(reservation)
            | Self::Take { reservation, .. } => *reservation.key.as_uuid(),
            Self::Begin { claim, .. }
            | Self::Claim { claim, .. }
            | Self::Commit { claim, .. }
            | Self::Record { claim, .. } => *claim.reservation.key.as_uuid(),
            Self::Effect { key, .. } => *key,
            _ => return None,
        })
    }
}

/// For the trace.
impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        match &self.action {
            Action::Look(looks) => write!(f, " of {}", looks.len()),
            Action::WriteMany { claims, completions, .. } => {
                write!(f, " of {} and {}", claims.len(), completions.len())
            }
            action => action.key().map_or(Ok(()), |key| write!(f, " {:.8}", key.as_simple())),
        }
    }
}

/// The parameters of a statement that were not read yet. It panics if one has another type.
struct Parameters<'a>(std::slice::Iter<'a, Value<'a>>);

/// Reads the next parameter as a type that may be NULL.
macro_rules! nullable {
    ($($function:ident, $variant:ident: $type:ty;)*) => {$(
        fn $function(&mut self) -> Option<$type> {
            match self.next() {
                Value::$variant(value) => value,
                other => panic!("a parameter of the type {other:?}"),
            }
        }
    )*};
}

/// Reads the next parameter, an array.
macro_rules! arrays {
    ($($function:ident, $variant:ident: $type:ty;)*) => {$(
        fn $function(&mut self) -> &'a [$type] {
            match self.next() {
                Value::$variant(values) => values,
                other => panic!("a parameter of the type {other:?}"),
            }
        }
    )*};
}

impl<'a> Parameters<'a> {
    nullable! {
        big_int, BigInt: i64;
        bool, Bool: bool;
        bytes, Bytes: &'a [u8];
        double, Double: f64;
        int, Int: i32;
        text, Text: &'a str;
        texts, Texts: &'a [String];
        uuid, Uuid: Uuid;
    }

    arrays! {
        bools, Bools: bool;
        doubles, Doubles: f64;
        many_bytes, OptionalBytes: Option<&'a [u8]>;
        many_texts, OptionalTexts: Option<&'a str>;
        many_users, OptionalUuids: Option<Uuid>;
        uuids, Uuids: Uuid;
    }

    fn next(&mut self) -> Value<'a> {
        *self.0.next().expect("a parameter")
    }

    fn action(&mut self, name: &str) -> Action {
        match name {
            "abandon" => Action::Abandon(self.reservation()),
            "abandoned" => self.abandoned(),
            "allow" => Action::Allow(Allowance {
                owner: some(self.uuid()),
                server: some(self.uuid()),
                most: some(self.big_int()),
                in_flight: some(self.big_int()),
                records: some(self.big_int()),
                seconds: some(self.double()),
            }),
            "ask" => Action::Ask,
            "begin" => {
                let mut claim = self.claim();
                let (lease, idle) = (some(self.double()), some(self.double()));
                claim.lease = seconds(lease);
                self.policies(&mut claim);
                claim.resource_type = self.text().map(str::to_owned);
                self.session();
                Action::Begin { claim, idle, until: some(self.double()) }
            }
            "begin_without_key" => {
                let (_owner, _user) = (self.uuid(), self.uuid());
                let idle = some(self.double());
                let _settings = self.texts();
                Action::BeginWithoutKey { idle }
            }
            "claim" => {
                let mut claim = self.claim();
                claim.lease = seconds(some(self.double()));
                claim.retention = seconds(some(self.double()));
                self.policies(&mut claim);
                claim.resource_type = self.text().map(str::to_owned);
                claim.effect = effect(some(self.bool()));
                self.session();
                Action::Claim { claim, until: some(self.double()) }
            }
            "commit" => {
                let mut claim = self.claim();
                claim.lease = seconds(some(self.double()));
                self.policies(&mut claim);
                let completion = self.completion();
                let _id = self.uuid();
                completion.map_or(Action::NoType, |completion| Action::Commit { claim, completion })
            }
            "committed" => Action::Committed(self.reservation()),
            "complete" => {
                let reservation = self.reservation();
                let completion = self.completion();
                completion.map_or(Action::NoType, |completion| Action::Complete { reservation, completion })
            }
            "extend" => Action::Extend { reservation: self.reservation(), lease: seconds(some(self.double())) },
            "look" => {
                let reservations = self.reservations();
                let types = self.many_texts().iter().map(|it| it.map(str::to_owned));
                let looks = reservations.into_iter().zip(types).collect();
                let _users = self.many_users();
                let _settings = self.next();
                Action::Look(looks)
            }
            "look_up" => {
                let (owner, key) = (some(self.uuid()), some(self.uuid()));
                let status_of = self.texts().unwrap_or_default().to_vec();
                self.session();
                Action::LookUp { reservation: reservation(owner, key, Uuid::nil()), status_of }
            }
            "release" => Action::Release(self.reservation()),
            "status" => {
                let (_user, _type) = (self.uuid(), self.text());
                let resource = some(self.text()).to_owned();
                let _settings = self.texts();
                Action::Status { resource }
            }
            "sweep" => {
                let batch = usize::try_from(some(self.int())).expect("a number of rows");
                let _reached = self.text();
                Action::Sweep { batch }
            }
            "take" => {
                let reservation = self.reservation();
                let idle = some(self.double());
                self.session();
                Action::Take { reservation, idle, until: some(self.double()), is_free: some(self.bool()) }
            }
            "who" => Action::Who,
            "write_many" => self.write_many(),
            record => {
                let column = record.strip_prefix("record").expect("the only one that is left").trim_start();
                self.record(column)
            }
        }
    }

    fn reservation(&mut self) -> Reservation {
        reservation(some(self.uuid()), some(self.uuid()), some(self.uuid()))
    }

    fn reservations(&mut self) -> Vec<Reservation> {
        let (owners, keys, tokens) = (self.uuids(), self.uuids(), self.uuids());
        let all = owners.iter().zip(keys).zip(tokens);
        all.map(|((owner, key), token)| reservation(*owner, *key, *token)).collect()
    }

    /// Reads a reservation, a procedure and a request.
    fn claim(&mut self) -> Claim {
        let reservation = self.reservation();
        let procedure = some(self.text()).to_owned();
        let (canonical, arrived) = (some(self.bytes()), self.bytes());
        claim(reservation, procedure, canonical, arrived)
    }

    fn policies(&mut self, claim: &mut Claim) {
        claim.on_lease_ended = match some(self.text()) {
            "reconcile" => LeasePolicy::Reconcile,
            "refuse" => LeasePolicy::Refuse,
            "rerun" => LeasePolicy::Rerun,
            other => panic!("an unknown policy: {other}"),
        };
        claim.on_foreign_reservation = match some(self.text()) {
            "in_progress" => ForeignPolicy::InProgress,
            "reconcile" => ForeignPolicy::Reconcile,
            "rerun" => ForeignPolicy::Rerun,
            other => panic!("an unknown policy: {other}"),
        };
    }

    /// Skips the application's user and settings, of which nothing depends here.
    fn session(&mut self) {
        let (_user, _settings) = (self.uuid(), self.texts());
    }

    fn completion(&mut self) -> Result<Completion, SqlError> {
        let columns = self.columns();
        completion(columns, self.text(), self.text())
    }

    /// Reads the columns of an outcome.
    fn columns(&mut self) -> Columns<'a> {
        Columns {
            response: self.bytes(),
            not_stored: some(self.bool()),
            error: self.bytes(),
            metadata: self.bytes(),
            retention: some(self.double()),
        }
    }

    fn record(&mut self, column: &str) -> Action {
        let _id = self.uuid();
        let (key, owner, token) = (some(self.uuid()), some(self.uuid()), some(self.uuid()));
        let procedure = some(self.text()).to_owned();
        let (canonical, arrived) = (some(self.bytes()), self.bytes());
        let claim = claim(reservation(owner, key, token), procedure, canonical, arrived);
        let columns = self.columns();
        let resource = if column.is_empty() { None } else { self.text() };
        completion(columns, resource.map(|_| column), resource)
            .map_or(Action::NoType, |completion| Action::Record { claim, completion })
    }

    fn abandoned(&mut self) -> Action {
        let procedures = some(self.texts()).to_vec();
        let lookback = self.double().map(seconds);
        let max_attempts = u32::try_from(some(self.int())).expect("a number of attempts");
        let batch = u32::try_from(some(self.int())).expect("a number of rows");
        // A page has all there is.
        let (_after, _seconds) = (self.uuid(), self.double());
        Action::Abandoned(AbandonedQuery { procedures, lookback, max_attempts, batch })
    }

    fn write_many(&mut self) -> Action {
        let reservations = self.reservations();
        let procedures = self.many_texts();
        let (hashes, arrivals) = (self.many_bytes(), self.many_bytes());
        let (leases, retentions) = (self.doubles(), self.doubles());
        let is_asynchronous = some(self.bool());
        let _users = self.many_users();
        let _settings = self.next();
        let until = some(self.double());
        let claims = reservations.into_iter().enumerate().map(|(at, reservation)| Claim {
            lease: seconds(leases[at]),
            retention: seconds(retentions[at]),
            ..claim(reservation, some(procedures[at]).to_owned(), some(hashes[at]), arrivals[at])
        });
        let claims = claims.collect();
        let reservations = self.reservations();
        let (responses, not_stored) = (self.many_bytes(), self.bools());
        let (errors, metadata) = (self.many_bytes(), self.many_bytes());
        let retentions = self.doubles();
        let (names, resources) = (self.many_texts(), self.many_texts());
        let completions = reservations.into_iter().enumerate().filter_map(|(at, reservation)| {
            let columns = Columns {
                response: responses[at],
                not_stored: not_stored[at],
                error: errors[at],
                metadata: metadata[at],
                retention: retentions[at],
            };
            let done = completion(columns, names[at], resources[at]);
            // One whose resource has no type is left as it is.
            Some((reservation, done.ok()?))
        });
        Action::WriteMany { claims, is_asynchronous, until, completions: completions.collect() }
    }
}

fn some<T>(value: Option<T>) -> T {
    value.expect("a parameter that is not NULL")
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn effect(is_here: bool) -> EffectPolicy {
    if is_here { EffectPolicy::SameServer } else { EffectPolicy::Anywhere }
}

fn reservation(owner: Uuid, key: Uuid, token: Uuid) -> Reservation {
    Reservation { owner: OwnerId::new(owner), key: KeyId::new(key), token }
}

/// Makes a claim without what was not read yet.
fn claim(reservation: Reservation, procedure: String, canonical: &[u8], arrived: Option<&[u8]>) -> Claim {
    let hash = |bytes| RequestHash::try_from(bytes).expect("32 bytes");
    Claim {
        reservation,
        session: CallSession::default(),
        procedure,
        request: RequestHashes::new(hash(canonical), arrived.map(hash)),
        lease: Duration::ZERO,
        retention: Duration::ZERO,
        on_lease_ended: LeasePolicy::Refuse,
        on_foreign_reservation: ForeignPolicy::InProgress,
        effect: EffectPolicy::Anywhere,
        resource_type: None,
    }
}

/// The columns of an outcome.
struct Columns<'a> {
    response: Option<&'a [u8]>,
    not_stored: bool,
    error: Option<&'a [u8]>,
    metadata: Option<&'a [u8]>,
    retention: f64,
}

fn completion(columns: Columns<'_>, column: Option<&str>, resource: Option<&str>) -> Result<Completion, SqlError> {
    let Columns { response, not_stored, error, metadata, retention } = columns;
    let response = match (response, error) {
        (Some(_), None) if not_stored => {
            let sealed = |envelope| StoredResponse::Sealed(Bytes::copy_from_slice(envelope));
            metadata.map_or(StoredResponse::NotStored, sealed)
        }
        (Some(message), None) => StoredResponse::Message(StoredMessage {
            message: Bytes::copy_from_slice(message),
            metadata: metadata.map(Bytes::copy_from_slice),
        }),
        (None, Some(error)) => StoredResponse::Error(Bytes::copy_from_slice(error)),
        _ => panic!("a record has a response or an error"),
    };
    let resource = column.zip(resource).map(|(column, id)| {
        let types = resource_types();
        // Types without a column of their own share one, for `type/id`.
        let found = types.iter().find(|it| it.column() == column).ok_or(SqlError::NO_TYPE)?;
        let (name, id) = match found.table() {
            Some(_) => (found.name(), id),
            None => id.split_once('/').expect("type/id"),
        };
        let id = ResourceId::from_text(id).expect("an id");
        Ok(Resource { resource_type: name.to_owned(), id })
    });
    Ok(Completion { response, resource: resource.transpose()?, retention: seconds(retention) })
}
