//! Look-ups in PostgreSQL, beyond the conformance suite.

use crate::prelude::*;

/// The look-up's own condition on the owner is taken away: only row-level security is left.
#[tokio::test]
async fn does_not_find_another_users_call_though_the_statement_forgets_its_owner() {
    let (database, store) = Database::with_store().await;
    let (alice, bob, key) = (Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4());
    let [of_alice, of_bob] = [alice, bob].map(|user| claim(user, key));
    complete(&store, &of_alice, &completion("alice's")).await;
    assert_eq!(look_up(&store, &of_bob).await.state, KeyState::Absent);

    let forget = "DO $$
        DECLARE
            v_procedure CONSTANT text := pg_get_functiondef('tenant.idempotency_look_up_row'::regproc);
            v_forgetful CONSTANT text := replace(v_procedure, ' AND x.user_id = p_user', '');
        BEGIN
            ASSERT v_forgetful <> v_procedure;
            EXECUTE v_forgetful;
        END $$";
    let owner = database.owner().await;
    owner.batch_execute(forget).await.expect("the procedure is replaced");
    assert_eq!(look_up(&store, &of_bob).await.state, KeyState::Absent);
    assert_eq!(look_up(&store, &of_alice).await.state, KeyState::Completed);

    owner.batch_execute("ALTER TABLE tenant.idempotency_keys DISABLE ROW LEVEL SECURITY").await.expect("it is off");
    assert_eq!(look_up(&store, &of_bob).await.state, KeyState::Completed, "only row-level security was left");
}

/// A lock of the key that the look-up took would refuse a call that begins meanwhile.
#[tokio::test]
async fn keeps_no_call_from_beginning() {
    let (database, store) = Database::with_store().await;
    let owner = database.owner().await;
    hold_at(&owner, "look_up", "state := coalesce(", &format!("{HOLD} state := coalesce(")).await;

    let first = new_claim();
    let (looking, asked) = (store.clone(), first.clone());
    let looking = tokio::spawn(async move { look_up(&looking, &asked).await });
    until_held(&owner).await;
    let transaction = open_transaction(&store, &first).await;
    let_go(&owner).await;
    assert_eq!(looking.await.expect("the look-up ends").state, KeyState::Absent);
    assert_eq!(look_up(&store, &first).await.state, KeyState::Running);
    transaction.commit(Some(completion("first"))).await.expect("a commit");
    assert_eq!(look_up(&store, &first).await.state, KeyState::Completed);
}

/// A call that begins in the place of an expired record is not mistaken for the call that left it.
#[tokio::test]
async fn finds_nothing_of_an_expired_call_while_another_runs_in_its_place() {
    let (_database, store) = Database::with_store().await;
    let first = new_claim();
    complete(&store, &first, &Completion { retention: Default::default(), ..completion("first") }).await;
    assert_eq!(look_up(&store, &first).await.state, KeyState::Expired);
    let transaction = open_transaction(&store, &again(&first)).await;
    let found = look_up(&store, &first).await;
    assert_eq!((found.state, found.procedure, found.expires), (KeyState::Running, None, None));
    transaction.roll_back().await;
    assert_eq!(look_up(&store, &first).await.state, KeyState::Expired);
}

/// The lock of a call that was refused would look like that of one that runs.
#[tokio::test]
async fn finds_a_call_as_it_was_right_after_another_was_refused_in_its_transaction() {
    let (_database, store) = Database::with_store().await;
    let first = Claim { lease: Duration::ZERO, ..new_claim() };
    acquire(&store, &first).await;
    for _ in 0..20 {
        let retry = Claim { on_lease_ended: LeasePolicy::Refuse, ..again(&first) };
        let begun = store.begin(&retry, TransactionOptions::default()).await.expect("the store answers");
        assert!(matches!(begun, BeginOutcome::Refused(ClaimOutcome::OutcomeUnknown)), "{begun:?}");
        assert_eq!(look_up(&store, &first).await.state, KeyState::Unknown);
    }
}

/// A status that cannot be looked up does not fail the look-up.
#[tokio::test]
async fn finds_a_call_whose_status_is_locked() {
    let (database, store) = Database::with_store().await;
    let project = database.project(Some(OutboxStatus::Completed)).await;
    let first = new_claim();
    complete(&store, &first, &Completion { resource: Some(project.clone()), ..completion("first") }).await;
    let owner = database.owner().await;
    execute(&owner, "BEGIN; LOCK TABLE authz.outbox IN ACCESS EXCLUSIVE MODE").await;
    let found = look_up(&store, &first).await;
    assert_eq!((found.state, found.resource), (KeyState::Completed, Some(project)));
    assert!(found.status.is_err(), "{:?}", found.status);
    execute(&owner, "ROLLBACK").await;
    assert_eq!(look_up(&store, &first).await.status.ok(), Some(Some(OutboxStatus::Completed)));
}
