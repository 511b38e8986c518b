//! A client that keeps a journal on a simulated disk, is killed, and starts again: [`Machine`]. Its own audit is here, too.
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
use http::Request;
use prost::Message as _;
use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Status, body::Body};
use tonic_idempotency::rejection::Reason;
use tonic_idempotency_client::{
    IdempotencyClient, IdempotencyClientLayer, Layer as _, Unresolved,
    journal::{Change, EntryState, Journal, JournalError, JournalStore, Outcome, Resumed, Worker},
};
use tower::{ServiceExt as _, util::BoxCloneSyncService};

use crate::{
    audit::Violation,
    client::{Client, Reply, answered, failed, said},
    distortion::OF_A_PROXY,
    ledger::{Evidence, Says},
    server::{ATTEMPT, SCOPE, USER},
    service::{
        FILE_DESCRIPTOR_SET,
        proto::{EnterReply, ledger_client::LedgerClient},
    },
    world::Random,
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

/// The evidence about one journal.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// The last attempt that a caller has made.
    attempt: usize,
    /// The number of ends at the time at which a process was killed with a call on its disk.
    left_at: Option<usize>,
    /// The ends that a caller, or the application, was told.
    ends: Vec<End>,
    /// Whether there is an entry in the end.
    has_entry: bool,
    /// The things that were seen and must not be.
    seen: Vec<String>,
}

/// An end of an operation.
#[derive(Clone, Debug)]
enum End {
    Answered,
    Expired,
    Failed(Code, Option<Reason>),
}

/// The machine of one client, whose disk outlasts its processes. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    disk: Disk,
    process: Arc<Mutex<Option<Process>>>,
}

/// A process of the client.
#[derive(Debug)]
struct Process {
    journal: Journal,
    layer: IdempotencyClient<Way>,
    _worker: Worker,
}

impl Client {
    /// Sends the operation, and dies now and then meanwhile.
    pub(crate) async fn send_with_journal(&self, machine: &Machine, mut random: Random) {
        self.boot(machine);
        for _ in 0..self.operation.attempts {
            let dies = random.once_in(3);
            machine.disk.lock().is_full = random.once_in(8);
            let life = random.duration(Duration::from_millis(1)..=self.operation.patience);
            let is_over =
                timeout(if dies { life } else { Duration::MAX }, self.call_with_journal(machine)).await.is_ok();
            machine.disk.lock().is_full = false;
            if !is_over {
                self.kill(machine, &mut random);
                sleep(random.duration(Duration::from_millis(1)..=2 * MAX_AGE)).await;
                self.boot(machine);
            }
            sleep(random.duration(Duration::from_millis(1)..=self.operation.pause)).await;
        }
    }

    /// Waits until the journal has nothing left to send. Returns whether that is so.
    pub(crate) async fn end_with_journal(&self, machine: &Machine) -> bool {
        let mut looks = 0;
        while looks < LOOKS {
            let journal = lock(&machine.process).as_ref().map(|process| process.journal.clone());
            let entries = journal.expect("it runs").entries().await.expect("a disk that can be read");
            if entries.iter().all(|entry| entry.state == EntryState::Expired) {
                self.note(|kept| kept.has_entry = !entries.is_empty());
                break;
            }
            looks += 1;
            sleep(BETWEEN).await;
        }
        drop(lock(&machine.process).take());
        looks < LOOKS
    }

