//! A driver that the program was built without.

use super::process::Process;

#[tokio::test]
async fn names_the_feature_if_it_was_built_without_the_driver() {
    let mut process = Process::spawn(None, &["--listen", "127.0.0.1:0", "--driver", "sqlx"]);

    assert!(!process.ended().await.success());

    let error = process.stderr();
    assert!(error.contains("`--features sqlx`"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}
