//! Callers of any form, in a scope or in none.

use std::error::Error;

use http::Extensions;
use tonic_idempotency::{Scope, UserId, policy::ScopePolicy};

use crate::prelude::*;

/// Reads the caller from the headers `user` and `scope`, as an application's own resolver reads it from a token.
fn of_headers(headers: &HeaderMap, _: &Extensions) -> Result<Option<Caller>, Box<dyn Error + Send + Sync>> {
    let header = |name| headers.get(name).map(|value| value.to_str()).transpose();
    let Some(user) = header("user")? else { return Ok(None) };
    let caller = Caller::new(UserId::from_text(user)?);
    Ok(Some(match header("scope")? {
        Some(scope) => caller.in_scope(Scope::from_text(scope)?),
        None => caller,
    }))
}

async fn shop_with(build: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder) -> Shop {
    Shop::with(|builder| build(builder.store(MemoryStore::new()).caller_resolver(of_headers))).await
}

fn request(who: (&str, Option<&str>), name: &str, key: Option<Uuid>) -> tonic::Request<CreateOrderRequest> {
    let mut request = shop::request(name, None, key);
    for (header, value) in [("user", Some(who.0)), ("scope", who.1)] {
        if let Some(value) = value {
            request.metadata_mut().insert(header, value.parse().expect("metadata"));
        }
    }
    request
}

async fn create(shop: &Shop, who: (&str, Option<&str>), name: &str) -> Result<Seen, Status> {
    shop.client.clone().create_order(request(who, name, shop.key)).await.map(Seen::of)
}

async fn cancel(shop: &Shop, who: (&str, Option<&str>), name: &str) -> Result<Seen, Status> {
    shop.client.clone().cancel(request(who, name, shop.key)).await.map(Seen::of)
}

/// Different callers, of which some are easily taken for others.
const CALLERS: [(&str, Option<&str>); 6] = [
    ("auth0|x", Some("acme")),
    ("auth0|x", Some("globex")),
    ("auth0|x", None),
    ("acme", Some("auth0|x")),
    ("0198c0de-0000-7000-8000-00000000000a", None),
    ("0198c0de-0000-7000-8000-00000000000a", Some("acme")),
];

async fn two_scopes_never_share_a_key_a_hash_or_a_replay(store: impl Store) {
    let shop = Shop::with(|builder| builder.store(store).caller_resolver(of_headers)).await;
    let mut first = Vec::new();
    for (number, who) in CALLERS.into_iter().enumerate() {
        // Each has a request of its own: with a shared key, its hash would be refused.
        let name = number.to_string();
        let seen = create(&shop, who, &name).await.expect("a first call");
        seen.assert("processing", false);
        first.push(seen.message);
        cancel(&shop, who, &name).await.expect_err("the key of another procedure, of this caller");
    }
    for (number, who) in CALLERS.into_iter().enumerate() {
        let seen = create(&shop, who, &number.to_string()).await.expect("a replay");
        seen.assert("processing", true);
        assert_eq!(seen.message, first[number], "{who:?}");
        assert_refused(create(&shop, who, "another").await, Code::InvalidArgument, Reason::KeyReused);
    }
    assert_eq!(shop.handler.finished(), CALLERS.len());
}
on_both_stores!(two_scopes_never_share_a_key_a_hash_or_a_replay);

/// Replays of `Cancel` come from memory, as it creates no tracked resource.
#[tokio::test]
async fn two_scopes_share_no_replay_from_memory() {
    let shop = shop_with(|builder| builder).await;
    for who in CALLERS {
        for replayed in [false, true, true] {
            cancel(&shop, who, "a").await.expect("a call").assert("completed", replayed);
        }
    }
    assert_eq!(shop.handler.finished(), CALLERS.len());
}

/// `Cancel` lets its duplicates wait for the call that runs.
#[tokio::test]
async fn a_call_does_not_wait_for_one_of_another_scope() {
    let shop = shop_with(|builder| builder).await;
    let calls: Vec<JoinHandle<_>> = CALLERS
        .into_iter()
        .map(|who| {
            let shop = shop.with_key(shop.key);
            tokio::spawn(async move { cancel(&shop, who, "hold").await })
        })
        .collect();
    until("all of them run", async || shop.handler.started() == CALLERS.len()).await;
    shop.handler.open(CALLERS.len());
    for call in calls {
        call.await.expect("no panic").expect("a call").assert("completed", false);
    }
}

