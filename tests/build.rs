//! Compiles the proto of the layer's tests.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut compiler =
        protox::Compiler::new([PathBuf::from("proto"), env::var("DEP_TONIC_IDEMPOTENCY_PROTO")?.into()])?;
    compiler.include_imports(true);
    compiler.open_file("shop/v1/shop.proto")?;
    fs::write(out.join("shop.fds"), compiler.encode_file_descriptor_set())?;
    fs::write(out.join("lossy.fds"), prost::Message::encode_to_vec(&compiler.file_descriptor_set()))?;
    tonic_prost_build::configure().compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
