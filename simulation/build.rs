//! Compiles the service's proto, with the options in its descriptor set.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut compiler = protox::Compiler::new(["proto", tonic_idempotency_build::PROTO])?;
    compiler.include_imports(true).open_file("ledger/v1/ledger.proto")?;
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("ledger.bin"), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure().build_transport(false).compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
