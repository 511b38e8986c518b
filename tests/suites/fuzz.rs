//! Replays the corpora of the fuzz targets, and small changes of their inputs.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use tonic_idempotency_tests::fuzz;

const DESCRIPTORS: &str = "../fuzz/corpus/descriptors";

/// How often each set of [`DESCRIPTORS`] is changed.
const CHANGES: u64 = 25;

#[test]
fn the_canonical_target_survives_its_corpus() {
    replay("../crates/protobuf-canonical/fuzz/corpus/canonical", fuzz::canonical);
}

#[test]
fn the_descriptors_target_survives_its_corpus() {
    replay(DESCRIPTORS, fuzz::descriptors);
}

/// Sets that can be decoded, and are wrong in a few places.
#[test]
fn the_descriptors_target_survives_changes_of_its_corpus() {
    let mut changed = 0;
    for file in files(&directory(DESCRIPTORS)) {
        let set = fs::read(&file).expect("a file of the corpus");
        for seed in 0..CHANGES {
            let Some(input) = fuzz::mutate(&set, seed) else { break };
            let outcome = catch_unwind(AssertUnwindSafe(|| fuzz::descriptors(&input)));
            assert!(outcome.is_ok(), "{} changed with seed {seed}", file.display());
            changed += 1;
        }
    }
    assert!(changed > 200, "{changed} inputs");
}

#[test]
fn the_envelope_target_survives_its_corpus() {
    replay("../fuzz/corpus/envelope", fuzz::envelope);
}

#[test]
fn the_framing_target_survives_its_corpus() {
    replay("../fuzz/corpus/framing", fuzz::framing);
}

#[test]
fn the_json_target_survives_its_corpus() {
    replay("../crates/protobuf-canonical/fuzz/corpus/json", fuzz::json);
}

/// Runs a target on each file of its corpus, which is a path relative to this package: on the whole file, on the file
/// cut off at every byte (a long one at about 32), and on the file with one bit flipped at each of these bytes.
fn replay(corpus: &str, run: impl Fn(&[u8])) {
    let corpus = directory(corpus);
    let files = files(&corpus);
    assert!(files.len() >= 10, "the corpus in {} is too small", corpus.display());
    for file in files {
        let input = fs::read(&file).expect("a file of the corpus");
        let run = |input: &[u8]| {
            let outcome = catch_unwind(AssertUnwindSafe(|| run(input)));
            assert!(outcome.is_ok(), "an input from {}: {}", file.display(), input.escape_ascii());
        };
        run(&input);
        let step = input.len() / 32 + 1;
        for at in (0..input.len()).step_by(step) {
            run(&input[..at]);
            let mut changed = input.clone();
            changed[at] ^= 1 << (at % 8);
            run(&changed);
        }
    }
}

/// The directory of a corpus, from its path relative to this package.
fn directory(corpus: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(corpus)
}

fn files(corpus: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}
