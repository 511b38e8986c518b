//! Removes ignored fields from JSON text.

use std::ops::Range;

use prost_reflect::{FieldDescriptor, MessageDescriptor};

use super::{field::Field, text::Text, well_known_type::WellKnownType};
use crate::ignore_mask::{IgnoreMask, Part};

/// Returns the text without the members of ignored fields, and otherwise as it was written. A member goes with the comma and the
/// space between it and the next member, or the one before if it is the last.
///
/// Returns `None` if an ignored field is inside a message that has a JSON form of its own, where it is not a member.
///
/// serde_json must have found the text well formed, and the parser a message.
pub(crate) fn strip(message: &MessageDescriptor, ignored: &IgnoreMask, json: &str) -> Option<String> {
    let mut strip = Strip { text: Text::new(json), len: json.len(), removed: Vec::new() };
    strip.message(message, ignored)?;
    let mut kept = String::with_capacity(json.len());
    let mut position = 0;
    for removed in strip.removed {
        kept.push_str(json.get(position..removed.start)?);
        position = removed.end;
    }
    kept.push_str(json.get(position..)?);
    Some(kept)
}

struct Strip<'a> {
    text: Text<'a>,
    len: usize,
    /// In ascending order.
    removed: Vec<Range<usize>>,
}

impl Strip<'_> {
    fn message(&mut self, message: &MessageDescriptor, ignored: &IgnoreMask) -> Option<()> {
        if WellKnownType::of(message).is_some() {
            return None;
        }
        if self.text.peek() != Some(b'{') {
            return self.skip();
        }
        self.text.eat(b'{');
        let (first, mut kept) = (self.position(), None);
        while self.text.peek()? != b'}' {
            let start = self.position();
            let name = self.text.string().ok()?;
            self.text.eat(b':');
            let number = Field::named(message, &name).map(|field| field.number);
            match number.and_then(|number| ignored.get(number)) {
                Some(Part::All) => {
                    self.skip()?;
                    let end = self.position();
                    if self.text.eat(b',') {
                        self.text.peek();
                        self.removed.push(start..self.position());
                    } else {
                        self.remove_last(kept.unwrap_or(first), end);
                    }
                    continue;
                }
                Some(Part::Inside(ignored)) => self.field(&message.get_field(number?)?, ignored)?,
                None => self.skip()?,
            }
            kept = Some(self.position());
            self.text.eat(b',');
        }
        self.text.eat(b'}').then_some(())
    }

    /// Removes the last member with what was removed directly before it, and the comma before.
    fn remove_last(&mut self, start: usize, end: usize) {
        while self.removed.pop_if(|removed| removed.start >= start).is_some() {}
        self.removed.push(start..end);
    }

    fn field(&mut self, field: &FieldDescriptor, ignored: &IgnoreMask) -> Option<()> {
        let kind = field.kind();
        let message = kind.as_message()?;
        match self.text.peek()? {
            b'{' if field.is_map() => {
                let value = message.map_entry_value_field().kind();
                self.text.eat(b'{');
                while !self.text.eat(b'}') {
                    self.text.string().ok()?;
                    self.text.eat(b':');
                    self.message(value.as_message()?, ignored)?;
                    self.text.eat(b',');
                }
                Some(())
            }
            b'[' if field.is_list() => {
                self.text.eat(b'[');
                while !self.text.eat(b']') {
                    self.message(message, ignored)?;
                    self.text.eat(b',');
                }
                Some(())
            }
            _ if field.is_map() || field.is_list() => self.skip(),
            _ => self.message(message, ignored),
        }
    }

    /// Skips a value.
    fn skip(&mut self) -> Option<()> {
        let mut open = 0_usize;
        loop {
            match self.text.peek()? {
                byte @ (b'{' | b'[') => {
                    self.text.eat(byte);
                    open += 1;
                }
                byte @ (b'}' | b']') => {
                    self.text.eat(byte);
                    open = open.checked_sub(1)?;
                }
                byte @ (b',' | b':') => drop(self.text.eat(byte)),
                b'"' => drop(self.text.string().ok()?),
                _ => drop(self.text.word()),
            }
            if open == 0 {
                return Some(());
            }
        }
    }

    fn position(&self) -> usize {
        self.len - self.text.rest().len()
    }
}

#[cfg(test)]
mod tests {
    use prost_reflect::DescriptorPool;

    use super::*;

    /// `google.protobuf.Type`: name = 1, fields = 2, options = 4, source_context = 5; `Field`: number = 3, name = 4.
    fn stripped(paths: &[&[u32]], json: &str) -> Option<String> {
        let message = DescriptorPool::global().get_message_by_name("google.protobuf.Type").expect("a known message");
        let paths: Vec<_> = paths.iter().map(|path| path.to_vec()).collect();
        strip(&message, &IgnoreMask::new(&paths), json)
    }

    #[test]
    fn removes_members_and_what_is_between_them() {
        for (json, expected) in [
            (r#"{"name": "a"}"#, "{}"),
            (r#"{ "name": "a" }"#, "{ }"),
            (r#"{"name": "a", "oneofs": []}"#, r#"{"oneofs": []}"#),
            (r#"{"oneofs": [], "name": "a"}"#, r#"{"oneofs": []}"#),
            (r#"{"oneofs":[],"\u006eame":"}\",", "syntax":0}"#, r#"{"oneofs":[],"syntax":0}"#),
            ("{\n  \"oneofs\": [],\n  \"name\": \"a\"\n}", "{\n  \"oneofs\": []\n}"),
            (r#"{"sourceContext": {"fileName": "a"}, "name": "b"}"#, r#"{"sourceContext": {}}"#),
            (r#"{"source_context": {"file_name": "a"}, "syntax": 1}"#, r#"{"source_context": {}, "syntax": 1}"#),
            (r#"{"syntax": 1, "sourceContext": null, "name": null}"#, r#"{"syntax": 1, "sourceContext": null}"#),
            (
                r#"{"fields": [{"name": "a", "number": 1}, {"number": 2}, {"kind": 1, "number": 3, "packed": true}]}"#,
                r#"{"fields": [{"name": "a"}, {}, {"kind": 1, "packed": true}]}"#,
            ),
            (r#"{"fields": [], "name": "a"}"#, r#"{"fields": []}"#),
        ] {
            assert_eq!(stripped(&[&[1], &[5, 1], &[2, 3]], json).as_deref(), Some(expected), "{json}");
        }
    }

    #[test]
    fn removes_members_that_follow_each_other() {
        let json = r#"{"syntax": 1, "name": "a", "oneofs": []}"#;
        assert_eq!(stripped(&[&[1], &[3]], json).as_deref(), Some(r#"{"syntax": 1}"#));
        assert_eq!(stripped(&[&[1], &[3], &[6]], json).as_deref(), Some("{}"));
    }

    #[test]
    fn leaves_the_text_without_ignored_members_as_it_is() {
        let json = "\t{ \"name\" : \"a\" ,\n\"fields\":[ { } ]} ";
        assert_eq!(stripped(&[&[3], &[2, 3]], json).as_deref(), Some(json));
    }

    #[test]
    fn does_not_reach_into_a_message_with_a_json_form_of_its_own() {
        let json = r#"{"options": [{"value": {"@type": "a/google.protobuf.Int32Value", "value": 1}}]}"#;
        assert_eq!(stripped(&[&[4, 2, 1]], json), None);
        assert_eq!(stripped(&[&[4, 2]], json).as_deref(), Some(r#"{"options": [{}]}"#));
    }
}
