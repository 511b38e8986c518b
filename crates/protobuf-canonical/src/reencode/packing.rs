//! Repeated scalars, packed or not.

use std::{iter, mem};

use fastrand::Rng;

use super::{
    choices::{Choices, Variation},
    message::{Content, Delimited, Message, Record, Varint},
};
use crate::{
    reader::{Tag, WireType},
    schema::{FieldPlan, Scalar, Shape, Value},
};

/// Packs some lists in another way. A list in several parts, with other fields between them, stays in these parts.
pub(super) fn change(message: &mut Message<'_>, choices: &mut Choices) {
    let mut rest = mem::take(&mut message.records).into_iter().peekable();
    while let Some(record) = rest.next() {
        let Some((field, scalar)) = record.field.and_then(|field| Some((field, packable(field)?))) else {
            message.records.push(record);
            continue;
        };
        let more = iter::from_fn(|| rest.next_if(|next| next.is_of(field)));
        let part: Vec<_> = iter::once(record).chain(more).collect();
        let is_empty = part.iter().all(|record| piece(record) == Some(0));
        message.records.extend(match !is_empty && choices.happens(Variation::Packing) {
            true => repacked(field, scalar, part, &mut choices.rng),
            false => part,
        });
    }
}

/// Returns the type of a list's elements if they may be packed.
fn packable(field: FieldPlan) -> Option<Scalar> {
    match field.shape {
        Shape::Packed(scalar) => Some(scalar),
        Shape::Repeated(Value::Scalar(scalar)) if scalar.wire() != WireType::Bytes => Some(scalar),
        _ => None,
    }
}

/// A record of a list: so many elements packed, or one that is not.
type Piece = Option<usize>;

fn piece(record: &Record<'_>) -> Piece {
    match &record.content {
        Content::Packed(elements) => Some(elements.content.len()),
        _ => None,
    }
}

fn repacked<'a>(field: FieldPlan, scalar: Scalar, records: Vec<Record<'a>>, rng: &mut Rng) -> Vec<Record<'a>> {
    let before: Vec<_> = records.iter().map(piece).collect();
    let elements = records.into_iter().flat_map(|record| match record.content {
        Content::Packed(elements) => elements.content,
        element => vec![element],
    });
    let elements: Vec<_> = elements.collect();
    let pieces = other_pieces(&before, elements.len(), rng);
    let mut elements = elements.into_iter();
    let record = |wire, content| {
        let tag = Varint::new(Tag::new(field.number, wire).encoded());
        Record { tag, field: Some(field), content }
    };
    let records = pieces.into_iter().filter_map(|piece| match piece {
        Some(count) => {
            let elements = elements.by_ref().take(count).collect();
            Some(record(WireType::Bytes, Content::Packed(Delimited::new(elements))))
        }
        None => elements.next().map(|element| record(scalar.wire(), element)),
    });
    records.collect()
}

/// Returns random pieces of so many elements, at least one, that differ from those before.
fn other_pieces(before: &[Piece], count: usize, rng: &mut Rng) -> Vec<Piece> {
    let (mut pieces, mut left) = (Vec::new(), count);
    while left > 0 {
        let piece = rng.bool().then(|| rng.usize(0..=left));
        left -= piece.unwrap_or(1);
        pieces.push(piece);
    }
    if pieces != before {
        return pieces;
    }
    if before == [Some(count)] { vec![None; count] } else { vec![Some(count)] }
}
