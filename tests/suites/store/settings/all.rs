//! All settings and encodings.

use super::everything::{ENCODINGS, SETTINGS, works_in_encoding, works_with_setting};

/// Some at a time.
async fn each<F: Future<Output = ()> + Send + 'static>(all: &[&'static str], works: fn(&'static str) -> F) {
    for some in all.chunks(4) {
        let mut databases = tokio::task::JoinSet::new();
        for one in some {
            databases.spawn(works(one));
        }
        databases.join_all().await;
    }
}

#[tokio::test]
async fn every_setting_changes_nothing() {
    each(SETTINGS, works_with_setting).await;
}

#[tokio::test]
async fn every_encoding_changes_nothing() {
    each(&ENCODINGS.split(' ').collect::<Vec<_>>(), works_in_encoding).await;
}
