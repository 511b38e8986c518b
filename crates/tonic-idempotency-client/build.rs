//! Passes the path of `idempotency/v1/procedure.proto` to the build scripts of dependent crates.

use std::env;

fn main() -> Result<(), env::VarError> {
    // Read by a dependent's build script as DEP_TONIC_IDEMPOTENCY_CLIENT_PROTO.
    println!("cargo:PROTO={}", env::var("DEP_TONIC_IDEMPOTENCY_WIRE_PROTO")?);
    println!("cargo:rerun-if-env-changed=DEP_TONIC_IDEMPOTENCY_WIRE_PROTO");
    Ok(())
}
