//! The plain statements of a transactional call, which take a free key and record it.

use crate::prelude::*;

/// Makes each attempt to get a key's lock wait for the test's own lock, after its statement has its snapshot.
const GATE: &str = "
    CREATE OR REPLACE FUNCTION tenant.idempotency_lock_id(p_user uuid, p_key uuid) RETURNS bigint LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_advisory_xact_lock_shared(4711);
        RETURN hashtextextended((encode(tenant.idempotency_seed(), 'hex') || p_user::text || p_key::text) COLLATE \"C\", 0);
    END $$;
    SELECT pg_advisory_lock(4711)";

/// A store that uses the plain statements even if the functions do everything else.
fn store(database: &Database) -> PostgresStore {
    database.store().common_path(true)
}

async fn begin(store: &impl Store, claim: &Claim, options: TransactionOptions) -> BeginOutcome {
    store.begin(claim, options).await.expect("the store answers")
}

async fn open(store: &impl Store, claim: &Claim, options: TransactionOptions) -> Box<dyn StoreTransaction> {
    match begin(store, claim, options).await {
        BeginOutcome::Open { transaction, .. } => transaction,
        refused => panic!("expected a transaction, got {refused:?}"),
    }
}

/// Begins a call on this store that gets its key's lock only after another call has committed the record of the key.
async fn begun_before_another_commits(database: &Database, store: PostgresStore, isolation: Isolation) -> BeginOutcome {
    let (owner, watch) = (database.owner().await, database.owner().await);
    let first = new_claim();
    let transaction = open(&store, &first, TransactionOptions::default()).await;
    owner.batch_execute(GATE).await.expect("the gate is closed");
    let second = again(&first);
    let options = TransactionOptions { isolation, ..TransactionOptions::default() };
    let second: JoinHandle<BeginOutcome> = tokio::spawn(async move { begin(&store, &second, options).await });
    until_held(&watch).await;
    committed(transaction, completion("first")).await;
    owner.batch_execute("SELECT pg_advisory_unlock(4711)").await.expect("the gate is open");
    second.await.expect("no panic")
}

/// The look comes after the lock: it has what was committed before the lock was free. So does that of the functions.
#[tokio::test]
async fn are_looked_at_after_their_lock_is_held() {
    for common_path in [true, false] {
        let database = Database::new().await;
        let store = store(&database).common_path(common_path);
        let begun = begun_before_another_commits(&database, store, Isolation::ReadCommitted).await;
        assert!(matches!(begun, BeginOutcome::Refused(ClaimOutcome::Replay(_))), "{common_path}: {begun:?}");
    }
}

/// The look-up of a lost COMMIT: an open transaction may still be committed, and one that was committed before the lock was free is found, by its
/// token only.
#[tokio::test]
async fn are_looked_up_after_their_lock_is_held() {
    let (database, owner) = Database::with_owner().await;
    let (watch, call) = (database.owner().await, new_claim());
    let look_up = async |reservation: Reservation| {
        let Reservation { owner, key, token } = reservation;
        let (user, key) = (owner.as_uuid(), key.as_uuid());
        let sql = format!("CALL tenant.idempotency_committed('{user}', '{key}', '{token}', NULL)");
        database.api().await.query_typed_one(&sql, &[]).await.expect("an answer").get::<_, Option<bool>>(0)
    };
    let transaction = open(&store(&database), &call, TransactionOptions::default()).await;
    assert_eq!(look_up(call.reservation).await, None);
    owner.batch_execute(GATE).await.expect("the gate is closed");
    let commit = async {
        until_held(&watch).await;
        let outcome = transaction.commit(Some(completion("done"))).await.expect("the store answers");
        owner.batch_execute("SELECT pg_advisory_unlock(4711)").await.expect("the gate is open");
        outcome
    };
    assert_eq!(tokio::join!(look_up(call.reservation), commit), (Some(true), CommitOutcome::Committed));
    assert_eq!(look_up(again(&call).reservation).await, Some(false));
}

/// There the snapshot is that of the first statement: the handler runs, and the record is refused.
#[tokio::test]
async fn are_recorded_once_at_repeatable_read() {
    let database = Database::new().await;
    let begun = begun_before_another_commits(&database, store(&database), Isolation::RepeatableRead).await;
    let BeginOutcome::Open { transaction, .. } = begun else { panic!("{begun:?}") };
    let outcome = transaction.commit(Some(completion("second"))).await.expect("the store answers");
    assert_eq!(outcome, CommitOutcome::Superseded);
}

/// There the look is beside the transaction, and later than its lock.
#[tokio::test]
async fn are_found_recorded_by_a_serializable_transaction() {
    let database = Database::new().await;
    let begun = begun_before_another_commits(&database, store(&database), Isolation::Serializable).await;
    assert!(matches!(begun, BeginOutcome::Refused(ClaimOutcome::Replay(_))), "{begun:?}");
}

/// The look finds an expired record. What it sets has to outlive the rollback of the handler's statements.
#[tokio::test]
async fn are_recorded_with_an_error_after_another_record_has_expired() {
    let database = Database::new().await;
    let (store, owner) = (store(&database), database.owner().await);
    let expired = new_claim();
    complete(&store, &expired, &completion("expired")).await;
    owner.batch_execute("UPDATE tenant.idempotency_keys SET expires = now()").await.expect("it expires");
    let options = TransactionOptions { savepoint: true, ..TransactionOptions::default() };
    let transaction = open(&store, &again(&expired), options).await;
    let response = StoredResponse::Error(b"final".as_slice().into());
    let outcome = transaction.commit(Some(Completion { response, resource: None, retention: HOUR })).await;
    assert_eq!(outcome.expect("the store answers"), CommitOutcome::Committed);
    let count = "SELECT count(*) FROM tenant.idempotency_keys WHERE error_bytes = 'final' AND expires > now()";
    assert_eq!(value::<i64>(&owner, count).await, 1);
}

/// One and two settings are set by the plain statement, and more by the function. The last one set wins, also over the layer's.
#[tokio::test]
async fn are_taken_with_the_settings_of_the_application_however_many() {
    let database = Database::new().await;
    let store = store(&database);
    for count in 0..=3 {
        let other = Uuid::new_v4().to_string();
        let names = ["app.current_user_id", "app.region", "app.tenant_id"];
        let settings = names[..count].iter().fold(SessionSettings::new(), |all, name| all.set(*name, other.as_str()));
        let user = Uuid::new_v4();
        let session = CallSession { user: Some(user), settings: (count > 0).then(|| Arc::new(settings)) };
        let claim = Claim { session, ..claim(user, Uuid::new_v4()) };
        let transaction = open(&store, &claim, TransactionOptions::default()).await;
        let handle = handle_of(&*transaction);
        for (place, name) in names.iter().enumerate() {
            let select = format!("SELECT coalesce(current_setting('{name}', true), '')");
            let seen: String = handle.query_one(&select, &[]).await.expect("a setting").get(0);
            let own = if place == 0 { user.to_string() } else { String::new() };
            assert_eq!(seen, if place < count { other.clone() } else { own }, "{count}: {name}");
        }
        drop(handle);
        let outcome = transaction.commit(Some(completion("done"))).await.expect("the store answers");
        assert_eq!(outcome, CommitOutcome::Committed, "{count}");
    }
}

/// As on Citus, where the plain statements' lock would not be that of the record's node.
#[tokio::test]
async fn are_left_to_the_functions_where_no_key_is_free() {
    let database = Database::new().await;
    let (store, owner) = (store(&database), database.owner().await);
    let none = "CREATE OR REPLACE FUNCTION tenant.idempotency_is_free(p_user uuid, p_key uuid) RETURNS boolean LANGUAGE plpgsql AS
                    $$ BEGIN RETURN false; END $$;
                CREATE FUNCTION public.mark() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN RAISE EXCEPTION 'by %', current_query(); END $$;
                CREATE TRIGGER mark BEFORE INSERT ON tenant.idempotency_keys FOR EACH ROW EXECUTE FUNCTION public.mark()";
    owner.batch_execute(none).await.expect("no key is free");
    let transaction = open(&store, &new_claim(), TransactionOptions::default()).await;
    let error = transaction.commit(Some(completion("done"))).await.expect_err("the trigger fails");
    assert!(format!("{error:?}").contains("by SELECT tenant.idempotency_commit("), "{error:?}");
    owner.batch_execute("DROP TRIGGER mark ON tenant.idempotency_keys").await.expect("it is gone");
    let first = new_claim();
    let transaction = open(&store, &first, TransactionOptions::default()).await;
    committed(transaction, completion("done")).await;
    replayed(refusal(&store, &again(&first)).await);
}

/// A unique constraint of the application that is checked at COMMIT has the record's SQLSTATE. The server tells of it before it has rolled
/// back: the key's lock may still be held then, by the same transaction.
#[tokio::test]
async fn are_not_taken_for_recorded_if_a_constraint_of_the_handler_is_violated() {
    let (database, owner) = Database::with_owner().await;
    let sql = "CREATE TABLE public.seats (seat integer UNIQUE DEFERRABLE INITIALLY DEFERRED);
                CREATE FUNCTION public.sit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
                    $$ BEGIN INSERT INTO public.seats VALUES (1); RETURN NEW; END $$;
                CREATE TRIGGER sit BEFORE INSERT ON tenant.idempotency_keys FOR EACH ROW EXECUTE FUNCTION public.sit()";
    execute(&owner, sql).await;
    let store = store(&database);
    let commit = || async {
        let transaction = open(&store, &new_claim(), TransactionOptions::default()).await;
        transaction.commit(Some(completion("seated"))).await.map_err(|error| error.kind())
    };
    assert_eq!(commit().await, Ok(CommitOutcome::Committed));
    for _ in 0..200 {
        assert_eq!(commit().await, Err(StoreErrorKind::Refused));
    }
}
