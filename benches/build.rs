//! Compiles the benchmarks' protos.

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use tonic_prost_build::Builder;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=proto");

    let out = PathBuf::from(env::var("OUT_DIR")?);
    let generated = tonic_prost_build::configure;
    compile("benchmarks/database/v1/project.proto", generated(), &out.join("project.fds"))?;
    compile("benchmarks/hash/v1/hash.proto", generated(), &out.join("hash.fds"))?;
    compile("benchmarks/layer/v1/echo.proto", generated().bytes("."), &out.join("echo.fds"))?;
    Ok(())
}

fn compile(file: &str, generated: Builder, descriptors: &Path) -> Result<(), Box<dyn Error>> {
    let includes = ["proto", tonic_idempotency_build::PROTO];
    let mut compiler = protox::Compiler::new(includes)?;
    compiler.include_imports(true).open_file(file)?;
    fs::write(descriptors, compiler.encode_file_descriptor_set())?;
    generated.compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
