//! The handler's say on the record of its own call.

use crate::expires::{HOUR, TOUCH, call, expires, hour};
use crate::prelude::*;
use tonic_idempotency_tests::Lines;
use tracing::level_filters::LevelFilter;

/// Without final errors, a transaction has no savepoint to keep one in: the answer says that the key is free.
#[tokio::test]
async fn keeps_no_error_in_a_transaction_without_a_savepoint() {
    let (lines, _guard) = Lines::collect(LevelFilter::WARN);
    let database = Database::new().await;
    let adjust = |procedure: ProcedureBuilder| procedure.mode(Mode::Transactional).effect(EffectPolicy::Anywhere);
    let shop = Shop::with(|builder| builder.adjust_procedures(adjust).store(postgres(database.pool(4)))).await;
    for runs in 1..=2 {
        let answer = call(&shop, TOUCH, "final and fail").await;
        assert_eq!(
            (answer.status().code(), &answer.headers["idempotency-outcome"]),
            (Code::NotFound, &"freed".parse().expect("text"))
        );
        assert_eq!((shop.handler.started(), lines.count("final_error() has no effect")), (runs, 1));
    }
}

/// A shop whose store is in memory, and two whose store is PostgreSQL: in each mode.
async fn shops(database: &Database) -> [(&'static str, Shop); 3] {
    let on = |mode| {
        let pool = database.pool(4);
        Shop::with(move |builder| {
            let in_mode = move |procedure: ProcedureBuilder| procedure.mode(mode).effect(EffectPolicy::Anywhere);
            let adjust = move |procedure| in_mode(procedure).retention(HOUR).final_errors([Code::FailedPrecondition]);
            builder.adjust_procedures(adjust).store(postgres(pool)).replay_cache_bytes(0)
        })
    };
    [
        ("in memory", Shop::with(|builder| hour(builder).store(MemoryStore::new()).replay_cache_bytes(0)).await),
        ("reserved", on(Mode::Reserved).await),
        ("transactional", on(Mode::Transactional).await),
    ]
}

/// An error that is final because its handler says so; whatever its code, also one that can never be final by policy.
#[tokio::test]
async fn makes_an_error_final() {
    let database = Database::new().await;
    for (case, shop) in shops(&database).await {
        for (name, code) in [("final and fail with 14", Code::Unavailable), ("final and fail", Code::NotFound)] {
            let (shop, before) = (shop.with_new_key(), shop.handler.started());
            for attempt in 0..3 {
                let answer = call(&shop, TOUCH, name).await;
                assert_eq!((answer.status().code(), Reason::of(&answer.status())), (code, None), "{case}");
                assert_eq!(answer.headers["idempotency-outcome"], "kept", "{case}");
                assert_eq!(answer.headers.contains_key("idempotent-replayed"), attempt > 0, "{case}");
            }
            assert_eq!(shop.handler.started(), before + 1, "{case}: {name}");
        }
    }
}

#[tokio::test]
async fn changes_nothing_of_a_success_or_a_panic_that_was_to_be_a_final_error() {
    let database = Database::new().await;
    for (case, shop) in shops(&database).await {
        let succeeds = shop.with_new_key();
        succeeds.touch("final").await.expect(case).assert("completed", false);
        succeeds.touch("final").await.expect(case).assert("completed", true);
        let panics = shop.with_new_key();
        for _ in 0..2 {
            let answer = call(&panics, TOUCH, "final and panic").await;
            assert_eq!(answer.status().code(), Code::Internal, "{case}");
            assert!(!answer.headers.contains_key("idempotent-replayed"), "{case}");
        }
    }
}

#[tokio::test]
async fn shortens_the_life_of_the_record_and_never_lengthens_it() {
    let database = Database::new().await;
    for (case, shop) in shops(&database).await {
        for (name, most) in [("keep a minute", 60), ("keep for ever", 3600), ("keep a minute and final and fail", 60)] {
            let shop = shop.with_new_key();
            for attempt in ["the first", "a replay"] {
                let left = expires(&call(&shop, TOUCH, name).await.headers).expect(attempt);
                assert!((most - 30..=most).contains(&left), "{case}: {name}, {attempt}: {left} s");
            }
        }
    }
}

/// "Accepted, ask again": the call succeeds, and the next one with its key runs.
#[tokio::test]
async fn keeps_a_success_from_being_recorded() {
    let database = Database::new().await;
    for (case, shop) in shops(&database).await {
        for runs in 1..=3 {
            let answer = call(&shop, TOUCH, "forget").await;
            assert_eq!(answer.status().code(), Code::Ok, "{case}");
            assert!(!answer.headers.contains_key("idempotent-replayed"), "{case}");
            assert_eq!(expires(&answer.headers), None, "{case}");
            assert_eq!(shop.handler.finished(), runs, "{case}");
        }
        // The key is not bound to a request.
        shop.touch("another").await.expect(case).assert("completed", false);
        shop.touch("another").await.expect(case).assert("completed", true);
    }
}
