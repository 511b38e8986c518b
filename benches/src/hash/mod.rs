//! The request hash by message shape, compared with SHA-256 alone and with decoding and encoding again.
//!
//! | module | holds |
//! |---|---|
//! | `shape` | the messages, each in two encodings |
//! | `way`, `dynamic` | the ways to hash a message |
//! | `measurement` | time and allocations |
//! | `report` | the section of the report |

mod dynamic;
mod measurement;
mod proto;
mod report;
mod shape;
mod way;

use self::{
    measurement::{Encoding, Measurement},
    shape::{Shape, ShapeId},
    way::{Hasher, Way},
};
use crate::{Error, context::Context, section::Section};

/// Measures the hash of each shape in both encodings.
pub(crate) async fn measure(context: &Context) -> Result<Section, Error> {
    let hasher = Hasher::new()?;
    let mut measurements = Vec::new();
    for id in ShapeId::ALL {
        context.progress(&format!("the hash of {}", id.name()));
        let shape = id.shape();
        assert_same_hash(&hasher, &shape)?;
        for encoding in Encoding::ALL {
            measurements.push(Measurement::take(context, &hasher, &shape, encoding)?);
        }
    }
    Ok(report::section(&measurements))
}

/// Checks that each way but plain SHA-256 has the same hash for both encodings.
fn assert_same_hash(hasher: &Hasher, shape: &Shape) -> Result<(), Error> {
    assert_ne!(shape.canonical, shape.other);
    let expected = hasher.hash(Way::Plain, &shape.canonical)?;
    for way in [Way::Canonical, Way::Dynamic] {
        for wire in [&shape.canonical, &shape.other] {
            assert_eq!(hasher.hash(way, wire)?, expected, "{} of {}", way.name(), shape.id.name());
        }
    }
    Ok(())
}
