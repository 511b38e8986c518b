//! Compiles the protos of the tests.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=data");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut compiler = compiler()?;
    compiler.open_file("shop/v1/shop.proto")?;
    fs::write(out.join("shop.fds"), compiler.encode_file_descriptor_set())?;
    fs::write(out.join("lossy.fds"), prost::Message::encode_to_vec(&compiler.file_descriptor_set()))?;
    tonic_prost_build::configure().compile_fds(compiler.file_descriptor_set())?;

    let mut compiler = self::compiler()?;
    compiler.open_file("catalog/v1/catalog.proto")?;
    let descriptors = out.join("catalog.fds");
    fs::write(&descriptors, compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure().compile_fds(compiler.file_descriptor_set())?;
    // The same service once more, for connectrpc.
    let native = out.join("native");
    fs::create_dir_all(&native)?;
    connectrpc_build::Config::new()
        .descriptor_set(descriptors)
        // The directives would name the descriptors. Each run of this script rewrites them, and so would cause the next run.
        .emit_rerun_directives(false)
        .files(&["catalog/v1/catalog.proto"])
        .include_file("catalog.rs")
        .out_dir(native)
        .compile()?;

    // A service in an edition, which protox and prost do not know. `data/editions/compile` compiles its descriptors.
    println!("cargo:rerun-if-changed=data/editions");
    let orders = out.join("orders");
    fs::create_dir_all(&orders)?;
    connectrpc_build::Config::new()
        .descriptor_set("data/editions/orders.binpb")
        .files(&["orders/v1/orders.proto", "refunds/v1/refunds.proto"])
        .include_file("orders.rs")
        .out_dir(orders)
        .compile()?;
    for version in ["before", "after"] {
        let mut compiler = compiler_of(&format!("data/proto-versions/{version}"))?;
        compiler.open_file("deploy/v1/orders.proto")?;
        fs::write(out.join(format!("deploy-{version}.fds")), compiler.encode_file_descriptor_set())?;
    }
    Ok(())
}

fn compiler() -> Result<protox::Compiler, Box<dyn Error>> {
    compiler_of("data/proto")
}

fn compiler_of(folder: &str) -> Result<protox::Compiler, Box<dyn Error>> {
    let mut compiler = protox::Compiler::new([folder, tonic_idempotency_build::PROTO])?;
    compiler.include_imports(true);
    Ok(compiler)
}
