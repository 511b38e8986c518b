package main

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// maps adds maps: the entries are sorted by key, each key once.
func (s *suite) maps() {
	mapKey := func(k kind, value []byte) []byte { return join(tag(1, k.wireType), value) }
	// Keys in ascending order, by the name of their kind. The values of the maps differ in kind: see MapKeys.
	for _, c := range []struct {
		kind   string
		value  func(i uint64) []byte
		empty  []byte // the value written for an entry without one
		sorted [][]byte
	}{
		{"int32", func(i uint64) []byte { return text(2, fmt.Sprint(i)) }, text(2, ""),
			[][]byte{negative(-1 << 31), negative(-2), negative(-1), uvarint(0), uvarint(2), uvarint(300), uvarint(1<<31 - 1)}},
		{"int64", func(i uint64) []byte { return text(2, fmt.Sprint(i)) }, text(2, ""),
			[][]byte{negative(-1 << 63), negative(-1), uvarint(0), uvarint(1), uvarint(1 << 40)}},
		{"uint32", func(i uint64) []byte { return varint(2, i) }, varint(2, 0),
			[][]byte{uvarint(0), uvarint(1), uvarint(127), uvarint(128), uvarint(1<<32 - 1)}},
		{"uint64", func(i uint64) []byte { return varint(2, i) }, varint(2, 0),
			[][]byte{uvarint(0), uvarint(1), uvarint(1 << 62), uvarint(1 << 63), uvarint(1<<64 - 1)}},
		{"sint32", func(i uint64) []byte { return varint(2, i) }, varint(2, 0),
			[][]byte{zigzag(-1 << 31), zigzag(-2), zigzag(-1), zigzag(0), zigzag(1), zigzag(1<<31 - 1)}},
		{"sint64", func(i uint64) []byte { return varint(2, i) }, varint(2, 0),
			[][]byte{zigzag(-1 << 63), zigzag(-64), zigzag(-1), zigzag(0), zigzag(1), zigzag(1<<63 - 1)}},
		{"fixed32", func(i uint64) []byte { return fixed64(2, i) }, fixed64(2, 0),
			[][]byte{four(0), four(1), four(256), four(1 << 31), four(1<<32 - 1)}},
		{"fixed64", func(i uint64) []byte { return fixed32(2, uint32(i)) }, fixed32(2, 0),
			[][]byte{eight(0), eight(1), eight(256), eight(1 << 63), eight(1<<64 - 1)}},
		{"sfixed32", func(i uint64) []byte { return varint(2, i%2) }, varint(2, 0),
			[][]byte{four(1 << 31), four(1<<32 - 1), four(0), four(1), four(256)}},
		{"sfixed64", func(i uint64) []byte { return varint(2, i) }, varint(2, 0),
			[][]byte{eight(1 << 63), eight(1<<64 - 1), eight(0), eight(1), eight(256)}},
		{"bool", func(i uint64) []byte { return message(2, varint(2, i+1)) }, message(2),
			[][]byte{uvarint(0), uvarint(1)}},
		{"string", func(i uint64) []byte { return text(2, fmt.Sprint(i)) }, text(2, ""),
			[][]byte{
				delimited(""), delimited("\x00"), delimited("B"), delimited("a"), delimited("a\x00"), delimited("aa"),
				delimited("ab"), delimited("b"), delimited("e\u0301"), delimited("\u00e9"), delimited("\uffff"),
				delimited("\U00010000"),
			}},
	} {
		k := kindNamed(c.kind)
		var sorted, reversed []byte
		for i, value := range c.sorted {
			entry := message(k.number, mapKey(k, value), c.value(uint64(i)))
			sorted, reversed = join(sorted, entry), join(entry, reversed)
		}
		s.keeps("maps/"+c.kind+"-keys/sorted", "MapKeys", sorted)
		s.becomes("maps/"+c.kind+"-keys/reversed", "MapKeys", reversed, sorted)
		s.becomes("maps/"+c.kind+"-keys/twice", "MapKeys", join(reversed, sorted), sorted)
		s.becomes("maps/"+c.kind+"-keys/empty-entry", "MapKeys", message(k.number),
			message(k.number, mapKey(k, k.zero), c.empty))
	}

	for _, k := range kinds {
		entry := func(key uint64, value []byte) []byte {
			return message(k.number, varint(1, key), tag(2, k.wireType), value)
		}
		last := k.values[len(k.values)-1].value
		s.becomes("maps/"+k.name+"-values", "MapValues",
			join(entry(2, k.zero), entry(3, last), entry(1, k.some())),
			join(entry(1, k.some()), entry(2, k.zero), entry(3, last)))
		s.becomes("maps/"+k.name+"-values/missing", "MapValues", message(k.number, varint(1, 8)), entry(8, k.zero))
	}

	s.becomes("maps/last-of-equal-keys-wins-wholly", "MapValues",
		join(
			message(17, varint(1, 1), message(2, text(1, "first"), varint(2, 1), varint(99, 1))),
			message(17, varint(1, 2), message(2)),
			message(17, varint(1, 1), message(2, varint(2, 2))),
		),
		join(message(17, varint(1, 1), message(2, varint(2, 2))), message(17, varint(1, 2), message(2))))
	s.becomes("maps/last-of-equal-keys-has-no-value", "MapKeys",
		join(message(3, varint(1, 1), text(2, "a")), message(3, varint(1, 1))),
		message(3, varint(1, 1), text(2, "")))
	s.becomes("maps/equal-keys-in-other-bytes/int32", "MapKeys",
		join(message(3, signed(1, -1), text(2, "a")), message(3, varint(1, 1<<32-1), text(2, "b")),
			message(3, tag(1, protowire.VarintType), padded(7, 4), text(2, "c")),
			message(3, varint(1, 1<<32|7), text(2, "d"))),
		join(message(3, signed(1, -1), text(2, "b")), message(3, varint(1, 7), text(2, "d"))))
	s.becomes("maps/equal-keys-in-other-bytes/bool", "MapKeys",
		join(message(13, varint(1, 2), message(2, varint(2, 1))), message(13, varint(1, 0), message(2)),
			message(13, varint(1, 1), message(2, varint(2, 3)))),
		join(message(13, varint(1, 0), message(2)), message(13, varint(1, 1), message(2, varint(2, 3)))))
	s.becomes("maps/keys-differ-only-in-normalization", "MapKeys",
		join(message(14, text(1, "\u00e9"), text(2, "composed")),
			message(14, text(1, "e\u0301"), text(2, "apart"))),
		join(message(14, text(1, "e\u0301"), text(2, "apart")),
			message(14, text(1, "\u00e9"), text(2, "composed"))))
	s.becomes("maps/entries-among-other-fields", "Oneofs",
		join(message(23, varint(1, 2), varint(2, 2)), varint(5, 1), message(23, varint(1, 1), varint(2, 1)),
			text(2, "x"), message(23, varint(1, 3), varint(2, 3))),
		join(varint(5, 1), message(23, varint(1, 1), varint(2, 1)), message(23, varint(1, 2), varint(2, 2)),
			message(23, varint(1, 3), varint(2, 3)), text(2, "x")))
	s.becomes("maps/two-maps-interleaved", "MapKeys",
		join(varintEntry(6, 2), varintEntry(5, 2), varintEntry(6, 1), varintEntry(5, 1)),
		join(varintEntry(5, 1), varintEntry(5, 2), varintEntry(6, 1), varintEntry(6, 2)))
	s.becomes("maps/message-values-are-canonicalized", "Node",
		join(message(5, text(1, "b"), message(2, varint(2, 0), message(5, text(1, "z")), message(5, text(1, "y")), text(1, "n"))),
			message(5, text(1, "a"), message(2))),
		join(message(5, text(1, "a"), message(2)),
			message(5, text(1, "b"), message(2, text(1, "n"), message(5, text(1, "y"), message(2)), message(5, text(1, "z"), message(2))))))

	shuffler := newRandom(300)
	var entries [][]byte
	for i := range uint64(300) {
		entries = append(entries, message(14, text(1, fmt.Sprintf("key %d", i)), text(2, fmt.Sprintf("value %d", i*i))))
	}
	shuffler.shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
	s.ok("maps/300-shuffled", "MapKeys", entries...)
}

