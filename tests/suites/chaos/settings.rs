//! The promises hold in further settings.

use crate::{
    harness::run,
    kept::{SHORT, all_promises_were_kept},
};

#[tokio::test]
async fn are_kept_with_sealed_records_whose_keys_are_rotated_each_second() {
    let Some(ended) = run(&[&SHORT[..], &["--mode", "reserved", "--seal"]].concat()).await else { return };
    all_promises_were_kept(&ended);
    assert!(ended.number("sealed responses in the end") > 50, "{}", ended.said());
}

#[tokio::test]
async fn are_kept_with_serializable_transactions_while_everything_fails() {
    let Some(ended) = run(&[&SHORT[..], &["--mode", "transactional", "--serializable"]].concat()).await else { return };
    all_promises_were_kept(&ended);
}
