//! The hostile messages in protobuf's JSON.

use crate::Shape;

/// A plain message of about this size, in bytes, and then hostile ones.
pub fn json(size: usize) -> Vec<Shape> {
    let list = |name: &str, element: &dyn Fn(usize) -> String| {
        let elements = joined(size, element);
        format!("{{\"{name}\":[{elements}]}}")
    };
    let map = |name: &str, entry: &dyn Fn(usize) -> String| {
        let entries = joined(size, entry);
        format!("{{\"{name}\":{{{entries}}}}}")
    };
    let chain = |levels: usize| {
        let inner = joined(size, &|_| "{}".to_owned());
        let inner = format!("{{\"children\":[{inner}]}}");
        (0..levels).fold(inner, |inner, _| format!("{{\"child\":{inner}}}"))
    };
    let shapes = [
        ("plain", list("children", &|index| format!("{{\"label\":\"a name of some length\",\"value\":{index}}}"))),
        ("map entries with different keys", map("flags", &|index| format!("\"{index}\":true"))),
        ("map entries with different texts", map("labels", &|index| format!("\"{index}\":\"\""))),
        ("unknown members", format!("{{{}}}", joined(size, &|index| format!("\"x{index}\":0")))),
        ("empty messages", list("children", &|_| "{}".to_owned())),
        ("short numbers", list("packed", &|_| "1".to_owned())),
        ("short texts", list("texts", &|_| "\"\"".to_owned())),
        ("a flood at the bottom of a chain", chain(98)),
        ("brackets", "[".repeat(size)),
        ("a deep member that is ignored", format!("{{\"x\":{}", "[".repeat(size))),
    ];
    shapes.into_iter().map(|(name, json)| Shape { name, message: json.into_bytes() }).collect()
}

fn joined(size: usize, element: &dyn Fn(usize) -> String) -> String {
    let mut joined = element(0);
    for index in 1.. {
        if joined.len() >= size {
            break;
        }
        joined.push(',');
        joined.push_str(&element(index));
    }
    joined
}
