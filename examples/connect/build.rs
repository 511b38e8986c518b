//! Compiles the proto for connectrpc, without protoc, and writes its descriptors for the layer.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = PathBuf::from(env::var("OUT_DIR")?).join("orders.bin");
    let mut compiler = protox::Compiler::new(["proto", tonic_idempotency_build::PROTO])?;
    compiler.include_imports(true).open_file("orders.proto")?;
    fs::write(&descriptors, compiler.encode_file_descriptor_set())?;
    connectrpc_build::Config::new()
        .descriptor_set(descriptors)
        .emit_rerun_directives(false) // its own would name the descriptors, which are new after each run
        .files(&["orders.proto"])
        .include_file("_connectrpc.rs")
        .compile()?;
    Ok(())
}
