package main

import "google.golang.org/protobuf/encoding/protowire"

// wellKnown adds the well-known types. The encoding treats them like any other message, and the content of an Any as
// bytes.
func (s *suite) wellKnown() {
	s.becomes("well-known/timestamp", "WellKnown",
		message(1, varint(2, 5), varint(1, 1700000000)), message(1, varint(1, 1700000000), varint(2, 5)))
	s.keeps("well-known/timestamp/negative-seconds", "WellKnown", message(1, signed(1, -1)))
	s.becomes("well-known/timestamp/epoch-is-kept", "WellKnown", message(1, varint(1, 0), varint(2, 0)), message(1))
	s.becomes("well-known/timestamp/in-pieces", "WellKnown",
		join(message(1, varint(1, 1), varint(2, 9)), message(1, varint(1, 2))),
		message(1, varint(1, 2), varint(2, 9)))
	s.keeps("well-known/timestamp/out-of-range-is-not-checked", "WellKnown", message(1, signed(2, -1)))
	s.becomes("well-known/duration", "WellKnown",
		message(2, signed(2, -5), signed(1, -1)), message(2, signed(1, -1), signed(2, -5)))
	s.keeps("well-known/field-mask", "WellKnown", message(8, text(1, "b"), text(1, "a")))
	s.keeps("well-known/empty", "WellKnown", message(9))

	const url = "type.googleapis.com/vectors.v1.Scalars"
	notCanonical := join(varint(4, 1), varint(3, 0), tag(3, protowire.VarintType), padded(1, 3))
	s.becomes("well-known/any/content-is-kept-to-the-bit", "WellKnown",
		message(3, message(2, notCanonical), text(1, url)), message(3, text(1, url), message(2, notCanonical)))
	s.keeps("well-known/any/content-need-not-decode", "WellKnown", message(3, text(1, url), message(2, raw(0xff))))
	s.becomes("well-known/any/in-pieces-content-is-replaced", "WellKnown",
		join(message(3, text(1, url), message(2, varint(3, 1))), message(3, message(2, varint(4, 1)))),
		message(3, text(1, url), message(2, varint(4, 1))))
	s.becomes("well-known/any/repeated", "WellKnown",
		join(message(19, message(2), text(1, url)), message(19)), join(message(19, text(1, url)), message(19)))

	number := func(v float64) []byte { return double(2, v) }
	field := func(name string, value ...[]byte) []byte { return message(1, text(1, name), message(2, value...)) }
	s.becomes("well-known/struct", "WellKnown",
		message(4, field("b", number(0)), field("", varint(1, 0)), field("a", text(3, "")),
			field("c", message(5, field("z", varint(4, 0)), field("y", varint(4, 2)))), field("b", number(1))),
		message(4, field("", varint(1, 0)), field("a", text(3, "")), field("b", number(1)),
			field("c", message(5, field("y", varint(4, 1)), field("z", varint(4, 0))))))
	s.becomes("well-known/struct/value-without-kind", "WellKnown",
		message(4, message(1, text(1, "k"))), message(4, field("k")))
	s.keeps("well-known/struct/list", "WellKnown",
		message(4, field("l", message(6, message(1, text(3, "x")), message(1), message(1, number(-1))))))
	s.becomes("well-known/value/last-kind-wins", "WellKnown",
		message(5, number(1), text(3, "x"), varint(1, 5)), message(5, varint(1, 5)))
	s.becomes("well-known/value/struct-then-list-then-struct", "WellKnown",
		message(5, message(5, field("a")), message(6), message(5, field("b"))), message(5, message(5, field("b"))))
	s.becomes("well-known/null-value-is-dropped-outside-a-oneof", "WellKnown", varint(7, 0), nil)
	s.keeps("well-known/null-value/unknown-is-kept", "WellKnown", varint(7, 3))
	s.becomes("well-known/map-of-values", "WellKnown",
		join(message(20, message(2, varint(4, 2)), text(1, "b")), message(20, text(1, "a"))),
		join(message(20, text(1, "a"), message(2)), message(20, text(1, "b"), message(2, varint(4, 1)))))

	wrappers := []struct {
		number    protowire.Number
		name      string
		zero, one []byte
	}{
		{10, "double", double(1, 0), double(1, 1)}, {11, "float", float(1, 0), float(1, 1)},
		{12, "int64", varint(1, 0), signed(1, -1)}, {13, "uint64", varint(1, 0), varint(1, 1)},
		{14, "int32", varint(1, 0), signed(1, -1)}, {15, "uint32", varint(1, 0), varint(1, 1)},
		{16, "bool", varint(1, 0), varint(1, 1)}, {17, "string", text(1, ""), text(1, "x")}, {18, "bytes", text(1, ""), text(1, "x")},
	}
	for _, w := range wrappers {
		s.keeps("well-known/wrapper/"+w.name, "WellKnown", message(w.number, w.one))
		s.becomes("well-known/wrapper/"+w.name+"/default", "WellKnown", message(w.number, w.zero), message(w.number))
	}
}
