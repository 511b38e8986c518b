//! Compiles the protos of the suite, for tonic and for connectrpc.

use std::{env, error::Error, fs, path::PathBuf};

const SERVICE: &str = "connectrpc/conformance/v1/service.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).open_file(SERVICE)?.open_file("connectrpc/conformance/v1/server_compat.proto")?;
    let descriptors = out.join("conformance.fds");
    fs::write(&descriptors, compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure().build_client(false).compile_fds(compiler.file_descriptor_set())?;

    let native = out.join("native");
    fs::create_dir_all(&native)?;
    connectrpc_build::Config::new()
        .descriptor_set(descriptors)
        // The directives would name the descriptors. Each run of this script rewrites them, and so would cause the next run.
        .emit_rerun_directives(false)
        .files(&[SERVICE, "connectrpc/conformance/v1/config.proto"])
        .include_file("conformance.rs")
        .out_dir(native)
        .compile()?;
    Ok(())
}
