//! The names that most files of this suite use.

pub(crate) use std::{sync::Arc, time::Duration};

pub(crate) use quickstart::{
    FILE_DESCRIPTOR_SET,
    proto::{
        CreateOrderRequest, CreateOrderResponse, order_service_client::OrderServiceClient,
        order_service_server::OrderServiceServer,
    },
};
pub(crate) use tokio::sync::Semaphore;
pub(crate) use tonic::{Code, Request, Status};
pub(crate) use tonic_idempotency::{
    IdempotencyLayer, Transaction,
    policy::Procedure,
    rejection::Reason,
    store::MemoryStore,
    testing::{Harness, InProcess, Record},
};
pub(crate) use tonic_idempotency_tests::{Database, until};
pub(crate) use tower_layer::Layer as _;
pub(crate) use uuid::Uuid;
