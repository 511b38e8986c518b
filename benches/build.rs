//! Compiles the protos of the benchmarks, and notes for the report which compiler they were built with.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=proto");
    println!("cargo:rustc-env=RUSTC_VERSION={}", rustc_version::version_meta()?.short_version_string);

    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut compiler =
        protox::Compiler::new([PathBuf::from("proto"), env::var("DEP_TONIC_IDEMPOTENCY_PROTO")?.into()])?;
    compiler.include_imports(true).open_file("benchmarks/v1/project.proto")?;
    fs::write(out.join("project.fds"), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure().compile_fds(compiler.file_descriptor_set())?;

    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).open_file("benchmarks/layer/v1/echo.proto")?;
    fs::write(out.join("echo.fds"), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure().bytes(".").compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
