//! The request hash, by message shape: against SHA-256 alone, which is the limit, and against decoding and encoding again.

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

/// Measures the hash of each shape, canonical and not.
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

/// Like is compared with like: every way but the plain one finds the same message in both encodings.
fn assert_same_hash(hasher: &Hasher, shape: &Shape) -> Result<(), Error> {
    assert_ne!(shape.canonical, shape.other);
    let expected = hasher.hash(Way::Plain, &shape.canonical)?;
    for way in [Way::Canonical, Way::Prost, Way::Dynamic] {
        for wire in [&shape.canonical, &shape.other] {
            assert_eq!(hasher.hash(way, wire)?, expected, "{} of {}", way.name(), shape.id.name());
        }
    }
    Ok(())
}
