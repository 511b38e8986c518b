//! Transactions inside of the call's, which are savepoints.

use futures_util::FutureExt as _;
use tokio_postgres::Client;
use tonic::Status;
use tonic_idempotency::rejection::Reason;
use tonic_idempotency_tests::Database;
use uuid::Uuid;

use crate::{Call, End, Service, Stack, Step, all_have_ended, assert_clean, names, pool, reason, status};

fn insert(name: &str) -> Step {
    Step::Insert(name.to_owned())
}

/// A nested transaction: its steps, and its end.
type Nested = (fn() -> Vec<Step>, End);

/// The names that are left of calls with and without a key whose handler takes these steps, each in a nested transaction of its own.
async fn left<S: Stack>(nested: &'static [Nested]) -> Vec<String> {
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
        (
            || {
                vec![
                    insert("outer"),
                    Step::Nested(
                        vec![insert("inner"), Step::Nested(vec![insert("innermost")], End::Commit)],
                        End::Commit,
                    ),
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

pub async fn one_whose_commit_fails_is_rolled_back<S: Stack>() {
    let left = left::<S>(&[(|| vec![insert("failed"), Step::Fail], End::Commit)]);
    assert_eq!(left.await, ["shop"]);
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

/// The depth that a library counts starts anew with each call on the connection.
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

/// A table without row-level security, which a statement outside of the call's transaction can write, too.
async fn make_notes(owner: &Client) {
    let make = "CREATE TABLE tenant.notes (name text); GRANT INSERT ON tenant.notes TO PUBLIC";
    owner.batch_execute(make).await.expect("a table");
}

const INSERT_NOTE: &str = "INSERT INTO tenant.notes VALUES ('a note')";

/// The numbers of notes and of records.
async fn notes(owner: &Client) -> [i64; 2] {
    let count = "SELECT (SELECT count(*) FROM tenant.notes), (SELECT count(*) FROM tenant.idempotency_keys)";
    let row = owner.query_one(count, &[]).await.expect("the counts");
    [row.get(0), row.get(1)]
}

/// Later writes of the handler are not committed on their own.
pub async fn after_one_that_cannot_begin_no_statement_leaves_an_effect<S: Stack>() {
    let database = Database::new().await;
    let (owner, pool) = (database.owner().await, pool::<S>(&database, 1));
    make_notes(&owner).await;
    let service = Service::new(&database, pool.clone(), |call: Call<S>| async move {
        call.execute("SELECT 1 / 0").await.expect_err("a division by zero");
        for _ in 0..2 {
            call.nested(&[], End::Commit).await.expect_err("the transaction has failed");
            for _ in 0..4 {
                call.execute(INSERT_NOTE).await.expect_err("the transaction has failed");
            }
        }
        Ok(Uuid::nil())
    })
    .await;
    for key in [service.key, None] {
        assert_eq!(reason(service.with_key(key).create("shop").await), Reason::NotCommitted);
        all_have_ended(&owner).await;
        assert_eq!(notes(&owner).await, [0, 0]);
        assert_clean::<S>(&pool).await;
    }
}

/// The handler goes on, as after a timeout.
pub async fn one_that_is_given_up_while_it_begins_leaves_an_effect_with_its_record_or_neither<S: Stack>() {
    let database = Database::new().await;
    let (owner, pool) = (database.owner().await, pool::<S>(&database, 1));
    make_notes(&owner).await;
    let service = Service::new(&database, pool.clone(), |call: Call<S>| async move {
        let given_up = call.nested(&[], End::Commit).now_or_never();
        assert!(given_up.is_none(), "it has an answer to wait for");
        let mut written = false;
        for _ in 0..4 {
            written = written || call.execute(INSERT_NOTE).await.is_ok();
        }
        if call.name == "swallow" || written { Ok(Uuid::nil()) } else { Err(Status::not_found("no note")) }
    })
    .await;
    for name in ["swallow", "tell"] {
        for key in [Some(Uuid::new_v4()), None] {
            let created = service.with_key(key).create(name).await;
            all_have_ended(&owner).await;
            let kept = i64::from(created.is_ok());
            assert_eq!(notes(&owner).await, [kept, kept * i64::from(key.is_some())], "{created:?}");
            assert_clean::<S>(&pool).await;
            let empty = "DELETE FROM tenant.notes; DELETE FROM tenant.idempotency_keys";
            owner.batch_execute(empty).await.expect("empty tables");
        }
    }
}

/// Random trees of nested transactions leave the rows that a simple model of savepoints predicts.
pub async fn random_trees_leave_what_the_model_says<S: Stack>() {
    let database = Database::new().await;
    let owner = database.owner().await;
    let pool = pool::<S>(&database, 1);
    let service = Service::new(&database, pool.clone(), |call: Call<S>| async move {
        let project = call.insert().await?;
        for step in tree(&call.name) {
            match step {
                Step::Insert(name) => drop(call.insert_as(&name).await?),
                Step::Nested(steps, end) => drop(call.nested(&steps, end).await),
                Step::Fail | Step::Lose => unreachable!("not at the top"),
            }
        }
        Ok(project)
    })
    .await;
    for seed in 0..60 {
        let seed = seed.to_string();
        let mut expected = kept(&tree(&seed));
        expected.push(seed.clone());
        expected.sort_unstable();
        for service in [service.with_new_key(), service.with_key(None)] {
            service.create(&seed).await.expect("a call");
            assert_eq!(names(&owner).await, expected, "{:#?}", tree(&seed));
            owner.batch_execute("DELETE FROM tenant.projects").await.expect("an empty table");
        }
    }
    assert_clean::<S>(&pool).await;
}

/// A random tree, which is the same for the same seed.
fn tree(seed: &str) -> Vec<Step> {
    let mut random = fastrand::Rng::with_seed(seed.parse().expect("a number"));
    (0..4).map(|_| step(&mut random, 3)).collect()
}

fn step(random: &mut fastrand::Rng, depth: usize) -> Step {
    if depth == 0 || random.bool() {
        return Step::Insert(format!("{:016x}", random.u64(..)));
    }
    let mut steps: Vec<_> = (0..random.usize(0..4)).map(|_| step(random, depth - 1)).collect();
    // Nothing but the end can follow.
    if random.u8(..4) == 0 {
        steps.push(Step::Fail);
        return Step::Nested(steps, End::RollBack);
    }
    Step::Nested(steps, *random.choice(&[End::Commit, End::Commit, End::RollBack]).expect("some"))
}

/// The names that these steps leave.
fn kept(steps: &[Step]) -> Vec<String> {
    let mut names = Vec::new();
    for step in steps {
        match step {
            Step::Insert(name) => names.push(name.clone()),
            Step::Nested(steps, End::Commit) => names.extend(kept(steps)),
            _ => {}
        }
    }
    names
}
