//! The canonical encoding against protobuf-go's deterministic marshal, vector by vector. See `tests/vectors/README.md`.

use std::collections::HashMap;

use protobuf_canonical::{Canonical, CanonicalErrorKind};
use serde::Deserialize;

use crate::schema;

#[derive(Deserialize)]
struct Vector {
    name: String,
    message: String,
    #[serde(with = "hex")]
    input: Vec<u8>,
    #[serde(default, with = "hex")]
    canonical: Vec<u8>,
    #[serde(default, with = "hex")]
    sha256: Vec<u8>,
    #[serde(default)]
    already_canonical: bool,
    #[serde(default)]
    error: bool,
}

fn vectors() -> Vec<Vector> {
    serde_json::from_str(include_str!("../vectors/canonical.json")).expect("the vectors can be read")
}

fn check(vector: &Vector, canonical: &Canonical) -> Result<(), String> {
    let encoded = canonical.encode(&vector.input);
    if vector.error {
        return match encoded {
            Err(error) if vector.name.starts_with("not-utf8/") && error.kind() != CanonicalErrorKind::InvalidUtf8 => {
                Err(format!("refused for another reason: {error}"))
            }
            Err(_) => Ok(()),
            Ok(encoded) => Err(format!("accepted, but protobuf-go refuses it: {}", hex::encode(encoded))),
        };
    }
    let encoded = encoded.map_err(|error| format!("refused: {error}"))?;
    if *encoded != *vector.canonical {
        return Err(format!("actual   {}\n     expected {}", hex::encode(encoded), hex::encode(&vector.canonical)));
    }
    let borrowed = matches!(encoded, std::borrow::Cow::Borrowed(_));
    if borrowed != vector.already_canonical {
        return Err(format!("rewritten: {}, already canonical: {}", !borrowed, vector.already_canonical));
    }
    let again = canonical.encode(&encoded).map_err(|error| format!("its own encoding refused: {error}"))?;
    if !matches!(again, std::borrow::Cow::Borrowed(_)) {
        return Err("its own encoding is not recognised as canonical".to_owned());
    }
    let hash = canonical.hash(&vector.input).map_err(|error| format!("not hashed: {error}"))?;
    if hash.as_bytes().as_slice() != vector.sha256 {
        return Err("the hash differs".to_owned());
    }
    Ok(())
}

#[test]
fn encodes_every_vector_like_protobuf_go() {
    let vectors = vectors();
    assert!(vectors.len() > 900, "{} vectors", vectors.len());
    let mut canonicals = HashMap::new();
    let failures: Vec<_> = vectors
        .iter()
        .filter_map(|vector| {
            let canonical = canonicals
                .entry(vector.message.clone())
                .or_insert_with(|| Canonical::new(&schema::message(&vector.message)));
            let input = hex::encode(&vector.input);
            check(vector, canonical).err().map(|why| format!("{} ({input})\n     {why}", vector.name))
        })
        .collect();
    assert!(failures.is_empty(), "{} of {} vectors:\n{}", failures.len(), vectors.len(), failures.join("\n"));
}