#[tokio::test]
async fn a_user_keeps_its_records_if_its_uuid_arrives_as_a_text() {
    let store = MemoryStore::new();
    let before = Shop::on(store.clone()).await;
    let first = before.create("a").await.expect("a first call");
    let after = Shop::with(|builder| builder.store(store).caller_resolver(of_headers)).await;
    let user = before.user.expect("a user").to_string();
    let seen = create(&Shop { key: before.key, ..after }, (&user, None), "a").await.expect("a replay");
    assert_eq!(seen, Seen { replayed: Some("true".to_owned()), ..first });
}

#[tokio::test]
async fn a_user_has_limits_of_its_own_in_each_scope() {
    let shop =
        shop_with(|builder| builder.limits(Limits { in_flight: Limit::new(1024, 1), ..Limits::default() })).await;
    let [acme, globex] = ["acme", "globex"].map(|scope| ("auth0|x", Some(scope)));
    let running = {
        let shop = shop.with_new_key();
        tokio::spawn(async move { create(&shop, acme, "hold").await })
    };
    until("it runs", async || shop.handler.started() == 1).await;
    assert_refused(create(&shop, acme, "a").await, Code::ResourceExhausted, Reason::Overloaded);
    create(&shop, globex, "a").await.expect("a call in another scope");
    shop.handler.open(1);
    running.await.expect("no panic").expect("the call at the limit");
}

/// Whatever the policies, such a call does not run, neither protected nor unprotected.
#[tokio::test]
async fn a_call_with_an_id_that_is_empty_or_too_long_is_refused() {
    let policies = Policies { on_no_user: UserPolicy::PassThrough, ..proceeding() };
    let shop = shop_with(|builder| builder.policies(policies)).await;
    let [longest, long] = [255, 256].map(|length| "x".repeat(length));
    for who in [(&*long, None), ("", None), ("alice", Some(&*long)), ("alice", Some("")), (&*long, Some("acme"))] {
        let status = assert_refused(create(&shop, who, "a").await, Code::Internal, Reason::CallerInvalid);
        assert!(!status.message().contains('x'), "{status:?}");
    }
    assert_eq!(shop.handler.started(), 0);
    create(&shop, (&longest, Some(&longest)), "a").await.expect("a call").assert("processing", false);
}

#[tokio::test]
async fn a_call_without_a_scope_is_refused_if_that_is_the_policy() {
    let shop = shop_with(|builder| builder.on_no_scope(ScopePolicy::Reject)).await;
    assert_refused(create(&shop, ("auth0|x", None), "a").await, Code::Unauthenticated, Reason::NoScope);
    let status = shop.create("a").await.map(drop);
    // A UUID in no scope is no exception.
    assert_refused(status, Code::Unauthenticated, Reason::NoScope);
    let nobody = Shop { user: None, ..shop.with_key(shop.key) };
    assert_refused(nobody.create("a").await, Code::Unauthenticated, Reason::NoUser);
    assert_eq!(shop.handler.started(), 0);

    create(&shop, ("auth0|x", Some("acme")), "a").await.expect("a call in a scope").assert("processing", false);
    create(&shop.with_key(None), ("auth0|x", None), "a").await.expect("a call without a key");
    assert_eq!(shop.handler.finished(), 2);
}

#[tokio::test]
async fn a_call_without_a_scope_runs_by_default() {
    let shop = shop_with(|builder| builder).await;
    create(&shop, ("auth0|x", None), "a").await.expect("a call").assert("processing", false);
}

/// As docs/callers.md has it for a service without users.
#[tokio::test]
async fn may_all_be_one() {
    let one = |_: &HeaderMap, _: &Extensions| Ok(Some(Caller::new(UserId::from_text("billing")?)));
    let shop = Shop::with(|builder| builder.store(MemoryStore::new()).caller_resolver(one)).await;
    shop.create("a").await.expect("the first call").assert("processing", false);
    let other = Shop { user: Some(Uuid::new_v4()), ..shop };
    other.create("a").await.expect("a replay").assert("processing", true);
}
