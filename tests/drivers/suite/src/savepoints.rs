//! Transactions inside of the call's, which are savepoints.

use tonic::Status;
use tonic_idempotency::rejection::Reason;
use tonic_idempotency_tests::Database;

use crate::{
    Call, End, Service, Stack, Step, all_have_ended, assert_clean, names, pool, reason, rows, status,
};

fn insert(name: &str) -> Step {
    Step::Insert(name.to_owned())
}

/// The names that are left of calls with and without a key whose handler takes these steps, each in a nested transaction of its own.
async fn left<S: Stack>(nested: &'static [(fn() -> Vec<Step>, End)]) -> Vec<String> {
    let database = Database::new().await;
    let (owner, pool) = (database.owner().await, pool::<S>(&database, 1));
    let service = Service::new(&database, pool.clone(), move |call: Call<S>| async move {
        for (steps, end) in nested {
            let steps = steps();
            let taken = call.nested(&steps, *end).await;
            if *end == End::Commit && steps.contains(&Step::Fail) {
                taken.expect_err("it has failed");
            } else {
                taken.map_err(status)?;
            }
        }
        call.insert().await
    })
    .await;
    service.create("shop").await.expect("a call");
    let names = names(&owner).await;
    all_have_ended(&owner).await;
    assert_clean::<S>(&pool).await;
    owner.batch_execute("DELETE FROM tenant.projects").await.expect("an empty table");
    service.with_key(None).create("shop").await.expect("a call");
    assert_eq!(crate::names(&owner).await, names, "without a key as with one");
    assert_clean::<S>(&pool).await;
    names
}

pub async fn are_kept_or_rolled_back_alone<S: Stack>() {
    let left = left::<S>(&[
        (|| vec![insert("kept"), insert("kept")], End::Commit),
        (|| vec![insert("undone")], End::RollBack),
        (|| vec![insert("failed"), Step::Fail], End::RollBack),
        (|| vec![insert("failed"), Step::Fail], End::Commit),
        (
            || {
                vec![
                    insert("outer"),
                    Step::Nested(vec![insert("inner"), Step::Nested(vec![insert("innermost")], End::Commit)], End::Commit),
                    Step::Nested(vec![insert("undone"), Step::Fail], End::RollBack),
                    insert("outer"),
                ]
            },
            End::Commit,
        ),
        (|| vec![Step::Nested(vec![insert("undone with the outer one")], End::Commit)], End::RollBack),
    ]);
    assert_eq!(left.await, ["inner", "innermost", "kept", "kept", "outer", "outer", "shop"]);
}

pub async fn are_rolled_back_if_dropped<S: Stack>() {
    let left = left::<S>(&[
        (|| vec![insert("dropped")], End::Drop),
        (|| vec![insert("kept"), Step::Nested(vec![insert("dropped")], End::Drop), insert("kept")], End::Commit),
        (|| vec![Step::Nested(vec![insert("dropped")], End::Commit), Step::Fail], End::Drop),
        (|| vec![insert("dropped at the end")], End::Drop),
    ]);
    assert_eq!(left.await, ["kept", "kept", "shop"]);
}

/// The depth that a library counts is that of a call, and not of another one before it on the connection.
pub async fn one_that_is_never_dropped_is_committed_with_the_call<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool::<S>(&database, 1);
    let service = Service::new(&database, pool.clone(), |call: Call<S>| async move {
        let project = call.insert().await?;
        call.nested(&[insert("leaked")], End::Leak).await.map_err(status)?;
        if call.name == "fail" { Err(Status::not_found("not now")) } else { Ok(project) }
    })
    .await;
    for key in [service.key, None] {
        service.with_key(key).create("fail").await.expect_err("it fails");
        all_have_ended(&owner).await;
        assert_clean::<S>(&pool).await;
        service.with_key(key).create("shop").await.expect("a call");
        all_have_ended(&owner).await;
        assert_clean::<S>(&pool).await;
    }
    assert_eq!(names(&owner).await, ["leaked", "leaked", "shop", "shop"]);
}

/// A savepoint cannot be set after a failed statement.
pub async fn one_that_cannot_be_set_does_not_hide_that_the_transaction_has_failed<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let service = Service::new(&database, pool::<S>(&database, 1), |call: Call<S>| async move {
        let project = call.insert().await?;
        call.execute("SELECT 1 / 0").await.expect_err("a division by zero");
        call.nested(&[], End::Commit).await.expect_err("the transaction has failed");
        Ok(project)
    })
    .await;
    for key in [service.key, None] {
        assert_eq!(reason(service.with_key(key).create("shop").await), Reason::NotCommitted);
        all_have_ended(&owner).await;
        assert_eq!(rows(&owner).await, [0, 0, 0]);
    }
}
