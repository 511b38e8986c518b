//! The descriptors of the vectors' messages.

use std::{path::Path, sync::LazyLock};

use prost_reflect::{DescriptorPool, MessageDescriptor};

/// Returns the descriptors of `tests/vectors/proto`.
pub(crate) fn pool() -> &'static DescriptorPool {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/proto");
        let mut compiler = protox::Compiler::new([include]).expect("the folder exists");
        compiler.include_imports(true);
        compiler
            .open_files(["vectors/v1/vectors.proto", "vectors/v1/legacy.proto", "vectors/v1/json.proto"])
            .expect("the files compile");
        compiler.descriptor_pool()
    });
    &POOL
}

pub(crate) fn message(name: &str) -> MessageDescriptor {
    pool().get_message_by_name(name).unwrap_or_else(|| panic!("no message {name}"))
}
