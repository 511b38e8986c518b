//! Which compiler the benchmarks were built with, for the report.

fn main() -> Result<(), rustc_version::Error> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-env=RUSTC_VERSION={}", rustc_version::version_meta()?.short_version_string);
    Ok(())
}
