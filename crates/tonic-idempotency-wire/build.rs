//! Passes the path of the protos of `idempotency.v1` to the build scripts of the crates for servers and clients.

use std::{env, path::PathBuf};

fn main() -> Result<(), env::VarError> {
    println!("cargo:rerun-if-changed=build.rs");
    let include = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("proto");
    // Read by a dependent's build script as DEP_TONIC_IDEMPOTENCY_WIRE_PROTO.
    println!("cargo:PROTO={}", include.display());
    Ok(())
}
