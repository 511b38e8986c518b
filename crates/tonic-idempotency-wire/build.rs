//! Compiles the protos of `idempotency.v1`, and passes their path to the build scripts of the crates for servers and clients.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let include = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);

    // Read by a dependent's build script as DEP_TONIC_IDEMPOTENCY_WIRE_PROTO.
    println!("cargo:PROTO={}", include.display());

    let mut compiler = protox::Compiler::new([&include])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files(["idempotency/v1/operation.proto", "idempotency/v1/procedure.proto"])?;

    // protox itself encodes the descriptors: a round trip through prost-types loses custom options.
    fs::write(out.join("idempotency.fds"), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure().build_transport(false).compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
