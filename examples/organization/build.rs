//! Compiles the service's `.proto` files, without protoc.

use std::{env, error::Error, fs, path::PathBuf};

const FILES: [&str; 5] = [
    "organization/v1/api_key.proto",
    "organization/v1/cluster.proto",
    "organization/v1/invite.proto",
    "organization/v1/namespace.proto",
    "organization/v1/project.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    // Embedded by refinery, which does not notice a new file.
    println!("cargo:rerun-if-changed=migrations");
    let out = PathBuf::from(env::var("OUT_DIR")?);

    let mut compiler = protox::Compiler::new(["proto", tonic_idempotency_build::PROTO])?;
    compiler.include_imports(true).include_source_info(true).open_files(FILES)?;

    // Encoded by protox itself: a round trip through prost-types loses the option `(idempotency.v1.procedure)`.
    fs::write(out.join("organization.bin"), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure().build_transport(false).compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
