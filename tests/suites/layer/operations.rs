//! The service that reports the outcomes of calls to their callers.

use tokio::time::{advance, sleep};
use tonic::Response;
use tonic_idempotency::{
    IdempotencyKey, KeyId,
    operations::OperationServiceBuilder,
    policy::ScopePolicy,
    proto::v1::{
        self, DescribeProcedureRequest, GetOperationRequest, Operation, State, Until, WaitOperationRequest, Work,
        operation_service_client::OperationServiceClient,
    },
};

use crate::prelude::*;
use crate::watched;

const PAY: &str = "/shop.v1.Shop/Pay";
const TOUCH: &str = "/shop.v1.Shop/Touch";

/// The tolerance of "at once": [`quiet`] takes a millisecond.
const AT_ONCE: Duration = Duration::from_millis(20);

/// The service beside a shop, asked by the user of the shop.
#[derive(Clone)]
pub(crate) struct Operations {
    client: OperationServiceClient<Channel>,
    user: Option<Uuid>,
    key: String,
}

impl Operations {
    pub(crate) async fn of(shop: &Shop) -> Self {
        Self::with(shop, |builder| builder).await
    }

    pub(crate) async fn with(
        shop: &Shop,
        build: impl FnOnce(OperationServiceBuilder) -> OperationServiceBuilder,
    ) -> Self {
        let service = InterceptedService::new(build(shop.layer.operations()).build(), shop::authenticate);
        let channel = shop::serve_in_memory(tonic::service::Routes::new(service)).await;
        let key = shop.key.expect("a key").to_string();
        Self { client: OperationServiceClient::new(channel), user: shop.user, key }
    }

    fn request<T>(&self, message: T) -> Request<T> {
        shop::with(message, self.user, None)
    }

    pub(crate) async fn get(&self) -> Result<Operation, Status> {
        let request = self.request(GetOperationRequest { key: self.key.clone() });
        self.client.clone().get_operation(request).await.map(Response::into_inner)
    }

    pub(crate) async fn state(&self) -> State {
        self.get().await.expect("an answer").state()
    }

    fn wait_request(&self, until: Until, timeout: Option<Duration>) -> Request<WaitOperationRequest> {
        let timeout = timeout.map(|timeout| timeout.try_into().expect("a duration"));
        self.request(WaitOperationRequest { key: self.key.clone(), until: until.into(), timeout })
    }

    async fn wait(&self, until: Until, timeout: Option<Duration>) -> Result<Operation, Status> {
        let request = self.wait_request(until, timeout);
        self.client.clone().wait_operation(request).await.map(Response::into_inner)
    }

    async fn describe(&self, path: &str) -> Result<v1::Procedure, Status> {
        let request = self.request(DescribeProcedureRequest { procedure: path.to_owned() });
        self.client.clone().describe_procedure(request).await.map(Response::into_inner)
    }

    /// Waits in a task; aborting the task disconnects the client.
    pub(crate) fn spawn_wait(&self, until: Until) -> JoinHandle<Result<Operation, Status>> {
        let waiting = self.clone();
        tokio::spawn(async move { waiting.wait(until, None).await })
    }

    pub(crate) fn by(&self, user: Uuid) -> Self {
        Self { user: Some(user), ..self.clone() }
    }
}

