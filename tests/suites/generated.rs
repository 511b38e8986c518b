//! The code and the descriptors of `idempotency.v1`, which are committed so that users need not generate them. With
//! `IDEMPOTENCY_TEST_WRITE_GENERATED` set, the test writes them.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

const FILES: [&str; 2] = ["idempotency.fds", "idempotency.v1.rs"];

/// The protos in `proto`, at the top of the repository.
const PROTOS: [&str; 2] = ["idempotency/v1/operation.proto", "idempotency/v1/procedure.proto"];

#[test]
fn is_what_the_protos_say() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let committed = top.join("crates/tonic-idempotency-wire/src/generated");
    let generated = generate(&top.join("proto"));
    for file in FILES {
        let (committed, generated) = (committed.join(file), generated.join(file));
        if env::var_os("IDEMPOTENCY_TEST_WRITE_GENERATED").is_some() {
            fs::copy(&generated, &committed).expect("a file");
        }
        let same = fs::read(&committed).expect("a file") == fs::read(&generated).expect("a file");
        assert!(same, "{} is not current: run this test with IDEMPOTENCY_TEST_WRITE_GENERATED=1", committed.display());
    }
}

/// Compiles the protos into a directory.
fn generate(include: &Path) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("generated");
    fs::create_dir_all(&directory).expect("a directory");
    let mut compiler = protox::Compiler::new([include]).expect("a directory of protos");
    compiler.include_imports(true).include_source_info(true).open_files(PROTOS).expect("protos");
    // protox itself encodes the descriptors: a round trip through prost-types loses custom options.
    fs::write(directory.join("idempotency.fds"), compiler.encode_file_descriptor_set()).expect("a file");
    tonic_prost_build::configure()
        .build_transport(false)
        .out_dir(&directory)
        .compile_fds(compiler.file_descriptor_set())
        .expect("code");
    directory
}
