//! The names that most files of this suite use.

pub(crate) use std::time::Duration;

pub(crate) use tonic::{Code, Request, Status};
pub(crate) use tonic_idempotency_client::{Delivery, IdempotencyClientLayer, OperationKey, journal::Journal};
pub(crate) use tonic_idempotency_tests::shop::{self, FILE_DESCRIPTOR_SET, proto::shop_client::ShopClient};
pub(crate) use tower_layer::Layer as _;
pub(crate) use uuid::Uuid;
