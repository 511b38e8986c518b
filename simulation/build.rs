//! Compiles the service's proto, with the options in its descriptor set: that of the second release, and that of the first.

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
};

const FILE: &str = "ledger/v1/ledger.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let second = compile(Path::new("proto"), &out.join("ledger.bin"))?;
    tonic_prost_build::configure().build_transport(false).compile_fds(second.file_descriptor_set())?;

    let proto = fs::read_to_string(Path::new("proto").join(FILE))?;
    let first: Vec<_> = proto.lines().filter(|line| !line.contains("since release 2")).collect();
    let first_proto = out.join("release-1");
    fs::create_dir_all(first_proto.join(FILE).parent().ok_or("no folder")?)?;
    fs::write(first_proto.join(FILE), first.join("\n"))?;
    compile(&first_proto, &out.join("ledger-1.bin"))?;
    Ok(())
}

fn compile(folder: &Path, to: &Path) -> Result<protox::Compiler, Box<dyn Error>> {
    let mut compiler = protox::Compiler::new([folder, Path::new(tonic_idempotency_build::PROTO)])?;
    compiler.include_imports(true).open_file(FILE)?;
    fs::write(to, compiler.encode_file_descriptor_set())?;
    Ok(compiler)
}
