//! The editions.

use super::{descriptor::File, error::DescriptorsError};

/// An edition whose files can be lowered. Its default features are [`Features::DEFAULT`](super::features::Features::DEFAULT).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
#[repr(i32)]
pub(super) enum Edition {
    E2023 = 1000,
    E2024 = 1001,
}

impl Edition {
    /// Returns the edition of a file; `None` for a file in proto2 or proto3.
    pub(super) fn of(file: &File) -> Result<Option<Self>, DescriptorsError> {
        match file.syntax() {
            "" | "proto2" | "proto3" => return Ok(None),
            "editions" => {}
            other => return Err(DescriptorsError::broken(file.name(), format!("unknown syntax {other:?}"))),
        }
        let number = file.edition.unwrap_or_default();
        let edition = Self::try_from(number).map_err(|_| DescriptorsError::Edition {
            file: file.name().to_owned(),
            feature: "edition".to_owned(),
            why: format!("{} is not supported: use edition 2023 or 2024, proto2 or proto3", name(number)),
        })?;
        Ok(Some(edition))
    }
}

/// Returns the name of an edition by its number in `google.protobuf.Edition`.
fn name(number: i32) -> String {
    match number {
        0 => "a file in editions without an edition".to_owned(),
        1002 => "edition 2026".to_owned(),
        9999 => "the unstable edition".to_owned(),
        number => format!("the edition with the number {number}"),
    }
}
