//! The order of fields, and of the entries of maps.

use std::{collections::BTreeMap, iter, mem};

use fastrand::Rng;

use super::{
    choices::{Choices, Variation},
    message::{Content, Delimited, Message, Record},
};
use crate::schema::{MapPlan, Shape};

/// Puts the fields into another order. Those of one rank, which a decoder reads in order, keep theirs.
pub(super) fn shuffle_fields(message: &mut Message<'_>, choices: &mut Choices) {
    let streams = Streams::new(message.records.iter().map(Record::rank));
    if streams.are_several() && choices.happens(Variation::FieldOrder) {
        message.records = streams.interleave(mem::take(&mut message.records), &mut choices.rng);
    }
}

/// Puts the entries of maps into another order, in the places that they had. Those of one key keep theirs.
pub(super) fn shuffle_maps(message: &mut Message<'_>, choices: &mut Choices) {
    let maps = message.records.iter().filter_map(|record| match record.field?.shape {
        Shape::Map(map) => Some((record.rank(), map)),
        _ => None,
    });
    for (rank, map) in maps.collect::<BTreeMap<_, _>>() {
        let (places, entries): (Vec<_>, Vec<_>) =
            iter::zip(0.., &message.records).filter(|(_, record)| record.rank() == rank).unzip();
        let streams = Streams::new(entries.into_iter().map(|entry| key(map, entry)));
        if streams.are_several() && choices.happens(Variation::MapOrder) {
            let from = streams.interleave(places.clone(), &mut choices.rng);
            rearrange(&mut message.records, &from, &places);
        }
    }
}

/// Returns the key of an entry, in a form that tells the keys of its map apart.
fn key(map: MapPlan, entry: &Record<'_>) -> Vec<u8> {
    let Content::Message(Delimited { content: entry, .. }) = &entry.content else { return Vec::new() };
    let ([key, _], default) = (map.fields(), Content::default(map.key));
    match entry.records.iter().rfind(|record| record.is_of(key)).map_or(&default, |record| &record.content) {
        Content::Bytes(Delimited { content, .. }) | Content::Verbatim(content) => content.to_vec(),
        Content::Varint(varint) => map.key.normalize(varint.value).to_le_bytes().to_vec(),
        _ => Vec::new(),
    }
}

/// Moves each of the items `from` these indexes `to` those.
fn rearrange<T>(items: &mut Vec<T>, from: &[usize], to: &[usize]) {
    let mut slots: Vec<_> = mem::take(items).into_iter().map(Some).collect();
    let moved: Vec<_> = from.iter().map(|index| slots[*index].take()).collect();
    iter::zip(to, moved).for_each(|(index, item)| slots[*index] = item);
    items.extend(slots.into_iter().flatten());
}

/// Streams of items. Order matters within a stream, but not between streams.
struct Streams {
    /// Of each item, the index of its stream.
    turns: Vec<usize>,
    count: usize,
}

impl Streams {
    /// Takes the key of each item. Items with equal keys are in one stream.
    fn new<K: Ord>(keys: impl Iterator<Item = K>) -> Self {
        let mut streams = BTreeMap::new();
        let mut turns = Vec::new();
        for key in keys {
            let next = streams.len();
            turns.push(*streams.entry(key).or_insert(next));
        }
        Self { turns, count: streams.len() }
    }

    fn are_several(&self) -> bool {
        self.count > 1
    }

    /// Returns the items in another order. There must be several streams.
    fn interleave<T>(self, items: Vec<T>, rng: &mut Rng) -> Vec<T> {
        let mut turns = self.turns.clone();
        rng.shuffle(&mut turns);
        if turns == self.turns {
            let seams = (1..turns.len()).filter(|index| turns[index - 1] != turns[*index]);
            if let Some(index) = rng.choice(seams.collect::<Vec<_>>()) {
                turns.swap(index - 1, index);
            }
        }
        let mut streams: Vec<Vec<T>> = iter::repeat_with(Vec::new).take(self.count).collect();
        iter::zip(self.turns, items).for_each(|(stream, item)| streams[stream].push(item));
        let mut streams: Vec<_> = streams.into_iter().map(Vec::into_iter).collect();
        turns.into_iter().filter_map(|stream| streams[stream].next()).collect()
    }
}
