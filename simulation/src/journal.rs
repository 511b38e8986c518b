//! Clients that keep a journal on a simulated disk, are killed, and start again: [`Machine`].
//!
//! | a journal keeps its word, if |
//! |---|
//! | a call is on the disk before it is sent |
//! | an entry is not sent when its key has ceased to protect |
//! | an entry leaves the disk only when its caller, or the application, was told how its operation has ended |
//! | an answer that does not end the operation is told as its end to no caller |
//! | a call ends in the time of its operation, whatever its server does |

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use distortion::OF_A_PROXY;
use http::Request;
use prost::Message as _;
use tokio::{
    select,
    time::{Instant, sleep, timeout},
};
use tonic::{Code, Status, body::Body};
use tonic_idempotency::rejection::Reason;
use tonic_idempotency_client::{
    IdempotencyClient, IdempotencyClientLayer, Layer as _, OperationKey, Unresolved,
    journal::{Change, EntryOutcome, EntryState, Journal, JournalError, JournalStore, Lane, Resumed, Worker},
};
use tower::{Service as _, service_fn, util::BoxCloneSyncService};

use crate::{
    client::{Client, Reply, answered, failed, said},
    headers::{ATTEMPT, SCOPE, USER},
    kept::{End, Kept},
    ledger::Says,
    service::{
        FILE_DESCRIPTOR_SET,
        proto::{EnterReply, ledger_client::LedgerClient},
    },
    world::{Random, Signal},
};

/// The age beyond which an entry is not sent, unless the records of the server live shorter.
const MAX_AGE: Duration = Duration::from_secs(15);

/// The pauses of the worker.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(4)];

/// How often the journal is looked at when all faults are over, and how long apart, before an entry counts as stuck.
const LOOKS: u32 = 100;
const BETWEEN: Duration = Duration::from_secs(2);

/// By how much a call may outlast its operation's time: nothing but the last step of the layer.
const SLACK: Duration = Duration::from_secs(1);

/// The beginning of the message of a call that the journal has not let out.
const NOT_SENT: &str = "the call was not sent";

/// The way to the servers, as the layer has it.
type Way = BoxCloneSyncService<Request<Body>, http::Response<Body>, Status>;

/// The machine of some clients, whose disk outlasts its processes. Clones are the same.
#[derive(Clone, Debug)]
pub struct Machine(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Without the machine itself.
    members: Vec<Client>,
    disk: Disk,
    process: Mutex<Option<Process>>,
    /// The number of the process that runs, or 0.
    running: Signal<u32>,
    /// How many members wait for nothing more.
    ended: Mutex<usize>,
}

/// A process of the machine.
#[derive(Clone, Debug)]
struct Process {
    journal: Journal,
    layer: IdempotencyClient<Way>,
    _worker: Arc<Worker>,
}

impl Machine {
    /// Returns the machines of clients, by the numbers of their operations.
    pub(crate) fn of(clients: &[Client]) -> BTreeMap<usize, Self> {
        let mut machines: BTreeMap<usize, Vec<Client>> = BTreeMap::new();
        for client in clients {
            machines.entry(client.operation.machine).or_default().push(client.clone());
        }
        let machine = |members: Vec<Client>| {
            let numbers: Vec<_> = members.iter().map(|member| member.operation.number).collect();
            let (disk, process, running, ended) = (Disk::default(), Mutex::default(), Signal::new(0), Mutex::default());
            let machine = Self(Arc::new(Shared { members, disk, process, running, ended }));
            numbers.into_iter().map(move |number| (number, machine.clone()))
        };
        machines.into_values().flat_map(machine).collect()
    }

    /// Returns the member with this key.
    fn member(&self, key: &[u8]) -> Option<&Client> {
        self.0.members.iter().find(|member| member.operation.key.to_string().as_bytes() == key)
    }

    /// Returns when this process is killed.
    async fn killed(&self, process: u32) {
        self.0.running.until(|running| running != process).await;
    }

    fn process(&self) -> Process {
        lock(&self.0.process).clone().expect("it runs")
    }

