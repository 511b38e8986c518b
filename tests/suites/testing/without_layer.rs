//! A handler that is called without the layer.

use tonic_idempotency::store::TransactionErrorKind;
use tonic_idempotency_tests::shop::FILE_DESCRIPTOR_SET;

use super::harness::{Orders, harness, order};
use super::prelude::*;

const QUESTION: &str =
    "no Transaction in the request: is the idempotency layer around this service, and the procedure transactional?";

async fn write(request: Request<CreateOrderRequest>) -> Result<String, Status> {
    Transaction::from_request(&request)?;
    Ok("order-1".to_owned())
}

#[test]
fn has_no_transaction_and_the_error_names_the_layer() {
    let error = Transaction::from_request(&Request::new(())).expect_err("there is no layer");
    assert_eq!(error.kind(), TransactionErrorKind::Missing);
    assert!(error.to_string().starts_with(QUESTION), "{error}");
    let status = Status::from(error);
    assert_eq!(status.code(), Code::Internal);
    assert!(status.message().starts_with(QUESTION), "{status}");
}

/// A service without the layer sends the message to its callers, too.
#[tokio::test]
async fn tells_its_client() {
    let mut orders = OrderServiceClient::new(OrderServiceServer::new(Orders(write)));
    let status = orders.create_order(order("lamp")).await.expect_err("there is no layer");
    assert!(status.message().starts_with(QUESTION), "{status}");
}

#[tokio::test]
async fn tells_the_client_of_a_procedure_that_is_not_transactional() {
    let (harness, mut orders) = harness(write, |procedure| procedure);
    let failed = harness.call(uuid::Uuid::new_v4(), order("lamp"), |request| orders.create_order(request)).await;
    assert!(failed.to_string().contains(QUESTION), "{failed}");
    failed.failed_with(Code::Internal);
}

/// The descriptors of another service: the layer protects something else.
#[tokio::test]
async fn is_not_protected_by_a_layer_for_another_service() {
    let harness = Harness::new(FILE_DESCRIPTOR_SET, OrderServiceServer::new(Orders(super::harness::create)));
    let mut orders = OrderServiceClient::new(harness.channel());
    let called = harness.call(uuid::Uuid::new_v4(), order("lamp"), |request| orders.create_order(request)).await;
    assert!(called.to_string().contains("the layer did not protect the call"), "{called}");
}
