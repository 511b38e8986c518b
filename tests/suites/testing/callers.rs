//! The callers of a harness.

use tonic::service::InterceptorLayer;
use tonic_idempotency::{Caller, Scope, UserId};
use tonic_idempotency_tests::shop;

use super::harness::{call, create, harness, order};
use super::prelude::*;

#[tokio::test]
async fn have_keys_of_their_own() {
    let (alice, orders) = harness(create, |procedure| procedure);
    let bob = alice.as_caller(UserId::from_text("auth0|bob").expect("an id"));
    let bob_at_acme =
        bob.as_caller(bob.caller().expect("bob").clone().in_scope(Scope::from_text("acme").expect("an id")));
    let key = Uuid::new_v4();
    for (runs, caller) in [&alice, &bob, &bob_at_acme].into_iter().enumerate() {
        caller.record(key).await.absent();
        let first = call(caller, &orders, key, "lamp").await.executed_once().into_message();
        assert_eq!(call(caller, &orders, key, "lamp").await.replayed().into_message(), first);
        assert_eq!(alice.runs(), runs + 1);
    }
}

#[tokio::test]
async fn are_missing_if_the_test_says_so() {
    let (harness, orders) = harness(create, |procedure| procedure);
    let nobody = harness.without_caller();
    assert_eq!(nobody.caller(), None);
    call(&nobody, &orders, Uuid::new_v4(), "lamp").await.refused_with(Reason::NoUser);
}

/// A test of the application's own authentication puts it around the channel.
#[tokio::test]
async fn come_from_a_layer_around_the_channel() {
    let (harness, _) = harness(create, |procedure| procedure);
    let authenticated = InterceptorLayer::new(shop::authenticate).layer(harness.channel());
    let mut orders = OrderServiceClient::new(authenticated);
    let (nobody, user, key) = (harness.without_caller(), Uuid::new_v4(), Uuid::new_v4());
    let request = || shop::with(order("lamp"), Some(user), None);
    let first = nobody.call(key, request(), |request| orders.create_order(request)).await.executed_once();
    let retry = nobody.call(key, request(), |request| orders.create_order(request)).await.replayed();
    assert_eq!(retry.into_message(), first.into_message());
    harness.as_caller(Caller::new(UserId::new(user))).record(key).await.expires_in().expect("the user's record");
}