    /// Starts a process.
    fn boot(&self, random: &mut Random) {
        let first = &self.0.members[0];
        let (number, is_new) = self.0.disk.next_process();
        let machine = self.clone();
        let way: Way = BoxCloneSyncService::new(service_fn(move |request: Request<Body>| {
            let key = request.headers().get("idempotency-key").map(|key| key.as_bytes().to_vec());
            let member = key.and_then(|key| machine.member(&key)).unwrap_or(&machine.0.members[0]);
            // A question about the server is no call, and is not on the disk.
            if !request.uri().path().starts_with("/idempotency.v1.OperationService/") {
                member.check(&machine.0.disk, number, &request);
            }
            member.network.clone().call(request)
        }));
        let machine = self.clone();
        let told = move |resumed: Resumed| {
            let member = machine.member(resumed.key.to_string().as_bytes());
            if let Some(member) = member.filter(|_| machine.0.disk.lock().process == number) {
                member.note(|kept| kept.ends.extend(End::among(&resumed.outcome)));
                member.hear_of(&resumed.outcome);
                member.tell(format_args!("is told by its journal: {}", name_of(&resumed.outcome)));
            }
            std::future::ready(())
        };
        let store = OpenDisk { disk: self.0.disk.clone(), process: number };
        let journal = Journal::builder()
            .in_place()
            .max_age(first.max_age())
            .metadata([ATTEMPT, USER, SCOPE])
            .on_outcome(told)
            .parallelism(*random.one_of(&[1, 8]))
            .pauses(PAUSES[0], PAUSES[1])
            .store(store);
        let journal = journal.expect("a disk that can be read");
        let layer = IdempotencyClientLayer::builder(FILE_DESCRIPTOR_SET)
            .operation_timeout(first.operation.patience)
            .attempt_timeout(first.operation.patience / 2)
            .journal(journal.clone())
            .build();
        let layer = layer.expect("descriptors that are valid").layer(way);
        let worker = journal.spawn(layer.clone());
        first.tell(format_args!("starts process {number}{}", if is_new { "" } else { ", and reads its journal" }));
        let process = Process { journal, layer, _worker: Arc::new(worker) };
        *lock(&self.0.process) = Some(process);
        self.0.running.change(|running| {
            *running = number;
            true
        });
        // The application sends what is left, too.
        if random.once_in(2) {
            let (machine, random) = (self.clone(), random.fork());
            tokio::spawn(async move {
                select! { biased; () = machine.killed(number) => {}, () = machine.resume(random) => {} }
            });
        }
    }

    /// Sends the entries now and then, beside the worker and the calls.
    async fn resume(&self, mut random: Random) {
        let Process { journal, layer, _worker } = self.process();
        drop(_worker);
        for _ in 0..random.number(1..=5) {
            sleep(random.duration(Duration::from_millis(1)..=PAUSES[1])).await;
            for resumed in journal.resume(layer.clone()).await {
                self.0.members[0].world.count("resume", name_of(&resumed.outcome));
            }
        }
    }

    /// Kills the process. What it has written without waiting may not have reached the disk.
    fn kill(&self, random: &mut Random) {
        self.0.running.change(|running| std::mem::take(running) > 0);
        let restored = {
            let mut disk = self.0.disk.lock();
            disk.process += 1;
            let unsure = std::mem::take(&mut disk.unsure);
            let lost = random.number(0..=unsure.len() as u64);
            let kept = unsure.len() - usize::try_from(lost).unwrap_or_default();
            let restored = unsure.len() - kept;
            disk.records.extend(unsure.into_iter().skip(kept));
            restored
        };
        for member in self.0.members.iter().filter(|member| member.has_entry(&self.0.disk)) {
            let (ends, at) = (member.ends(), member.world.time());
            member.note(|kept| {
                kept.left_at = Some(ends);
                kept.killed.push(at);
            });
        }
        self.0.members[0].tell(format_args!("is killed, and {restored} ends are not on its disk"));
        drop(lock(&self.0.process).take());
    }
}

impl Client {
    /// Sends the operation as [`send`](Self::send) does, and has its machine die now and then meanwhile.
    pub(crate) async fn send_with_journal(&self, machine: &Machine, mut random: Random) {
        sleep(self.operation.begins).await;
        if machine.0.disk.lock().process == 0 {
            machine.boot(&mut random);
        }
        for _ in 0..self.operation.attempts {
            let number = machine.0.running.until(|running| running > 0).await;
            let dies = random.once_in(3);
            machine.0.disk.lock().is_full = random.once_in(8);
            let life = random.duration(Duration::from_millis(1)..=self.operation.patience);
            let called = async {
                select! { biased; () = machine.killed(number) => {}, () = self.call_with_journal(machine) => {} }
            };
            let is_over = timeout(if dies { life } else { Duration::MAX }, called).await.is_ok();
            machine.0.disk.lock().is_full = false;
            if !is_over && machine.0.running.get() == number {
                machine.kill(&mut random);
                sleep(random.duration(Duration::from_millis(1)..=2 * MAX_AGE)).await;
                machine.boot(&mut random);
            }
            sleep(random.duration(Duration::from_millis(1)..=self.operation.pause)).await;
        }
    }

