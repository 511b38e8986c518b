//! The place of one server.

use std::{pin::pin, sync::Arc, time::Duration};

use rustix::process::Signal;
use tcp_proxy::Proxy;
use tokio::{sync::watch, time};
use tokio_util::sync::CancellationToken;

use super::{Backend, Process, Setting};
use crate::{
    fault::FaultKind,
    journal::{ServerId, Whom},
    schedule::PlannedFault,
    server::{Action, Arm, Instruction, Saying},
    step::Step,
    topology::Way,
    urls::Urls,
};

/// The pause between two starts of a server. Most starts fail because the database is away.
const PAUSE: Duration = Duration::from_millis(200);

/// The time that a server may take to stop when it is asked to.
const STOP: Duration = Duration::from_secs(10);

/// The time in which a killed process must be gone.
const END: Duration = Duration::from_secs(10);

/// The time that a paused server sleeps beyond its lease.
const SLACK: Duration = Duration::from_millis(300);

/// The longest that it sleeps on, until other servers have taken over its operations.
const TAKEOVER: Duration = Duration::from_millis(1500);

/// The interval between two checks for takeovers.
const LOOK: Duration = Duration::from_millis(50);

/// The place of one server, which is started again whenever it has ended.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) calm: watch::Receiver<bool>,
    pub(super) number: usize,
    pub(super) setting: Setting,
    pub(super) stopping: CancellationToken,
    pub(super) urls: Urls,
    pub(super) way: Arc<Way>,
}

impl Slot {
    /// Runs servers, one after the other, until told to stop.
    pub(super) async fn run(self) {
        let mut life = 0;
        while !self.stopping.is_cancelled() {
            life += 1;
            let server = ServerId { slot: self.number, life };
            let started = tokio::select! {
                started = Process::start(server, &self.setting, &self.urls) => started,
                () = self.stopping.cancelled() => return,
            };
            match started.and_then(|(process, ready)| Ok((process, Arc::new(Backend::new(server, &ready)?)))) {
                Ok((process, backend)) => self.live(server, process, backend).await,
                Err(error) => self.did_not_start(server, &error.to_string()).await,
            }
        }
    }

    async fn did_not_start(&self, server: ServerId, why: &str) {
        self.setting.journal.line(server, why.to_owned());
        self.setting.journal.entries().failed_starts += 1;
        time::sleep(PAUSE).await;
    }

    /// Runs one life of a server: it takes calls and orders until it ends.
    async fn live(&self, server: ServerId, process: Process, backend: Arc<Backend>) {
        let Setting { journal, orders, rotation, .. } = &self.setting;
        journal.entries().starts += 1;
        let mut life = Life { backend: Arc::clone(&backend), order: None, process, server, slot: self };
        rotation.add(backend);
        let end = life.go_on().await;
        rotation.remove(&life.backend);
        let now = journal.now();
        match end {
            End::Killed(kind) => {
                life.order = None;
                journal.fault(kind, Whom::Server(server), now);
                life.process.ended(END).await;
            }
            End::Stopped => {
                life.process.stop(STOP).await;
            }
            End::Unexpected => {
                journal.entries().unexpected_ends.push((now, server));
                life.process.ended(END).await;
            }
        }
        if let Some(order) = life.order {
            orders.put_back(order);
        }
    }
}

/// The end of a life.
enum End {
    Killed(FaultKind),
    Stopped,
    Unexpected,
}

/// A running server.
struct Life<'a> {
    backend: Arc<Backend>,
    /// The fault that it is to undergo.
    order: Option<PlannedFault>,
    process: Process,
    server: ServerId,
    slot: &'a Slot,
}

impl Life<'_> {
    /// Runs until something ends the server.
    async fn go_on(&mut self) -> End {
        let slot = self.slot;
        let mut calm = slot.calm.clone();
        let mut is_calm = *calm.borrow_and_update();
        let mut kill = pin!(time::sleep(Duration::ZERO));
        loop {
            let to_be_killed = self.order.as_ref().is_some_and(|order| order.kind == FaultKind::ServerKilled);
            tokio::select! {
                said = self.process.said() => match said {
                    Some(Saying::Reached(Action::Die, step)) => return End::Killed(FaultKind::ServerKilledAt(step)),
                    Some(Saying::Reached(Action::Pause, step)) => self.be_paused(step).await,
                    Some(_) => {}
                    None => return End::Unexpected,
                },
                order = slot.setting.orders.take(), if self.order.is_none() && !is_calm => {
                    match order.kind {
                        FaultKind::ServerKilledAt(step) => self.arm(Action::Die, step, order.nth()).await,
                        FaultKind::ServerPausedAt(step) => self.arm(Action::Pause, step, order.nth()).await,
                        _ => kill.as_mut().reset(time::Instant::now() + order.hold),
                    }
                    self.order = Some(order);
                }
                () = &mut kill, if to_be_killed => {
                    self.process.signal(Signal::KILL);
                    return End::Killed(FaultKind::ServerKilled);
                }
                Ok(()) = calm.changed(), if !is_calm => {
                    is_calm = true;
                    self.order = None;
                    self.process.tell(Instruction::Forget).await;
                }
                () = slot.stopping.cancelled() => return End::Stopped,
            }
        }
    }

    async fn arm(&mut self, action: Action, step: Step, nth: u32) {
        self.process.tell(Instruction::Arm(Arm { action, left: nth, step })).await;
    }

    /// Handles a server that has stopped itself: lets it sleep until its leases have ended and other servers have taken
    /// over its operations, then lets it go on as if nothing had happened.
    async fn be_paused(&mut self, step: Step) {
        let slot = self.slot;
        let Setting { journal, lease, rotation, .. } = &slot.setting;
        // The database ends the sessions of every other one, which is cut off from it meanwhile.
        let partitioned = self.order.take().is_some_and(|order| (order.draw / 4).is_multiple_of(2));
        // A load balancer would notice. Calls that the server already has wait for their answers.
        rotation.remove(&self.backend);
        let begun = journal.now();
        let asked = journal.asked_of(self.server);
        if partitioned {
            slot.way.each(Proxy::cut);
        }
        let sleeping = async {
            time::sleep(*lease + SLACK).await;
            let deadline = time::Instant::now() + TAKEOVER;
            while journal.answered_since(begun, &asked, self.server) < asked.len() && time::Instant::now() < deadline {
                time::sleep(LOOK).await;
            }
        };
        tokio::select! {
            () = sleeping => {}
            () = slot.stopping.cancelled() => {}
        }
        if journal.answered_since(begun, &asked, self.server) > 0 {
            journal.entries().takeovers += 1;
        }
        if partitioned {
            slot.way.each(Proxy::mend);
        }
        self.process.signal(Signal::CONT);
        self.process.tell(Instruction::Resume).await;
        journal.fault(FaultKind::ServerPausedAt(step), Whom::Server(self.server), begun);
        rotation.add(Arc::clone(&self.backend));
    }
}