#[tokio::test(start_paused = true)]
async fn tell_what_became_of_a_call_from_its_beginning_to_its_end() {
    let store = MemoryStore::new();
    let shop = Shop::paused(store.clone()).await;
    let operations = Operations::of(&shop).await;
    let absent = operations.get().await.expect("an answer");
    assert_eq!(absent, Operation { key: operations.key.clone(), state: State::Absent.into(), ..Default::default() });

    let call = shop.begin_create("hold").await;
    let running = operations.get().await.expect("an answer");
    assert_eq!(
        (running.state(), running.procedure.as_str(), running.work()),
        (State::Running, CREATE, Work::Unspecified)
    );
    assert!(running.create_time.is_some() && running.complete_time.is_none() && running.expire_time.is_some());

    shop.handler.open(1);
    let order = order_id(&call.await.expect("no panic").expect("a response"));
    let completed = operations.get().await.expect("an answer");
    assert_eq!((completed.state(), completed.work()), (State::Completed, Work::Processing));
    let resource = completed.resource.expect("a resource");
    assert_eq!((resource.r#type.as_str(), resource.id), ("order", order.to_string()));
    assert!(completed.complete_time.is_some());
    for (status, work) in [(OutboxStatus::Completed, Work::Completed), (OutboxStatus::Failed, Work::Failed)] {
        store.set_status(order, status);
        assert_eq!(operations.get().await.expect("an answer").work(), work);
    }
    store.advance(Policies::default().retention * 2);
    assert_eq!(operations.state().await, State::Expired);
}

#[tokio::test(start_paused = true)]
async fn tell_calls_apart_that_ended_in_other_ways() {
    let store = MemoryStore::new();
    let shop = Shop::paused(store.clone()).await;
    let operations = Operations::of(&shop).await;
    shop.cancel("fail for good").await.expect_err("a final error");
    assert_eq!(operations.state().await, State::Failed);

    let touched = shop.with_new_key();
    touched.touch("a").await.expect("a response");
    let done = Operations::of(&touched).await.get().await.expect("an answer");
    // No asynchronous work follows.
    assert_eq!((done.state(), done.work(), done.resource), (State::Completed, Work::Completed, None));

    let failed = shop.with_new_key();
    failed.create("fail").await.expect_err("an error");
    assert_eq!(Operations::of(&failed).await.state().await, State::Absent, "the key is free");

    let died = shop.with_new_key();
    died.die(&store, CREATE, "a").await;
    assert_eq!(Operations::of(&died).await.state().await, State::Unknown);
}

#[tokio::test(start_paused = true)]
async fn belong_to_their_callers() {
    let shop = Shop::paused(MemoryStore::new()).await;
    shop.create("a").await.expect("a response");
    let operations = Operations::of(&shop).await;
    assert_eq!(operations.state().await, State::Completed);
    let other = operations.by(Uuid::new_v4());
    assert_eq!(other.state().await, State::Absent);
    let waited = other.wait(Until::WorkEnded, None).await.expect("an answer");
    assert_eq!((waited.state(), waited.procedure, waited.resource), (State::Absent, String::new(), None));

    let nobody = Operations { user: None, ..operations };
    for refused in [nobody.get().await, nobody.wait(Until::CallEnded, None).await] {
        assert_refused(refused, Code::Unauthenticated, Reason::NoUser);
    }
}

#[tokio::test(start_paused = true)]
async fn need_a_scope_where_calls_do() {
    let shop = Shop::in_memory(|builder| builder.store(MemoryStore::new()).on_no_scope(ScopePolicy::Reject)).await;
    assert_refused(Operations::of(&shop).await.get().await, Code::Unauthenticated, Reason::NoScope);
    let failing = |_: &http::HeaderMap, _: &http::Extensions| Err("no".into());
    let shop = Shop::in_memory(|builder| builder.store(MemoryStore::new()).caller_resolver(failing)).await;
    assert_refused(Operations::of(&shop).await.get().await, Code::Internal, Reason::CallerInvalid);
}

#[tokio::test(start_paused = true)]
async fn find_a_key_in_any_of_its_forms() {
    let store = MemoryStore::new();
    let shop = Shop::paused(store.clone()).await;
    shop.create("a").await.expect("a response");
    let operations = Operations::of(&shop).await;
    let uuid = operations.key.clone();
    for key in [uuid.to_uppercase(), uuid.replace('-', ""), format!("urn:uuid:{uuid}"), format!("{{{uuid}}}")] {
        let found = Operations { key: key.clone(), ..operations.clone() }.get().await.expect("an answer");
        assert_eq!((found.state(), found.key), (State::Completed, key));
    }
    let mut claim = shop.claim(TOUCH, "a");
    let order: KeyId = IdempotencyKey::new("order-17", KeyFormat::Any).expect("a key").id();
    (claim.reservation.key, claim.lease) = (order, Duration::from_secs(60));
    store.claim(&claim).await.expect("the store answers");
    let found = Operations { key: "order-17".to_owned(), ..operations.clone() };
    assert_eq!(found.state().await, State::Running);

    for key in ["", "order 17", "größe", &"k".repeat(256)] {
        let malformed = Operations { key: key.to_owned(), ..operations.clone() };
        for refused in [malformed.get().await, malformed.wait(Until::CallEnded, None).await] {
            assert_refused(refused, Code::InvalidArgument, Reason::KeyInvalid);
        }
    }
}

/// Those that are no gRPC calls, too, by the key that is made of their id.
#[tokio::test(start_paused = true)]
async fn of_messages_are_known_and_withheld_likewise() {
    const CHARGE: &str = "billing.v1/ChargeOrder";
    for is_withheld in [false, true] {
        let hook = move |request: ReplayRequest| async move {
            assert_eq!(request.procedure, format!("/{CHARGE}"));
            if is_withheld { Err(Status::permission_denied("you have left the organisation")) } else { Ok(()) }
        };
        let with = |builder: IdempotencyLayerBuilder| builder.store(MemoryStore::new()).authorize_replay(hook);
        let shop = Shop::in_memory(|builder| with(builder).procedure(Procedure::operation(CHARGE))).await;
        let charge = shop.layer.operation::<tonic_idempotency::run::Bytes>(CHARGE).expect("it is declared");
        let caller = Caller::new(tonic_idempotency::UserId::new(shop.user.expect("a user")));
        let key = shop.key.expect("a key").to_string();
        let ended = charge.run(&caller, &key, b"", |_| async { Ok::<_, Infallible>(Vec::new()) }).await;
        ended.expect("it succeeds");
        assert_eq!(Operations::of(&shop).await.get().await.expect("the id is no key").state(), State::Absent);
        let shop = shop.with_key(Some(*KeyId::of_operation(CHARGE, &key).as_uuid()));
        match Operations::of(&shop).await.get().await {
            Ok(operation) => assert!(!is_withheld && operation.state() == State::Completed, "{operation:?}"),
            Err(status) => assert_eq!((is_withheld, status.code()), (true, Code::PermissionDenied)),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn are_withheld_as_their_replays_are() {
    let leaves = |request: ReplayRequest| async move {
        assert_eq!((request.procedure.as_str(), request.resource.is_some()), (CREATE, true));
        Err(Status::permission_denied("you have left the organisation"))
    };
    let shop = Shop::in_memory(|builder| builder.store(MemoryStore::new()).authorize_replay(leaves)).await;
    let operations = Operations::of(&shop).await;
    let call = shop.begin_create("hold").await;
    assert_eq!(operations.state().await, State::Running);
    let waiting = operations.spawn_wait(Until::CallEnded);
    quiet().await;
    shop.handler.open(1);
    call.await.expect("no panic").expect("a response");
    for withheld in [operations.get().await, waiting.await.expect("no panic")] {
        assert_eq!(withheld.expect_err("withheld").code(), Code::PermissionDenied);
    }
}

#[tokio::test(start_paused = true)]
async fn wake_those_who_wait_at_once_when_the_call_ends_in_this_process() {
    let (shop, store) = Shop::watched(|builder| builder).await;
    let operations = Operations::with(&shop, |builder| builder.max_pause(Duration::from_secs(3600))).await;
    let call = shop.begin_create("hold").await;
    let waiting = operations.spawn_wait(Until::CallEnded);
    advance(Duration::from_secs(10)).await;
    quiet().await;
    let (began, asked) = (Instant::now(), store.asked(watched::Operation::LookUp));
    assert!(asked < 10, "the pauses grow: {asked}");
    shop.handler.open(1);
    let ended = waiting.await.expect("no panic").expect("an answer");
    assert_eq!((ended.state(), ended.work()), (State::Completed, Work::Processing));
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    assert_eq!(store.asked(watched::Operation::LookUp), asked + 1);
    call.await.expect("no panic").expect("a response");
}

#[tokio::test(start_paused = true)]
async fn ask_the_store_together_when_they_wait_for_one_key() {
    let (shop, store) = Shop::watched(|builder| builder).await;
    let beside = Shop { user: shop.user, key: shop.key, ..Shop::paused(store.clone()).await };
    let asked = || store.asked(watched::Operation::LookUp);
    let call = shop.begin_create("hold").await;
    let [here, there] = [Operations::of(&shop).await, Operations::of(&beside).await]
        .map(|operations| (0..20).map(|_| operations.spawn_wait(Until::CallEnded)).collect::<Vec<_>>());
    quiet().await;
    assert_eq!(asked(), 40, "each asks at once");
    sleep(Duration::from_secs(3)).await;
    quiet().await;
    let questions = asked() - 40;
    assert!((30..80).contains(&questions), "two processes asked {questions} times");

    let before = asked();
    shop.handler.open(1);
    for waiting in here {
        assert_eq!(waiting.await.expect("no panic").expect("an answer").state(), State::Completed);
    }
    assert_eq!(asked(), before + 1, "one is told by the call, and tells the others");
    for waiting in there {
        assert_eq!(waiting.await.expect("no panic").expect("an answer").state(), State::Completed);
    }
    assert_eq!(asked(), before + 2);
    call.await.expect("no panic").expect("a response");
}

#[tokio::test(start_paused = true)]
async fn go_on_asking_when_the_request_that_asks_goes_away() {
    let (shop, store) = Shop::watched(|builder| builder).await;
    let operations = Operations::of(&shop).await;
    let asked = || store.asked(watched::Operation::LookUp);
    let _call = shop.begin_create("hold").await;
    let [asks, waits] = [operations.spawn_wait(Until::CallEnded), operations.spawn_wait(Until::CallEnded)];
    quiet().await;
    store.hang(watched::Operation::LookUp);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(asked(), 3, "one asks, and has no answer");
    store.mend(watched::Operation::LookUp);
    asks.abort();
    quiet().await;
    assert_eq!(asked(), 4, "the other one asks at once");

    // In a pause.
    let third = operations.spawn_wait(Until::CallEnded);
    quiet().await;
    waits.abort();
    quiet().await;
    shop.handler.open(1);
    let began = Instant::now();
    assert_eq!(third.await.expect("no panic").expect("an answer").state(), State::Completed);
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn keep_their_own_deadlines_when_they_wait_together() {
    let (shop, store) = Shop::watched(|builder| builder).await;
    let operations = Operations::of(&shop).await;
    let _call = shop.begin_create("hold").await;
    let began = Instant::now();
    let wait = async |seconds| {
        let seconds = Duration::from_secs(seconds);
        let known = operations.wait(Until::CallEnded, Some(seconds)).await.expect("an answer");
        assert_eq!(known.state(), State::Running);
        assert!(began.elapsed() >= seconds && began.elapsed() < seconds + AT_ONCE, "{:?}", began.elapsed());
    };
    let hang = async {
        quiet().await;
        store.hang(watched::Operation::LookUp);
    };
    tokio::join!(wait(2), wait(4), wait(3), hang);
}

#[tokio::test(start_paused = true)]
async fn wait_for_the_work_behind_a_call() {
    let (shop, store) = Shop::watched(|builder| builder).await;
    let operations = Operations::of(&shop).await;
    let order = order_id(&shop.create("a").await.expect("a response"));
    assert_eq!(operations.wait(Until::Unspecified, None).await.expect("at once").work(), Work::Processing);
    let waiting = operations.spawn_wait(Until::WorkEnded);
    advance(Duration::from_secs(10)).await;
    quiet().await;
    assert!(!waiting.is_finished());
    store.set_status(order, OutboxStatus::Failed);
    let ended = waiting.await.expect("no panic").expect("an answer");
    assert_eq!((ended.state(), ended.work()), (State::Completed, Work::Failed));
}

#[tokio::test(start_paused = true)]
async fn answer_with_what_is_known_when_the_time_is_up() {
    let shop = Shop::paused(Watched::default()).await;
    let operations = Operations::of(&shop).await;
    let _call = shop.begin_create("hold").await;
    let seconds = Duration::from_secs;
    for (timeout, least, most) in [(Some(0), 0, 0), (Some(5), 5, 5), (Some(60), 30, 30), (None, 30, 30)] {
        let began = Instant::now();
        let known = operations.wait(Until::CallEnded, timeout.map(seconds)).await.expect("an answer");
        assert_eq!((known.state(), known.procedure.as_str()), (State::Running, CREATE));
        let took = began.elapsed();
        assert!(took >= seconds(least) && took < seconds(most) + AT_ONCE, "{timeout:?}: {took:?}");
    }
    // Before the caller's deadline.
    let mut request = operations.wait_request(Until::CallEnded, None);
    request.set_timeout(seconds(4));
    let known = operations.client.clone().wait_operation(request).await.expect("an answer, not DEADLINE_EXCEEDED");
    assert_eq!(known.into_inner().state(), State::Running);

    for seconds in [-1, i64::MIN] {
        let mut request = operations.wait_request(Until::CallEnded, None);
        request.get_mut().timeout = Some(prost_types::Duration { seconds, nanos: 0 });
        let status = operations.client.clone().wait_operation(request).await.expect_err("refused");
        assert_eq!(status.code(), Code::InvalidArgument, "{seconds}");
    }
}

#[tokio::test(start_paused = true)]
async fn let_a_bounded_number_wait_and_forget_clients_that_have_gone() {
    let limits = Limits { waiting: Limit::new(2, 1), ..Limits::default() };
    let shop = Shop::in_memory(|builder| builder.store(MemoryStore::new()).limits(limits)).await;
    let _call = shop.begin_create("hold").await;
    let operations = Operations::of(&shop).await;
    let other = operations.by(Uuid::new_v4());
    let third = operations.by(Uuid::new_v4());
    // The other user's own call has the same key.
    let shop_of_other = Shop { user: other.user, ..shop.with_key(shop.key) };
    let _call_of_other = shop_of_other.spawn_create("hold");
    let shop_of_third = Shop { user: third.user, ..shop.with_key(shop.key) };
    let _call_of_third = shop_of_third.begin_create("hold").await;
    let gone = operations.spawn_wait(Until::CallEnded);
    quiet().await;
    let status =
        assert_refused(operations.wait(Until::CallEnded, None).await, Code::ResourceExhausted, Reason::Overloaded);
    assert_eq!(retry_delay(&status), Duration::from_secs(1));
    let _waits = other.spawn_wait(Until::CallEnded);
    quiet().await;
    let status = assert_refused(third.wait(Until::CallEnded, None).await, Code::Unavailable, Reason::Overloaded);
    assert_eq!(retry_delay(&status), Duration::from_secs(1));
    assert_eq!(operations.state().await, State::Running, "who does not wait is answered");

    gone.abort();
    quiet().await;
    let again = third.spawn_wait(Until::CallEnded);
    quiet().await;
    assert!(!again.is_finished(), "it waits in the place of the client that has gone");
}

#[tokio::test(start_paused = true)]
async fn wait_no_longer_when_the_layer_shuts_down() {
    let shop = Shop::paused(MemoryStore::new()).await;
    let operations = Operations::of(&shop).await;
    let _call = shop.begin_create("hold").await;
    let waiting = operations.spawn_wait(Until::CallEnded);
    quiet().await;
    let layer = shop.layer.clone();
    let stopping = tokio::spawn(async move { layer.shutdown(Duration::from_secs(60)).await });
    assert_refused(waiting.await.expect("no panic"), Code::Unavailable, Reason::ShuttingDown);
    assert!(!stopping.is_finished(), "the call runs on");
    assert_eq!(operations.state().await, State::Running, "who does not wait is answered");
    shop.handler.open(1);
    assert!(stopping.await.expect("no panic").unfinished.is_empty());
    assert_eq!(operations.state().await, State::Completed);
}

#[tokio::test(start_paused = true)]
async fn are_refused_as_calls_are_while_the_store_fails() {
    let (shop, store) = Shop::watched(|builder| builder).await;
    let operations = Operations::of(&shop).await;
    for (kind, code, reason) in [
        (StoreErrorKind::Unreachable, Code::Unavailable, Reason::StoreUnavailable),
        (StoreErrorKind::Interrupted, Code::Unavailable, Reason::StoreUnavailable),
        (StoreErrorKind::Overloaded, Code::Unavailable, Reason::Overloaded),
        (StoreErrorKind::Refused, Code::Internal, Reason::StoreFailed),
        (StoreErrorKind::Corrupt, Code::Internal, Reason::StoreFailed),
    ] {
        store.fail(watched::Operation::LookUp, kind);
        for refused in [operations.get().await, operations.wait(Until::CallEnded, None).await] {
            assert_refused(refused, code, reason);
        }
    }
    store.mend(watched::Operation::LookUp);
    assert_eq!(operations.state().await, State::Absent);

    let without_store = IdempotencyLayer::builder(shop::FILE_DESCRIPTOR_SET).build().expect("a layer");
    let operations = Operations::of(&Shop { layer: without_store, ..shop }).await;
    assert_eq!(operations.get().await.expect_err("refused").code(), Code::Unimplemented);
    assert_eq!(operations.describe(CREATE).await.expect_err("refused").code(), Code::Unimplemented);
}

#[tokio::test(start_paused = true)]
async fn describe_the_policies_of_a_procedure_that_are_in_force() {
    let defaults = Policies { lease: Duration::from_secs(7), ..Policies::default() };
    let pay = Procedure::builder(PAY).retention(Duration::from_secs(3600)).creates_untracked("receipt", "payment_id");
    let shop = Shop::in_memory(|builder| builder.store(MemoryStore::new()).policies(defaults).procedure(pay)).await;
    let operations = Operations::of(&shop).await;
    let described = operations.describe(PAY).await.expect("a procedure");
    let without_slash = operations.describe(PAY.trim_start_matches('/')).await;
    assert_eq!(without_slash.expect("a procedure"), described);
    let seconds = |duration: Option<prost_types::Duration>| duration.map(|it| it.seconds);
    // By code, by the option, and by the policy's own default.
    let created =
        v1::Creates { resource_type: "receipt".to_owned(), id_field: "payment_id".to_owned(), untracked: true };
    assert_eq!((described.creates.as_ref(), seconds(described.retention)), (Some(&created), Some(3600)));
    assert_eq!((described.key_policy(), seconds(described.lease)), (v1::KeyPolicy::Required, Some(60)));
    assert_eq!(described.redact, ["secret", "receipts.secret"]);
    assert_eq!((described.mode(), seconds(described.max_wait)), (v1::Mode::Reserved, Some(30)));
    // By the layer's default.
    let described = operations.describe(TOUCH).await.expect("a procedure");
    assert_eq!((described.creates, seconds(described.lease)), (None, Some(7)));
}

#[tokio::test(start_paused = true)]
async fn describe_no_procedure_that_the_layer_does_not_protect() {
    let ledger = Procedure::operation("ledger/Post");
    let shop = Shop::in_memory(|builder| builder.store(MemoryStore::new()).procedure(ledger)).await;
    let operations = Operations::of(&shop).await;
    let long = "p".repeat(60_000);
    for path in ["/shop.v1.Shop/GetOrder", "/shop.v1.Shop/Gone", "/ledger/Post", "/", "", "no such path", &long] {
        let status = operations.describe(path).await.expect_err("it is not protected");
        assert_eq!(status.code(), Code::NotFound, "{path}");
    }
    let nobody = Operations { user: None, ..operations };
    for path in [CREATE, "/shop.v1.Shop/Gone"] {
        assert_refused(nobody.describe(path).await, Code::Unauthenticated, Reason::NoUser);
    }
}