    /// Ends as [`end`](Self::end) does: waits until the journal has nothing left to send. Returns whether that is so.
    pub(crate) async fn end_with_journal(&self, machine: &Machine) -> bool {
        let mut looks = 0;
        let key = OperationKey::from(self.operation.key);
        while looks < LOOKS {
            let entries = machine.process().journal.entries().await.expect("a disk that can be read");
            let mut own = entries.iter().filter(|entry| entry.key == key);
            if own.all(|entry| entry.state == EntryState::Expired) {
                self.note(|kept| kept.has_entry = entries.iter().any(|entry| entry.key == key));
                break;
            }
            looks += 1;
            sleep(BETWEEN).await;
        }
        let mut ended = lock(&machine.0.ended);
        *ended += 1;
        if *ended == machine.0.members.len() {
            drop(lock(&machine.0.process).take());
        }
        looks < LOOKS
    }

    /// Makes one call, and notes what it is told.
    async fn call_with_journal(&self, machine: &Machine) {
        let layer = machine.process().layer;
        let attempt = self.ledger.attempt(self.operation.number);
        self.tell(format_args!("calls, with its journal"));
        let (patience, sent) = (self.operation.patience, self.world.time());
        self.note(|kept| kept.attempt = attempt);
        let ends_before = self.ends();
        let mut request = self.request(patience, attempt);
        if self.operation.is_in_lane {
            request.extensions_mut().insert(Lane::new("lane"));
        }
        let called = answered(LedgerClient::new(layer), request, self.operation.procedure);
        let Ok(answer) = timeout(patience + SLACK, called).await else {
            return self.note(|kept| kept.seen.push("a call has not ended in its time".to_owned()));
        };
        self.tell(format_args!("hears {:?}", answer.as_ref().map(|_| "a reply").map_err(Status::message)));
        self.hear(
            attempt,
            sent,
            match &answer {
                Ok(reply) => said(reply.clone()),
                Err(status) if status.message().starts_with(NOT_SENT) => Says::Nothing,
                Err(status) => failed(status),
            },
        );
        match answer {
            Ok(_) => self.note(|kept| kept.ends.push(End::Answered)),
            Err(status) => match Unresolved::of(&status) {
                Some(unresolved) => {
                    let is_there = self.has_entry(&machine.0.disk);
                    // The worker may have ended it meanwhile.
                    if unresolved.in_journal && !is_there && self.ends() == ends_before {
                        self.note(|kept| {
                            kept.seen.push("a call is to be sent later, and is not on the disk".to_owned())
                        });
                    }
                }
                // Its disk is full, or its entry has expired.
                None if status.message().starts_with(NOT_SENT) => {}
                None if status.message() == OF_A_PROXY => {
                    self.note(|kept| kept.seen.push("a proxy's error is told as the end".to_owned()));
                }
                None => self.note(|kept| kept.ends.push(End::of(&status))),
            },
        }
    }

    /// Notes what the journal tells of an entry. Nothing tells which of its attempts it was.
    fn hear_of(&self, outcome: &EntryOutcome) {
        self.world.count("journal", name_of(outcome));
        let says = match outcome {
            EntryOutcome::Answered(answer) => {
                let reply = EnterReply::decode(answer.message.clone()).ok();
                reply.map(|reply| said(Reply { reply, is_replay: true, status: None }))
            }
            EntryOutcome::Failed(status) => Some(failed(status)),
            _ => None,
        };
        let attempt = self.ledger.lock().journals.get(&self.operation.number).map_or(0, |kept| kept.attempt);
        says.into_iter().for_each(|says| self.hear(attempt, Duration::ZERO, says));
    }

    /// Checks a request that leaves the process.
    fn check(&self, disk: &Disk, process: u32, request: &Request<Body>) {
        let key = self.operation.key.to_string();
        let is_ours = request.headers().get("idempotency-key").is_some_and(|sent| sent.as_bytes() == key.as_bytes());
        let disk = disk.lock();
        if disk.process != process {
            return;
        }
        let entry = disk.entry(&key);
        // The worker and a call may send the same entry, and one of them may have ended it with what the server keeps.
        if !is_ours || entry.is_none() && !self.has_kept_end() {
            self.note(|kept| kept.seen.push("a call is sent that is not on the disk".to_owned()));
        }
        let longest = self.max_age();
        let written = entry.and_then(|entry| disk.written.get(&entry));
        // What passed before this process is known only by the wall clock.
        let has_expired = |(at, shown): &(Instant, SystemTime)| {
            let known = disk.booted.map_or(*at, |booted| booted.max(*at));
            Instant::now() > known + longest || SystemTime::now() > *shown + longest
        };
        if written.is_some_and(has_expired) {
            let at = self.world.time();
            self.note(|kept| kept.sent_late.push(at));
        }
    }