// varintEntry is an entry of a map from varints to varints, with the same number for key and value.
func varintEntry(number protowire.Number, key uint64) []byte {
	return message(number, varint(1, key), varint(2, key))
}

// mapEntries adds unusual contents of a single entry.
func (s *suite) mapEntries() {
	entry := func(parts ...[]byte) []byte { return message(3, parts...) }
	canonical := message(3, varint(1, 7), text(2, "v"))
	s.becomes("map-entries/value-before-key", "MapKeys", entry(text(2, "v"), varint(1, 7)), canonical)
	s.becomes("map-entries/missing-key", "MapKeys", entry(text(2, "v")), message(3, varint(1, 0), text(2, "v")))
	s.becomes("map-entries/missing-value", "MapKeys", entry(varint(1, 7)), message(3, varint(1, 7), text(2, "")))
	s.becomes("map-entries/empty", "MapKeys", entry(), message(3, varint(1, 0), text(2, "")))
	s.becomes("map-entries/missing-string-key", "MapKeys",
		message(14, text(2, "v")), message(14, text(1, ""), text(2, "v")))
	s.becomes("map-entries/missing-message-value", "Node",
		message(5, text(1, "k")), message(5, text(1, "k"), message(2)))
	s.becomes("map-entries/empty-with-message-value", "Node", message(5), message(5, text(1, ""), message(2)))
	s.keeps("map-entries/key-and-value-at-default-are-kept", "MapKeys", entry(varint(1, 0), text(2, "")))
	s.becomes("map-entries/repeated-key-last-wins", "MapKeys",
		entry(varint(1, 1), varint(1, 7), text(2, "v")), canonical)
	s.becomes("map-entries/repeated-value-last-wins", "MapKeys",
		entry(text(2, "lost"), varint(1, 7), text(2, "v")), canonical)
	s.becomes("map-entries/repeated-message-value-is-merged", "Node",
		message(5, message(2, text(1, "label"), message(4, varint(2, 1))), text(1, "k"),
			message(2, varint(2, 5), message(4))),
		message(5, text(1, "k"), message(2, text(1, "label"), varint(2, 5), message(4, varint(2, 1)), message(4))))
	s.becomes("map-entries/unknown-fields-are-dropped", "MapKeys",
		entry(varint(3, 1), varint(1, 7), group(4, varint(1, 1)), text(2, "v"), text(99, "x")), canonical)
	s.becomes("map-entries/unknown-fields-are-dropped/message-value", "Node",
		message(5, text(3, "x"), text(1, "k"), message(2, varint(99, 1)), fixed32(9, 1)),
		message(5, text(1, "k"), message(2, varint(99, 1))))
	s.becomes("map-entries/key-of-wrong-wire-type-is-dropped", "MapKeys",
		entry(text(1, "7"), text(2, "v")), message(3, varint(1, 0), text(2, "v")))
	s.becomes("map-entries/key-of-wrong-wire-type-before-a-right-one", "MapKeys",
		entry(fixed32(1, 9), varint(1, 7), text(2, "v")), canonical)
	// Here dynamicpb loses the valid key and panics.
	s.splits("map-entries/key-of-wrong-wire-type-behind-a-right-one", "MapKeys",
		entry(varint(1, 7), text(2, "v"), fixed32(1, 9)), canonical)
	s.becomes("map-entries/value-of-wrong-wire-type-behind-a-right-one", "MapKeys",
		entry(varint(1, 7), text(2, "v"), fixed32(2, 9)), canonical)
	s.becomes("map-entries/value-of-wrong-wire-type-is-dropped", "MapKeys",
		entry(varint(1, 7), varint(2, 1)), message(3, varint(1, 7), text(2, "")))
	s.becomes("map-entries/message-value-of-wrong-wire-type-is-dropped", "Node",
		message(5, text(1, "k"), group(2, varint(2, 1))), message(5, text(1, "k"), message(2)))
	s.becomes("map-entries/packed-like-value-is-dropped", "MapValues",
		message(3, varint(1, 7), message(2, uvarints(1, 2))), message(3, varint(1, 7), varint(2, 0)))
	s.becomes("map-entries/value-truncated-and-long", "MapValues",
		message(3, varint(1, 7), tag(2, protowire.VarintType), padded(1<<35|4, 8)),
		message(3, varint(1, 7), varint(2, 4)))
	s.becomes("map-entries/bool-value-as-2", "MapValues",
		message(13, varint(1, 7), varint(2, 2)), message(13, varint(1, 7), varint(2, 1)))
	s.keeps("map-entries/negative-zero-value", "MapValues", message(1, varint(1, 7), fixed64(2, 1<<63)))
	s.becomes("map-entries/key-that-becomes-default", "MapKeys",
		entry(varint(1, 7), varint(1, 0), text(2, "v")), message(3, varint(1, 0), text(2, "v")))
}
