//! The names that most files of this suite use.

pub(crate) use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

pub(crate) use bytes::Bytes;
pub(crate) use tonic::{Code, Request, Status};
pub(crate) use tonic_idempotency_client::journal::{Change, EntryOutcome, EntryState, Journal, JournalError};
pub(crate) use tonic_idempotency_tests::{
    Lines,
    shop::proto::{CreateOrderRequest, shop_client::ShopClient},
    until,
};
pub(crate) use tower_layer::Layer as _;
pub(crate) use tracing::level_filters::LevelFilter;
pub(crate) use uuid::Uuid;
