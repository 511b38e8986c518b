//! Messages of `hostile.v1.Node` that are made to cost as much as possible to read, and plain ones to compare them with.

mod json;
mod shapes;
mod wire;

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, MessageDescriptor};

pub use self::{
    json::json,
    shapes::{hostile, plain},
};

/// A message, and what is costly about it.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The name of its costly property.
    pub name: &'static str,
    /// The encoded message.
    pub message: Vec<u8>,
}

/// Returns the descriptors.
fn pool() -> DescriptorPool {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        let include = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
        let mut compiler = protox::Compiler::new([include]).expect("the folder exists");
        compiler.include_imports(true);
        compiler.open_file("hostile/v1/hostile.proto").expect("the file compiles");
        compiler.descriptor_pool()
    });
    POOL.clone()
}

/// Returns the descriptor of the messages.
pub fn descriptor() -> MessageDescriptor {
    pool().get_message_by_name("hostile.v1.Node").expect("the message")
}
