//! Compiles the service's proto.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).open_file("check/v1/shop.proto")?;
    fs::write(PathBuf::from(env::var("OUT_DIR")?).join("shop.bin"), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure().compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
