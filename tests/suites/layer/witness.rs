//! A reconciler whose answers a test sets.

use std::sync::MutexGuard;

use tokio::sync::Semaphore;
use tonic_idempotency::policy::{Abandoned, Reconciler, Reconciliation};

use crate::prelude::*;

/// Makes reconcilers that answer as set, and remembers the calls that they were asked about.
#[derive(Clone, Debug)]
pub(crate) struct Witness {
    gate: Arc<Semaphore>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    usually: Answer,
    /// The answers for single keys.
    of: HashMap<Uuid, Answer>,
    asked: Vec<Abandoned>,
}

#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Completed(CreateOrderReply),
    Fails,
    Held(Box<Self>),
    Never,
    NotExecuted,
    Panics,
    Unknown,
}

impl Witness {
    pub(crate) fn new(usually: Answer) -> Self {
        let state = State { usually, of: HashMap::new(), asked: Vec::new() };
        Self { gate: Arc::new(Semaphore::new(0)), state: Arc::new(Mutex::new(state)) }
    }

    /// Sets the answer for all keys without one of their own.
    pub(crate) fn says(&self, answer: Answer) {
        self.lock().usually = answer;
    }

    /// Sets the answer for this key.
    pub(crate) fn says_of(&self, key: Option<Uuid>, answer: Answer) {
        self.lock().of.insert(key.expect("a key"), answer);
    }

    /// Releases this many held answers.
    pub(crate) fn open(&self, answers: usize) {
        self.gate.add_permits(answers);
    }

    pub(crate) fn asked(&self) -> Vec<Abandoned> {
        self.lock().asked.clone()
    }

    pub(crate) fn reconciler(&self) -> impl Reconciler {
        let witness = self.clone();
        move |abandoned: Abandoned| {
            let witness = witness.clone();
            async move {
                let mut answer = witness.ask(abandoned);
                loop {
                    answer = match answer {
                        Answer::Completed(reply) => return Ok(Reconciliation::completed(&reply)),
                        Answer::Fails => return Err("the database is away".into()),
                        Answer::Held(answer) => {
                            witness.gate.acquire().await?.forget();
                            *answer
                        }
                        Answer::Never => std::future::pending().await,
                        Answer::NotExecuted => return Ok(Reconciliation::NotExecuted),
                        Answer::Panics => panic!("the reconciler was told to"),
                        Answer::Unknown => return Ok(Reconciliation::Unknown),
                    }
                }
            }
        }
    }

    fn ask(&self, abandoned: Abandoned) -> Answer {
        let mut state = self.lock();
        let answer = state.of.get(abandoned.key.as_uuid()).unwrap_or(&state.usually).clone();
        state.asked.push(abandoned);
        answer
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }
}

impl Answer {
    /// The answer that an order with this name was created.
    pub(crate) fn found(name: &str) -> Self {
        let order = Order { id: Uuid::new_v4().to_string(), name: name.to_owned() };
        Self::Completed(CreateOrderReply { order: Some(order), ..Default::default() })
    }

    pub(crate) fn held(self) -> Self {
        Self::Held(Box::new(self))
    }
}

/// The name of the order in the request.
pub(crate) fn name_in(abandoned: &Abandoned) -> Option<String> {
    let request = abandoned.request.clone()?;
    let request = tonic_idempotency_tests::shop::proto::CreateOrderRequest::decode(request).expect("a request");
    Some(request.name)
}
