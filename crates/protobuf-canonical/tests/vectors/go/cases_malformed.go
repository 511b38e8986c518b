package main

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

// malformed adds input that protobuf-go refuses to decode.
func (s *suite) malformed() {
	ff := func(n int) []byte { return bytes.Repeat([]byte{0xff}, n) }
	varintTag, bytesTag := tag(6, protowire.VarintType), tag(14, protowire.BytesType)

	// The places of a varint: a tag, a value, a length, inside a packed list, a map entry, an unknown field.
	places := []struct {
		name, message string
		wrap          func(varint []byte) []byte
	}{
		{"tag", "Scalars", func(v []byte) []byte { return v }},
		{"value", "Scalars", func(v []byte) []byte { return join(varintTag, v) }},
		{"value-of-32-bits", "Scalars", func(v []byte) []byte { return join(tag(3, protowire.VarintType), v) }},
		{"value-of-bool", "Scalars", func(v []byte) []byte { return join(tag(13, protowire.VarintType), v) }},
		{"length", "Scalars", func(v []byte) []byte { return join(bytesTag, v) }},
		{"packed", "Repeated", func(v []byte) []byte { return message(6, uvarint(1), v) }},
		{"unpacked", "Repeated", func(v []byte) []byte { return join(varint(6, 1), varintTag, v) }},
		{"map-key", "MapKeys", func(v []byte) []byte { return message(6, tag(1, protowire.VarintType), v) }},
		{"map-value", "MapValues", func(v []byte) []byte { return message(6, varint(1, 1), tag(2, protowire.VarintType), v) }},
		{"map-entry-tag", "MapKeys", func(v []byte) []byte { return message(6, v) }},
		{"submessage", "Everything", func(v []byte) []byte { return message(1, varintTag, v) }},
		{"oneof", "Oneofs", func(v []byte) []byte { return join(tag(30, protowire.VarintType), v) }},
		{"extension", "Extendable", func(v []byte) []byte { return join(tag(3, protowire.VarintType), v) }},
		{"unknown-value", "Empty", func(v []byte) []byte { return join(varintTag, v) }},
		{"unknown-length", "Empty", func(v []byte) []byte { return join(bytesTag, v) }},
		{"unknown-group", "Empty", func(v []byte) []byte {
			return join(tag(9, protowire.StartGroupType), varintTag, v, tag(9, protowire.EndGroupType))
		}},
	}
	for _, p := range places {
		truncated := raw(0xff)
		if p.name == "unknown-group" {
			truncated = ff(9) // shorter, and the end tag of the group would end the varint
		}
		s.bad("malformed/truncated-varint/"+p.name, p.message, p.wrap(truncated))
		s.bad("malformed/varint-of-11-bytes/"+p.name, p.message, p.wrap(join(bytes.Repeat([]byte{0x80}, 10), raw(0))))
		s.bad("malformed/tenth-byte-above-1/"+p.name, p.message, p.wrap(join(ff(9), raw(2))))
	}
	s.bad("malformed/ends-behind-tag/varint", "Scalars", varint(3, 1), varintTag)
	s.bad("malformed/ends-behind-tag/length", "Scalars", varint(3, 1), bytesTag)
	s.bad("malformed/ends-behind-tag/unknown", "Empty", tag(9, protowire.BytesType))
	s.bad("malformed/ends-behind-tag/map-entry", "MapKeys", message(3, varint(1, 1), tag(2, protowire.BytesType)))

	s.bad("malformed/length-past-the-end/string", "Scalars", bytesTag, raw(4), []byte("abc"))
	s.bad("malformed/length-past-the-end/bytes", "Scalars", tag(15, protowire.BytesType), raw(1))
	s.bad("malformed/length-past-the-end/message", "Node", tag(3, protowire.BytesType), raw(3), varint(2, 1))
	s.bad("malformed/length-past-the-end/message-inside-message", "Node",
		message(3, tag(3, protowire.BytesType), raw(3)), varint(2, 1), varint(2, 1))
	s.bad("malformed/length-past-the-end/packed", "Repeated", tag(3, protowire.BytesType), raw(3), uvarints(1, 2))
	s.bad("malformed/length-past-the-end/map-entry", "MapKeys", tag(3, protowire.BytesType), raw(5), varint(1, 1))
	s.bad("malformed/length-past-the-end/map-value", "MapKeys",
		message(3, varint(1, 1), tag(2, protowire.BytesType), raw(2), raw('x')))
	s.bad("malformed/length-past-the-end/unknown", "Empty", tag(9, protowire.BytesType), raw(2), raw('x'))
	s.bad("malformed/length-past-the-end/inside-unknown-group", "Empty",
		tag(9, protowire.StartGroupType), tag(1, protowire.BytesType), raw(9), tag(9, protowire.EndGroupType))
	s.bad("malformed/length-of-32-bits-is-not-truncated", "Scalars", bytesTag, uvarint(1<<32|1), raw('x'))
	s.bad("malformed/length-of-63-bits", "Scalars", bytesTag, uvarint(1<<63-1), raw('x'))
	s.bad("malformed/length-of-64-bits", "Scalars", bytesTag, uvarint(1<<64-1), raw('x'))

	for _, wireType := range []protowire.Type{0, 1, 2, 3, 4, 5} {
		suffix := string(rune('0' + wireType))
		s.bad("malformed/field-number-0/wire-type-"+suffix, "Scalars", raw(byte(wireType)), make([]byte, 8))
	}
	s.bad("malformed/field-number-0/long", "Scalars", padded(0, 4), raw(0))
	s.bad("malformed/field-number-0/in-map-entry", "MapKeys", message(3, raw(0, 0)))
	s.bad("malformed/field-number-0/in-unknown-group", "Empty",
		tag(9, protowire.StartGroupType), raw(0, 0), tag(9, protowire.EndGroupType))
	s.bad("malformed/field-number-too-high", "Scalars", uvarint(1<<29<<3), uvarint(1))
	s.bad("malformed/field-number-too-high/31-bits", "Scalars", uvarint((1<<31-1)<<3), uvarint(1))
	s.bad("malformed/field-number-too-high/64-bits", "Scalars", uvarint(1<<64-8), uvarint(1))
	s.bad("malformed/field-number-is-not-truncated", "Scalars", uvarint(1<<35|3<<3), uvarint(1))
	s.bad("malformed/field-number-too-high/in-map-entry", "MapKeys", message(3, uvarint(1<<29<<3), uvarint(1)))
	s.bad("malformed/field-number-too-high/in-group", "LegacyGroups",
		tag(2, protowire.StartGroupType), uvarint(1<<29<<3), uvarint(1), tag(2, protowire.EndGroupType))
	s.bad("malformed/field-number-too-high/32-bits-in-unknown-group", "Empty",
		tag(9, protowire.StartGroupType), uvarint(1<<31<<3), uvarint(1), tag(9, protowire.EndGroupType))

	for _, wireType := range []protowire.Type{6, 7} {
		suffix := string(rune('0' + wireType))
		s.bad("malformed/wire-type-"+suffix+"/known-field", "Scalars", tag(3, wireType), raw(0))
		s.bad("malformed/wire-type-"+suffix+"/unknown-field", "Empty", tag(3, wireType), raw(0))
		s.bad("malformed/wire-type-"+suffix+"/map", "MapKeys", tag(3, wireType), raw(0))
		s.bad("malformed/wire-type-"+suffix+"/map-key", "MapKeys", message(3, tag(1, wireType), raw(0)))
		s.bad("malformed/wire-type-"+suffix+"/unknown-group", "Empty",
			tag(9, protowire.StartGroupType), tag(1, wireType), raw(0), tag(9, protowire.EndGroupType))
	}

	start, end := protowire.StartGroupType, protowire.EndGroupType
	s.bad("malformed/group/end-without-start", "Empty", tag(9, end))
	s.bad("malformed/group/end-without-start/known-group", "LegacyGroups", tag(2, end))
	s.bad("malformed/group/end-without-start/known-field", "Scalars", tag(3, end))
	s.bad("malformed/group/end-without-start/submessage", "Node", message(3, tag(3, end)))
	s.bad("malformed/group/end-without-start/map-entry", "MapKeys", message(3, varint(1, 1), tag(3, end)))
	s.bad("malformed/group/mismatched-end/unknown", "Empty", tag(9, start), tag(8, end))
	s.bad("malformed/group/mismatched-end/known", "LegacyGroups", tag(2, start), varint(1, 1), tag(3, end))
	s.bad("malformed/group/mismatched-end/crossed", "Empty", tag(8, start), tag(9, start), tag(8, end), tag(9, end))
	s.bad("malformed/group/mismatched-end/crossed-known", "LegacyGroups",
		tag(2, start), tag(3, start), tag(2, end), tag(3, end))
	s.bad("malformed/group/unterminated/unknown", "Empty", tag(9, start), varint(1, 1))
	s.bad("malformed/group/unterminated/known", "LegacyGroups", tag(2, start), varint(1, 1))
	s.bad("malformed/group/unterminated/repeated", "LegacyGroups", group(3), tag(3, start))
	s.bad("malformed/group/unterminated/in-oneof", "LegacyGroups", tag(5, start), varint(1, 1))
	s.bad("malformed/group/unterminated/message-given-as-group", "Node", tag(3, start), varint(2, 1))
	s.bad("malformed/group/unterminated/map-entry", "MapKeys", message(3, varint(1, 1), tag(3, start)))
	s.bad("malformed/group/ends-outside-its-message", "Everything", message(1, tag(9, start)), tag(9, end))
	s.bad("malformed/group/ends-inside-a-message-that-began-in-it", "LegacyGroups",
		tag(2, start), message(4, tag(2, end)))

	s.bad("malformed/truncated-fixed32", "Scalars", tag(9, protowire.Fixed32Type), raw(1, 2, 3))
	s.bad("malformed/truncated-fixed64", "Scalars", tag(10, protowire.Fixed64Type), raw(1, 2, 3, 4, 5, 6, 7))
	s.bad("malformed/truncated-float", "OptionalScalars", tag(2, protowire.Fixed32Type))
	s.bad("malformed/truncated-double", "Oneofs", tag(6, protowire.Fixed64Type), raw(1, 2, 3, 4))
	s.bad("malformed/truncated-fixed32/unknown", "Empty", tag(9, protowire.Fixed32Type), raw(1, 2, 3))
	s.bad("malformed/truncated-fixed64/unknown", "Empty", tag(9, protowire.Fixed64Type), raw(1, 2, 3, 4))
	s.bad("malformed/truncated-fixed32/wrong-wire-type", "Scalars", tag(14, protowire.Fixed32Type), raw(1, 2, 3))
	for _, k := range kinds {
		if k.wireType == protowire.Fixed32Type || k.wireType == protowire.Fixed64Type {
			s.bad("malformed/packed-with-a-rest/"+k.name, "Repeated", message(k.number, k.some(), k.some()[1:]))
			s.bad("malformed/packed-with-a-rest/"+k.name+"/unpacked", "Unpacked", message(k.number, k.some(), raw(0)))
		}
	}

	s.bad("malformed/in-what-would-be-replaced/map-entry", "MapKeys",
		message(3, varint(1, 1), raw(0xff)), message(3, varint(1, 1), text(2, "v")))
	s.bad("malformed/in-what-would-be-replaced/oneof-member", "Oneofs", message(11, raw(0xff)), text(2, "x"))
	s.bad("malformed/behind-good-fields", "Scalars", varint(3, 1), text(14, "x"), raw(0xff))
	s.bad("malformed/deep", "Node", nested(3, 60, raw(0x10)))
}

