//! Clients that disconnect, and deadlines that pass, while a handler runs.

use crate::prelude::*;

/// Asserts that a call runs to its end, and is recorded, after its client has disconnected.
async fn goes_on_after(disconnect: impl AsyncFnOnce(&Shop)) {
    let shop = Shop::new().await;
    disconnect(&shop).await;
    assert_eq!((shop.handler.started(), shop.handler.finished()), (1, 0));

    shop.handler.open(1);
    until("the handler ends", async || shop.handler.finished() == 1).await;
    until("its outcome is recorded", async || shop.create("hold").await.is_ok()).await;
    shop.create("hold").await.expect("a replay").assert("processing", true);
    assert_eq!(shop.handler.started(), 1, "it ran once");
}

#[tokio::test]
async fn a_client_that_disconnects_does_not_cancel_its_call() {
    goes_on_after(async |shop: &Shop| {
        let call = shop.run_create("hold").await;
        call.abort();
        assert!(call.await.expect_err("it was aborted").is_cancelled());
    })
    .await;
}

#[tokio::test]
async fn a_deadline_that_passes_does_not_cancel_the_call() {
    goes_on_after(async |shop: &Shop| {
        let mut request: Request<_> = shop::request("hold", shop.user, shop.key);
        request.set_timeout(Duration::from_millis(200));
        let status = shop.client.clone().create_order(request).await.expect_err("the deadline passes");
        assert!(matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded), "{status:?}");
    })
    .await;
}

#[tokio::test]
async fn a_client_that_disconnects_cancels_its_call_without_a_key() {
    let shop = Shop::new().await.with_key(None);
    let call = shop.run_create("hold").await;
    call.abort();
    let _ = call.await;
    // The first handler would take the permit if it were still there.
    let next = shop.run_create("hold").await;
    shop.handler.open(1);
    next.await.expect("no panic").expect("the next call ends");
    assert_eq!(shop.handler.finished(), 1);
}
