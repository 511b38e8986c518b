//! Undoes one variation of an encoding, and keeps all else byte for byte. Reads the wire format itself, apart from the library.

use prost_reflect::{Kind, MessageDescriptor};
use protobuf_canonical::reencode::Padding;

use crate::{
    encode::wire,
    random::{self, Field},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variation {
    Defaults,
    FieldOrder,
    MapOrder,
    Packing,
    Padding(Padding),
    Replaced,
}

/// Returns the encoding without the variation: as it was before, or in a form that all encodings share that differ in nothing else.
///
/// Panics if a varint is padded although it may not be.
pub(crate) fn undo(variation: Variation, descriptor: &MessageDescriptor, encoded: &[u8]) -> Vec<u8> {
    let mut records = Reader { rest: encoded, variation }.records(&random::fields(descriptor));
    if variation == Variation::Replaced {
        records = without_replaced(records);
    }
    for record in &mut records {
        record.undo(variation);
    }
    match variation {
        // The entries of the model have both a key and a value, be they defaults or not.
        Variation::Defaults if !descriptor.is_map_entry() => records.retain(|record| !record.is_default()),
        Variation::FieldOrder => records.sort_by_key(|record| record.field.as_ref().map_or(u32::MAX, |it| it.number)),
        Variation::MapOrder => sort_entries(&mut records),
        Variation::Packing => records = packed(records),
        Variation::Replaced => records = without_replaced_entries(records),
        Variation::Defaults | Variation::Padding(_) => {}
    }
    records.iter().flat_map(Record::encode).collect()
}

struct Record {
    number: u32,
    wire: u32,
    /// `None` if it is unknown.
    field: Option<Field>,
    /// Without the length or the end tag.
    content: Vec<u8>,
}

impl Record {
    fn singular(&self) -> Option<&Field> {
        self.field.as_ref().filter(|field| !field.list && random::map_entry(field).is_none())
    }

    fn map(&self) -> Option<&Field> {
        self.field.as_ref().filter(|field| random::map_entry(field).is_some())
    }

    fn is_packable(&self) -> bool {
        self.field.as_ref().is_some_and(|field| field.list && wire(&field.kind) != 2)
    }

    fn is_default(&self) -> bool {
        let is_implicit = |field: &Field| !field.presence && field.kind.as_message().is_none();
        self.singular().is_some_and(is_implicit) && self.content.iter().all(|byte| *byte == 0)
    }

    fn undo(&mut self, variation: Variation) {
        if let Some(Kind::Message(inner)) = self.field.as_ref().map(|field| &field.kind) {
            self.content = undo(variation, inner, &self.content);
        } else if let (Some(field), 0 | 2, Variation::Padding(_)) = (&self.field, self.wire, variation)
            && wire(&field.kind) == 0
        {
            let mut elements = Reader { rest: &self.content, variation };
            let mut minimal = Vec::new();
            while !elements.rest.is_empty() {
                prost::encoding::encode_varint(elements.varint(10), &mut minimal);
            }
            self.content = minimal;
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut encoded = Vec::new();
        prost::encoding::encode_varint(u64::from(self.number << 3 | self.wire), &mut encoded);
        if self.wire == 2 {
            prost::encoding::encode_varint(self.content.len() as u64, &mut encoded);
        }
        encoded.extend(&self.content);
        if self.wire == 3 {
            prost::encoding::encode_varint(u64::from(self.number << 3 | 4), &mut encoded);
        }
        encoded
    }
}

/// Keeps the last value of each field and oneof, and merges the pieces of messages.
fn without_replaced(records: Vec<Record>) -> Vec<Record> {
    let mut kept: Vec<Record> = Vec::new();
    for mut record in records {
        if let Some(field) = record.singular().cloned() {
            let replaces =
                |other: &Field| other.number == field.number || field.oneof.is_some() && other.oneof == field.oneof;
            let replaced = kept.extract_if(.., |before| before.singular().is_some_and(replaces));
            let pieces = replaced.filter(|before| before.number == field.number && field.kind.as_message().is_some());
            record.content = pieces.map(|piece| piece.content).chain([record.content]).flatten().collect();
        }
        kept.push(record);
    }
    kept
}

/// Keeps the last entry of each key.
fn without_replaced_entries(records: Vec<Record>) -> Vec<Record> {
    let key = |record: &Record| {
        let entry = record.map()?.kind.as_message()?.clone();
        let fields = random::fields(&entry);
        let key = Reader { rest: &record.content, variation: Variation::Replaced }.records(&fields);
        Some((record.number, key.into_iter().find(|record| record.number == 1)?.content))
    };
    let mut kept: Vec<Record> = Vec::new();
    for record in records {
        kept.pop_if(|before| key(before).is_some() && key(before) == key(&record));
        kept.push(record);
    }
    kept
}

/// Sorts the entries of each map, in the places that they have.
fn sort_entries(records: &mut [Record]) {
    let maps: Vec<u32> = records.iter().filter(|record| record.map().is_some()).map(|record| record.number).collect();
    for number in maps {
        let mut entries: Vec<_> = records.iter_mut().filter(|record| record.number == number).collect();
        let mut sorted: Vec<_> = entries.iter().map(|record| record.content.clone()).collect();
        sorted.sort();
        entries.iter_mut().zip(sorted).for_each(|(record, content)| record.content = content);
    }
}

/// Packs the consecutive records of a list into one.
fn packed(records: Vec<Record>) -> Vec<Record> {
    let mut packed: Vec<Record> = Vec::new();
    for mut record in records {
        if record.is_packable() {
            record.wire = 2;
            if let Some(before) = packed.pop_if(|before| before.number == record.number) {
                record.content = [before.content, record.content].concat();
            }
        }
        packed.push(record);
    }
    packed
}

struct Reader<'a> {
    rest: &'a [u8],
    variation: Variation,
}

impl<'a> Reader<'a> {
    fn records(mut self, fields: &[Field]) -> Vec<Record> {
        let mut records = Vec::new();
        while !self.rest.is_empty() {
            let (number, wire) = self.tag();
            let field = fields.iter().find(|field| field.number == number).cloned();
            records.push(Record { number, wire, field, content: self.content(number, wire).to_vec() });
        }
        records
    }

    fn content(&mut self, number: u32, wire: u32) -> &'a [u8] {
        let start = self.rest;
        let mut end = 0;
        match wire {
            0 => drop(self.varint(10)),
            1 => self.rest = &self.rest[8..],
            2 => {
                let length = self.framing() as usize;
                let (content, rest) = self.rest.split_at(length);
                self.rest = rest;
                return content;
            }
            3 => {
                let mut inner = 0;
                while inner != number {
                    end = self.rest.len();
                    let (field, wire) = self.tag();
                    inner = if wire == 4 { field } else { 0 };
                    if wire != 4 {
                        self.content(field, wire);
                    }
                }
                return &start[..start.len() - end];
            }
            5 => self.rest = &self.rest[4..],
            wire => panic!("wire type {wire}"),
        }
        &start[..start.len() - self.rest.len()]
    }

    fn tag(&mut self) -> (u32, u32) {
        let tag = u32::try_from(self.framing()).expect("a tag");
        (tag >> 3, tag & 7)
    }

    /// Reads a tag or a length.
    fn framing(&mut self) -> u64 {
        self.varint(if self.variation == Variation::Padding(Padding::Portable) { 5 } else { 10 })
    }

    fn varint(&mut self, max: usize) -> u64 {
        let before = self.rest.len();
        let value = prost::encoding::decode_varint(&mut self.rest).expect("a varint");
        let (length, minimal) = (before - self.rest.len(), prost::encoding::encoded_len_varint(value));
        let is_padded = matches!(self.variation, Variation::Padding(_));
        assert!(length == minimal || is_padded && length <= max, "{value} has {length} bytes");
        value
    }
}