// malformedText adds proto3 strings that are not UTF-8, also ones that a later value would replace.
func (s *suite) malformedText() {
	for _, c := range []struct{ name, text string }{
		{"lone-ff", "\xff"}, {"cut-off", "a\xe2\x82"}, {"lone-continuation", "\x80"}, {"overlong", "\xc0\x80"},
		{"surrogate", "\xed\xa0\x80"}, {"beyond-the-last", "\xf4\x90\x80\x80"},
	} {
		s.bad("not-utf8/"+c.name, "Scalars", text(14, c.text))
	}
	const bad = "a\xffb"
	s.bad("not-utf8/optional", "OptionalScalars", text(14, bad))
	s.bad("not-utf8/repeated", "Repeated", text(14, "good"), text(14, bad))
	s.bad("not-utf8/oneof", "Oneofs", text(2, bad))
	s.bad("not-utf8/map-key", "MapKeys", message(14, text(1, bad), text(2, "v")))
	s.bad("not-utf8/map-value", "MapKeys", message(14, text(1, "k"), text(2, bad)))
	s.bad("not-utf8/map-value-of-integer-key", "MapValues", message(14, varint(1, 1), text(2, bad)))
	s.bad("not-utf8/map-key-of-message-value", "Node", message(5, text(1, bad), message(2)))
	s.bad("not-utf8/map-message-value", "Node", message(5, text(1, "k"), message(2, text(1, bad))))
	s.bad("not-utf8/submessage", "Node", message(3, message(3, text(1, bad))))
	s.bad("not-utf8/well-known", "WellKnown", message(17, text(1, bad)))
	s.bad("not-utf8/struct-key", "WellKnown", message(4, message(1, text(1, bad))))
	s.bad("not-utf8/replaced-by-a-later-value", "Scalars", text(14, bad), text(14, "good"))
	s.bad("not-utf8/replaced-by-another-oneof-member", "Oneofs", text(2, bad), varint(30, 1))
	s.bad("not-utf8/replaced-in-map-entry", "MapKeys", message(14, text(1, bad), text(1, "k"), text(2, "v")))
	s.bad("not-utf8/replaced-map-entry", "MapKeys",
		message(14, text(1, "k"), text(2, bad)), message(14, text(1, "k"), text(2, "v")))
	s.ok("not-utf8/bytes-need-not-be", "Scalars", text(15, bad))
	s.ok("not-utf8/unknown-field-in-map-entry", "MapKeys", message(14, text(1, "k"), text(2, "v"), text(3, bad)))
}
