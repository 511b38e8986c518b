//! Connections that fall silent without being closed: a firewall has forgotten them, or the server has vanished.

use crate::prelude::*;

fn store(pool: &deadpool_postgres::Pool) -> PostgresStore {
    PostgresStore::new(pool.clone(), organization::resource_types()).timeout(Duration::from_secs(8))
}

/// The others are not tried one after the other.
#[tokio::test]
async fn a_silent_connection_does_not_take_the_time_of_the_next_attempt() {
    let database = Database::new().await;
    let does_all_twice = async |size| {
        let (proxy, pool) = database.pool_through_proxy(size).await;
        open_all(&pool).await;
        proxy.silence_connections();
        for _ in 0..2 {
            acquire(&store(&pool), &new_claim()).await;
        }
        open_all(&pool).await;
        proxy.silence_connections();
        let claim = new_claim();
        open_transaction(&store(&pool), &claim).await.roll_back().await;
        let owner = Some(claim.reservation.owner);
        let transaction = store(&pool).begin_without_key(owner, &claim.session, TransactionOptions::default()).await;
        transaction.expect("the store answers").roll_back().await;
    };
    join_all([1, 4, 16].map(does_all_twice)).await;
}

/// A server that cannot be asked at all is not one that is slow.
#[tokio::test]
async fn a_server_that_is_silent_altogether_cannot_be_asked() {
    let database = Database::new().await;
    let (proxy, pool) = database.pool_through_proxy(4).await;
    open_all(&pool).await;
    proxy.hold();
    let store = store(&pool).timeout(Duration::from_secs(2));
    let first = new_claim();
    let error = store.claim(&first).await.expect_err("silence");
    assert_eq!((error.kind(), error.may_have_happened()), (StoreErrorKind::Interrupted, true));
    let error = store.begin(&again(&first), TransactionOptions::default()).await.expect_err("silence");
    assert_eq!((error.kind(), error.may_have_happened()), (StoreErrorKind::Unreachable, false));
    proxy.release();
}

/// No connection can be made, and nothing says why, or that no server listens.
#[tokio::test]
async fn a_server_that_is_silent_or_away_before_the_first_connection_is_unreachable() {
    let database = Database::new().await;
    for is_silent in [true, false] {
        let (proxy, pool) = database.pool_through_proxy(4).await;
        if is_silent {
            proxy.hold()
        } else {
            proxy.cut()
        }
        let store = store(&pool).timeout(Duration::from_secs(1));
        let error = store.claim(&new_claim()).await.expect_err("no connection");
        assert_eq!((error.kind(), error.may_have_happened()), (StoreErrorKind::Unreachable, false), "{is_silent}");
        proxy.release();
    }
}
