//! Lowers descriptors in editions to what prost-reflect knows, and refuses descriptors on which it would panic.
//!
//! prost-reflect knows proto2 and proto3, where the syntax of a file decides for all of its fields. In an edition, each field has
//! features: its own, or else those of its oneof, its message, the messages around that, its file, or the edition, in this order. An
//! extension has those of the place where it is declared. A file in an edition becomes a file in proto2, whose fields say in their
//! options what the features come to:
//!
//! | feature | value | lowered to |
//! |---|---|---|
//! | `field_presence` | `EXPLICIT` | nothing: a field of proto2 has presence |
//! | | `IMPLICIT` | `features.field_presence` among the field's options, which `protobuf-canonical` reads |
//! | | `LEGACY_REQUIRED` | the label `required` |
//! | `repeated_field_encoding` | `PACKED`, `EXPANDED` | the option `packed` of the field |
//! | `message_encoding` | `LENGTH_PREFIXED` | nothing |
//! | | `DELIMITED` | the type `group`; maps and their values stay as they are |
//! | `utf8_validation` | `VERIFY`, `NONE` | `features.utf8_validation` among the field's options, which `protobuf-canonical` reads |
//! | `enum_type` | `OPEN`, `CLOSED` | nothing: as in protobuf-go, a value that is not declared stays in its field |
//! | `json_format` | `ALLOW`, `LEGACY_BEST_EFFORT` | nothing; two fields of a message with the same JSON name are refused |
//! | `enforce_naming_style`, `default_symbol_visibility` | any | nothing: only protoc checks them |
//!
//! `import option` needs nothing: an option is found by its number, if the set has the file that declares it.
//!
//! | file | contents |
//! |---|---|
//! | `descriptor` | the parts of `descriptor.proto` that are read or changed; the others stay encoded |
//! | `edition`, `features` | the editions with their defaults; the features, and how they are inherited |
//! | `imports` | public imports, which prost-reflect does not follow to their end |
//! | `lowering` | the lowering of a file |
//! | `sound` | the checks for what prost-reflect would panic on |

mod descriptor;
mod edition;
mod error;
mod features;
mod imports;
mod lowering;
mod sound;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;

use prost::Message as _;
use prost_reflect::DescriptorPool;

use self::descriptor::{File, FileDescriptorSet};
pub(crate) use self::error::DescriptorsError;

/// Returns the descriptors in an encoded `FileDescriptorSet`, lowered.
pub(crate) fn pool(encoded: &[u8]) -> Result<DescriptorPool, DescriptorsError> {
    let mut set = FileDescriptorSet::decode(encoded)?;
    merge(&mut set.file)?;
    sound::check(&set)?;
    imports::flatten(&mut set.file);
    for file in &mut set.file {
        lowering::lower(file)?;
    }
    let pool = DescriptorPool::decode(set.encode_to_vec().as_slice())?;
    sound::check_extensions(&pool)?;
    Ok(pool)
}

/// Leaves out a file that is there already. Two sets, one after the other, are one set with the files of both.
fn merge(files: &mut Vec<File>) -> Result<(), DescriptorsError> {
    let mut kept: Vec<File> = Vec::with_capacity(files.len());
    for file in files.drain(..) {
        match kept.iter().find(|other| other.name() == file.name()) {
            None => kept.push(file),
            Some(other) if *other == file => {}
            Some(_) => {
                let why = "the descriptors have another file of this name, and it differs; compile them from the same sources";
                return Err(DescriptorsError::broken(file.name(), why));
            }
        }
    }
    *files = kept;
    Ok(())
}