    fn max_age(&self) -> Duration {
        MAX_AGE.min(self.settings.policies.retention / 2)
    }

    /// Returns whether anybody was told an end that is replayed to whoever sends the operation again.
    fn has_kept_end(&self) -> bool {
        let are_errors_final = !self.settings.policies.final_errors.is_empty();
        let is_kept = |end: &End| match end {
            End::Answered => true,
            End::Failed(code, None) => are_errors_final && *code == Code::FailedPrecondition,
            // Another operation has the key: this one is not sent for its sake. Or it has happened, and its response was not stored.
            End::Failed(_, Some(Reason::KeyReused | Reason::NotStored)) => true,
            End::Failed(..) | End::Expired => false,
        };
        self.ledger.lock().journals.get(&self.operation.number).is_some_and(|kept| kept.ends.iter().any(is_kept))
    }

    /// Returns whether the operation is on the disk.
    fn has_entry(&self, disk: &Disk) -> bool {
        disk.lock().entry(&self.operation.key.to_string()).is_some()
    }

    /// Returns how many ends anybody was told.
    fn ends(&self) -> usize {
        self.ledger.lock().journals.get(&self.operation.number).map_or(0, |kept| kept.ends.len())
    }

    fn note(&self, note: impl FnOnce(&mut Kept)) {
        note(self.ledger.lock().journals.entry(self.operation.number).or_default());
    }
}

fn name_of(outcome: &EntryOutcome) -> &'static str {
    match outcome {
        EntryOutcome::Answered(_) => "answered",
        EntryOutcome::Expired { .. } => "expired",
        EntryOutcome::Failed(_) => "failed",
        EntryOutcome::Behind => "behind",
        EntryOutcome::Unresolved(_) => "unresolved",
        _ => "of another kind",
    }
}

/// The disk of a machine. Clones are the same.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Mutex<Content>>);

#[derive(Debug, Default)]
struct Content {
    records: BTreeMap<u64, Bytes>,
    /// The entries that were removed since the last commit that was waited for.
    unsure: Vec<(u64, Bytes)>,
    /// When each was written, by two clocks.
    written: BTreeMap<u64, (Instant, SystemTime)>,
    is_full: bool,
    /// When its process began.
    booted: Option<Instant>,
    /// The process that has it open. What others write does not reach it.
    process: u32,
}

impl Content {
    /// Returns the number of the entry with this key, which is in it as text.
    fn entry(&self, key: &str) -> Option<u64> {
        let has = |record: &Bytes| record.windows(key.len()).any(|part| part == key.as_bytes());
        self.records.iter().find(|(_, record)| has(record)).map(|(id, _)| *id)
    }
}

impl Disk {
    fn lock(&self) -> MutexGuard<'_, Content> {
        lock(&self.0)
    }

    /// Returns the number of the next process, and whether there is nothing on the disk.
    fn next_process(&self) -> (u32, bool) {
        let mut content = self.lock();
        content.process += 1;
        content.booted = Some(Instant::now());
        (content.process, content.records.is_empty())
    }
}

/// The disk, as one process has it open.
struct OpenDisk {
    disk: Disk,
    process: u32,
}

impl JournalStore for OpenDisk {
    fn commit(&self, changes: &[Change]) -> Result<(), JournalError> {
        let mut content = self.disk.lock();
        if content.process != self.process {
            return Ok(());
        }
        let puts = |change: &Change| matches!(change, Change::Put { .. });
        if content.is_full && changes.iter().any(puts) {
            return Err(JournalError::store("(a simulated disk)", "it is full"));
        }
        for change in changes {
            match change {
                Change::Put { id, record } => {
                    if content.records.insert(*id, record.clone()).is_none() {
                        content.written.insert(*id, (Instant::now(), SystemTime::now()));
                    }
                    content.unsure.clear();
                }
                Change::Remove { id } => {
                    let removed = content.records.remove(id);
                    content.unsure.extend(removed.map(|record| (*id, record)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn ids(&self) -> Result<Vec<u64>, JournalError> {
        Ok(self.disk.lock().records.keys().copied().collect())
    }

    fn read(&self, id: u64) -> Result<Option<Bytes>, JournalError> {
        Ok(self.disk.lock().records.get(&id).cloned())
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