    /// Makes one call, and notes what it is told.
    async fn call_with_journal(&self, machine: &Machine) {
        let layer = lock(&machine.process).as_ref().map(|process| process.layer.clone()).expect("it runs");
        let attempt = self.ledger.attempt(self.operation.number);
        self.tell(format_args!("calls, with its journal"));
        let (patience, sent) = (self.operation.patience, self.world.time());
        self.note(|kept| kept.attempt = attempt);
        let ends_before = self.ends();
        let called = answered(LedgerClient::new(layer), self.request(patience, attempt), self.operation.procedure);
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
                    let is_there = !machine.disk.lock().records.is_empty();
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
    fn hear_of(&self, outcome: &Outcome) {
        self.world.count("journal", name_of(outcome));
        let says = match outcome {
            Outcome::Answered(answer) => {
                let reply = EnterReply::decode(answer.message.clone()).ok();
                reply.map(|reply| said(Reply { reply, is_replay: true, status: None }))
            }
            Outcome::Failed(status) => Some(failed(status)),
            _ => None,
        };
        let attempt = self.ledger.lock().journals.get(&self.operation.number).map_or(0, |kept| kept.attempt);
        says.into_iter().for_each(|says| self.hear(attempt, Duration::ZERO, says));
    }

    /// Starts a process.
    fn boot(&self, machine: &Machine) {
        let (client, disk) = (self.clone(), machine.disk.clone());
        let (number, is_new) = disk.next_process();
        let send = move |request: Request<Body>| {
            client.check(&disk, number, &request);
            request
        };
        let way: Way = BoxCloneSyncService::new(self.network.clone().map_request(send));
        let (client, disk) = (self.clone(), machine.disk.clone());
        let told = move |resumed: Resumed| {
            if disk.lock().process == number {
                client.note(|kept| kept.ends.extend(End::among(&resumed.outcome)));
                client.hear_of(&resumed.outcome);
                client.tell(format_args!("is told by its journal: {}", name_of(&resumed.outcome)));
            }
            std::future::ready(())
        };
        let store = OpenDisk { disk: machine.disk.clone(), process: number };
        let journal = Journal::builder()
            .in_place()
            .max_age(self.max_age())
            .metadata([ATTEMPT, USER, SCOPE])
            .on_outcome(told)
            .pauses(PAUSES[0], PAUSES[1])
            .store(store);
        let journal = journal.expect("a disk that can be read");
        let layer = IdempotencyClientLayer::builder(FILE_DESCRIPTOR_SET)
            .operation_timeout(self.operation.patience)
            .attempt_timeout(self.operation.patience / 2)
            .journal(journal.clone())
            .build();
        let layer = layer.expect("descriptors that are valid").layer(way);
        let worker = journal.spawn(layer.clone());
        self.tell(format_args!("starts process {number}{}", if is_new { "" } else { ", and reads its journal" }));
        *lock(&machine.process) = Some(Process { journal, layer, _worker: worker });
    }

    /// Kills the process. What it has written without waiting may not have reached the disk.
    fn kill(&self, machine: &Machine, random: &mut Random) {
        let (restored, has_entry) = {
            let mut disk = machine.disk.lock();
            disk.process += 1;
            let unsure = std::mem::take(&mut disk.unsure);
            let lost = random.number(0..=unsure.len() as u64);
            let kept = unsure.len() - usize::try_from(lost).unwrap_or_default();
            let restored = unsure.len() - kept;
            disk.records.extend(unsure.into_iter().skip(kept));
            (restored, !disk.records.is_empty())
        };
        if has_entry {
            let ends = self.ends();
            self.note(|kept| kept.left_at = Some(ends));
        }
        self.tell(format_args!("is killed, and {restored} ends are not on its disk"));
        drop(lock(&machine.process).take());
    }

    /// Checks a request that leaves the process.
    fn check(&self, disk: &Disk, process: u32, request: &Request<Body>) {
        let disk = disk.lock();
        if disk.process != process {
            return;
        }
        let key = self.operation.key.to_string();
        let is_ours = request.headers().get("idempotency-key").is_some_and(|sent| sent.as_bytes() == key.as_bytes());
        // The worker and a call may send the same entry, and one of them may have ended it with what the server keeps.
        if !is_ours || disk.records.is_empty() && !self.has_kept_end() {
            self.note(|kept| kept.seen.push("a call is sent that is not on the disk".to_owned()));
        }
        // One that was taken in time may go on until its operation's time is over.
        let longest = self.max_age() + self.operation.patience + SLACK;
        if disk.written.is_some_and(|(at, shown)| Instant::now() > at + longest && SystemTime::now() > shown + longest)
        {
            self.note(|kept| kept.seen.push("an entry is sent that has expired".to_owned()));
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

    /// Returns how many ends anybody was told.
    fn ends(&self) -> usize {
        self.ledger.lock().journals.get(&self.operation.number).map_or(0, |kept| kept.ends.len())
    }

    fn note(&self, note: impl FnOnce(&mut Kept)) {
        note(self.ledger.lock().journals.entry(self.operation.number).or_default());
    }
}

impl End {
    fn of(status: &Status) -> Self {
        Self::Failed(status.code(), Reason::of(status))
    }

    fn among(outcome: &Outcome) -> Option<Self> {
        match outcome {
            Outcome::Answered(_) => Some(Self::Answered),
            Outcome::Expired { .. } => Some(Self::Expired),
            Outcome::Failed(status) => Some(Self::of(status)),
            _ => None,
        }
    }

    /// Whether it ends no operation: it is the network's, or the server's word that it does not know.
    fn is_none(&self) -> bool {
        match self {
            Self::Failed(_, Some(reason)) => matches!(reason, Reason::InProgress | Reason::OutcomeUnknown),
            Self::Failed(code, None) => matches!(code, Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded),
            Self::Answered | Self::Expired => false,
        }
    }
}

fn name_of(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Answered(_) => "answered",
        Outcome::Expired { .. } => "expired",
        Outcome::Failed(_) => "failed",
        _ => "not ended",
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
    /// When the oldest entry was written, by two clocks.
    written: Option<(Instant, SystemTime)>,
    is_full: bool,
    /// The process that has it open. What others write does not reach it.
    process: u32,
}

impl Disk {
    fn lock(&self) -> MutexGuard<'_, Content> {
        lock(&self.0)
    }

    /// Returns the number of the next process, and whether there is nothing on the disk.
    fn next_process(&self) -> (u32, bool) {
        let mut content = self.lock();
        content.process += 1;
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
                        content.written = Some((Instant::now(), SystemTime::now()));
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

/// Returns what was broken.
pub(crate) fn audit(evidence: &Evidence) -> Vec<Violation> {
    let of_one = |(operation, kept): (&usize, &Kept)| {
        let ends = kept.ends.iter().filter(|end| end.is_none()).map(|end| format!("{end:?} is told as the end"));
        let is_lost = kept.left_at == Some(kept.ends.len()) && !kept.has_entry;
        let lost = is_lost.then(|| "an entry is gone, and nobody was told of an end".to_owned());
        let seen: Vec<_> = kept.seen.iter().cloned().chain(ends).chain(lost).collect();
        let violation =
            |seen| Violation { promise: "a journal keeps its word", seen: format!("operation {operation}: {seen}") };
        seen.into_iter().map(violation).collect::<Vec<_>>()
    };
    evidence.journals.iter().flat_map(of_one).collect()
}
