package main

import "google.golang.org/protobuf/encoding/protowire"

// legacy adds proto2 messages. protobuf-go treats their closed enums as open, and does not check their strings for
// UTF-8.
func (s *suite) legacy() {
	s.becomes("legacy/declared-defaults-are-kept", "LegacyScalars",
		join(text(14, "fourteen"), text(15, "\x01\x02"), varint(13, 1), signed(3, -3), varint(5, 5),
			double(1, 1.5), float(2, -0.5)),
		join(double(1, 1.5), float(2, -0.5), signed(3, -3), varint(5, 5), varint(13, 1), text(14, "fourteen"),
			text(15, "\x01\x02")))
	for _, k := range kinds {
		s.keeps("legacy/zero-is-kept/"+k.name, "LegacyScalars", k.field(k.zero))
	}
	s.becomes("legacy/last-wins", "LegacyScalars", join(varint(3, 1), text(14, "x"), varint(3, 0), text(14, "")),
		join(varint(3, 0), text(14, "")))

	s.keeps("legacy/closed-enum/first-value", "LegacyScalars", varint(16, 1))
	s.becomes("legacy/closed-enum/unknown-value-stays-in-the-field", "LegacyScalars",
		join(varint(16, 77), text(14, "x"), varint(99, 1)), join(text(14, "x"), varint(16, 77), varint(99, 1)))
	s.becomes("legacy/closed-enum/unknown-value-wins-over-a-known-one", "LegacyScalars",
		join(varint(16, 1), signed(16, -77)), signed(16, -77))
	s.keeps("legacy/closed-enum/unknown-value-in-a-list", "LegacyRepeated",
		varint(16, 1), varint(16, 77), varint(16, 0))
	s.becomes("legacy/closed-enum/unknown-value-in-a-packed-list", "LegacyPacked",
		join(varint(16, 77), message(16, uvarints(1, 78, 0))), message(16, uvarints(77, 1, 78, 0)))
	s.keeps("legacy/closed-enum/unknown-value-in-a-map", "LegacyMaps", varintEntry(2, 77))
	s.becomes("legacy/closed-enum/truncated", "LegacyScalars", varint(16, 1<<32|1), varint(16, 1))
	s.keeps("legacy/open-enum/unknown-value", "LegacyScalars", varint(17, 77))

	s.keeps("legacy/text-not-utf8/optional", "LegacyScalars", text(14, "a\xffb"))
	s.keeps("legacy/text-not-utf8/repeated", "LegacyRepeated", text(14, "\xc0\x80"))
	s.becomes("legacy/text-not-utf8/map", "LegacyMaps",
		join(message(1, text(1, "\xff"), text(2, "\xfe")), message(1, text(1, "\xf4\x8f\xbf\xbf"), text(2, "v"))),
		join(message(1, text(1, "\xf4\x8f\xbf\xbf"), text(2, "v")), message(1, text(1, "\xff"), text(2, "\xfe"))))
	s.keeps("legacy/text-not-utf8/extension", "Extendable", text(2, "\xff"))
	s.keeps("legacy/text-not-utf8/oneof", "Extendable", text(12, "\xff"))

	s.becomes("legacy/required/missing", "LegacyRequired", nil, nil)
	s.keeps("legacy/required/some-missing", "LegacyRequired", varint(2, 0))
	s.becomes("legacy/required/out-of-order", "LegacyRequired",
		join(varint(2, 1), text(1, "")), join(text(1, ""), varint(2, 1)))
	s.becomes("legacy/required/missing-in-submessages", "LegacyRequired",
		join(message(4), message(3, message(4, varint(2, 2)))),
		join(message(3, message(4, varint(2, 2))), message(4)))
	s.becomes("legacy/required/in-pieces", "LegacyRequired",
		join(message(3, varint(2, 1)), message(3, text(1, "x"))), message(3, text(1, "x"), varint(2, 1)))

	s.becomes("legacy/maps/unsorted", "LegacyMaps",
		join(varintEntry(2, 1), message(3, text(1, "b"), message(2, varint(2, 1), text(1, "n"))),
			message(1, text(2, "v")), message(3, message(2), text(1, "a")), message(2)),
		join(message(1, text(1, ""), text(2, "v")), message(2, varint(1, 0), varint(2, 0)), varintEntry(2, 1),
			message(3, text(1, "a"), message(2)),
			message(3, text(1, "b"), message(2, text(1, "n"), varint(2, 1)))))

	// A proto3 message inside a proto2 message follows the rules of proto3, and vice versa.
	s.becomes("legacy/proto3-inside/defaults-are-dropped", "LegacyEverything",
		message(8, message(1, varint(3, 0), text(14, ""))), message(8, message(1)))
	s.bad("legacy/proto3-inside/text-not-utf8", "LegacyEverything", message(8, message(1, text(14, "\xff"))))
}

// groups adds groups: enclosed in tags, otherwise like any other message.
func (s *suite) groups() {
	s.keeps("groups/empty", "LegacyGroups", group(2))
	s.becomes("groups/out-of-order", "LegacyGroups",
		join(varint(6, 1), group(2, text(2, "l"), varint(1, 1)), varint(1, 1)),
		join(varint(1, 1), group(2, varint(1, 1), text(2, "l")), varint(6, 1)))
	s.becomes("groups/in-pieces", "LegacyGroups",
		join(group(2, varint(1, 1), text(2, "lost")), varint(1, 1), group(2, text(2, "l"))),
		join(varint(1, 1), group(2, varint(1, 1), text(2, "l"))))
	s.becomes("groups/in-pieces/nested", "LegacyGroups",
		join(group(2, group(3, message(2, uvarints(1, 2)))), group(2, group(3, varint(1, 1), varint(2, 3)))),
		group(2, group(3, varint(1, 1), varint(2, 1), varint(2, 2), varint(2, 3))))
	s.becomes("groups/in-pieces/unknown-fields", "LegacyGroups",
		join(group(2, varint(99, 1)), group(2, varint(1, 1), group(2, varint(2, 2)))),
		group(2, varint(1, 1), varint(99, 1), group(2, varint(2, 2))))
	s.becomes("groups/repeated-are-not-merged", "LegacyGroups",
		join(group(3, varint(1, 1)), group(3), group(3, group(2, varint(1, 0)), varint(1, 2), group(2))),
		join(group(3, varint(1, 1)), group(3), group(3, varint(1, 2), group(2, varint(1, 0)), group(2))))
	s.becomes("groups/with-a-map", "LegacyGroups",
		group(2, varintEntry(5, 2), varintEntry(5, 1), varint(1, 1)),
		group(2, varint(1, 1), varintEntry(5, 1), varintEntry(5, 2)))
	s.becomes("groups/with-a-message-with-a-group", "LegacyGroups",
		group(2, message(4, varint(6, 1), group(2, message(4, group(2, varint(1, 1)))))),
		group(2, message(4, group(2, message(4, group(2, varint(1, 1)))), varint(6, 1))))
	s.becomes("groups/with-unknown-groups-of-the-same-number", "LegacyGroups",
		group(2, group(2, varint(1, 1)), varint(1, 1)), group(2, varint(1, 1), group(2, varint(1, 1))))
	s.becomes("groups/in-a-oneof", "LegacyGroups",
		join(group(5, varint(1, 1)), varint(6, 1)), join(varint(6, 1), group(5, varint(1, 1))))
	s.becomes("groups/in-a-oneof/merged", "LegacyGroups",
		join(group(5, varint(2, 2)), group(5, varint(1, 1))), group(5, varint(1, 1), varint(2, 2)))
	s.becomes("groups/in-a-oneof/A-B-A", "LegacyGroups",
		join(group(5, varint(2, 2)), varint(4, 1), group(5, varint(1, 1))), group(5, varint(1, 1)))
	s.becomes("groups/in-a-oneof/replaced", "LegacyGroups", join(group(5, varint(2, 2)), varint(4, 0)), varint(4, 0))
	s.becomes("groups/long-tags", "LegacyGroups",
		join(paddedTag(2, protowire.StartGroupType, 3), paddedTag(1, protowire.VarintType, 2), padded(1, 2),
			paddedTag(2, protowire.EndGroupType, 4), varint(1, 1)),
		join(varint(1, 1), group(2, varint(1, 1))))
	s.becomes("groups/with-the-highest-number", "LegacyGroups",
		join(group(536870911, varint(1, 1)), group(2)), join(group(2), group(536870911, varint(1, 1))))
	var deep []byte
	for range 45 {
		deep = group(2, message(4, deep))
	}
	s.keeps("groups/deep", "LegacyGroups", deep)
}

// extensions adds extensions, which are encoded before all other fields.
func (s *suite) extensions() {
	s.becomes("extensions/before-ordinary-fields", "Extendable",
		join(varint(10, 10), text(20, "20"), varint(3, 3), message(13), message(110, uvarints(1)),
			varint(536870911, 1)),
		join(varint(3, 3), message(13), message(110, uvarints(1)), varint(536870911, 1), varint(10, 10),
			text(20, "20")))
	s.becomes("extensions/in-number-order-on-the-wire", "Extendable",
		join(varint(3, 3), varint(10, 10), message(13), text(20, "20"), varint(111, 1)),
		join(varint(3, 3), message(13), varint(111, 1), varint(10, 10), text(20, "20")))
	s.becomes("extensions/by-number", "Extendable",
		join(varint(536870911, 1), varint(111, 1), varint(16, 0), varint(3, 3), text(2, "2"), varint(1, 1)),
		join(varint(1, 1), text(2, "2"), varint(3, 3), varint(16, 0), varint(111, 1), varint(536870911, 1)))
	s.becomes("extensions/ordinary-fields-then-oneof-then-unknown", "Extendable",
		join(varint(200, 9), varint(11, 11), text(20, "20"), varint(7, 7), varint(10, 10), varint(3, 3)),
		join(varint(3, 3), varint(10, 10), text(20, "20"), varint(11, 11), varint(200, 9), varint(7, 7)))
	s.becomes("extensions/unregistered-number-is-unknown", "Extendable",
		join(varint(7, 7), varint(3, 3)), join(varint(3, 3), varint(7, 7)))
	s.becomes("extensions/outside-the-ranges-is-unknown", "Extendable",
		join(varint(21, 7), varint(10, 3)), join(varint(10, 3), varint(21, 7)))
	s.becomes("extensions/wrong-wire-type", "Extendable",
		join(text(3, "x"), varint(5, 1), varint(2, 1), fixed32(110, 1), group(5), message(120), varint(3, 3)),
		join(varint(3, 3), text(3, "x"), varint(5, 1), varint(2, 1), fixed32(110, 1), group(5), message(120)))
	s.becomes("extensions/wrong-wire-type-beside-a-right-one", "Extendable",
		join(fixed32(114, 1), message(114), fixed64(121, 1), group(121)),
		join(message(114), group(121), fixed32(114, 1), fixed64(121, 1)))
	s.splits("extensions/unknown-with-long-tag", "Extendable",
		join(paddedTag(7, protowire.VarintType, 3), uvarint(1)), varint(7, 1))

	s.becomes("extensions/last-wins", "Extendable",
		join(varint(3, 1), text(2, "x"), varint(3, 0), text(2, "")), join(text(2, ""), varint(3, 0)))
	s.becomes("extensions/default-is-kept", "Extendable", join(varint(16, 1), varint(16, 1)), varint(16, 1))
	s.becomes("extensions/long-varints", "Extendable",
		join(paddedTag(3, protowire.VarintType, 4), padded(1<<32|7, 10), paddedTag(16, protowire.VarintType, 3),
			padded(2, 3)),
		join(varint(3, 7), varint(16, 1)))
	s.becomes("extensions/enum-unknown-value", "Extendable",
		join(varint(14, 77), varint(115, 78)), join(varint(14, 77), message(115, uvarints(78))))
	s.becomes("extensions/empty-bytes-and-text", "Extendable",
		join(message(13), text(2, "")), join(text(2, ""), message(13)))
	s.becomes("extensions/declared-in-a-message", "Extendable",
		join(varint(3, 1), varint(1, 3)), join(varint(1, 3), varint(3, 1)))

	s.becomes("extensions/packed-arrives-unpacked", "Extendable",
		join(varint(110, 1), message(110, uvarints(2, 3)), varint(110, 4)), message(110, uvarints(1, 2, 3, 4)))
	s.becomes("extensions/unpacked-arrives-packed", "Extendable",
		join(message(111, uvarints(1, 2)), varint(111, 3), message(111)),
		join(varint(111, 1), varint(111, 2), varint(111, 3)))
	s.becomes("extensions/empty-chunk-is-dropped", "Extendable",
		join(message(110), message(111), message(112), varint(10, 1)), varint(10, 1))
	s.becomes("extensions/repeated-strings-and-messages", "Extendable",
		join(message(114, varint(2, 2), text(1, "n")), text(113, "b"), message(114), text(113, "")),
		join(text(113, "b"), text(113, ""), message(114, text(1, "n"), varint(2, 2)), message(114)))

	s.becomes("extensions/message-in-pieces", "Extendable",
		join(message(5, text(1, "n"), varint(99, 1)), varint(10, 1),
			message(5, varint(2, 2), message(5, text(1, "k")))),
		join(message(5, text(1, "n"), varint(2, 2), message(5, text(1, "k"), message(2)), varint(99, 1)),
			varint(10, 1)))
	s.keeps("extensions/message-empty-is-kept", "Extendable", message(5))
	s.keeps("extensions/message-with-required-missing", "Extendable", message(4, varint(2, 1)))
	s.becomes("extensions/of-an-extension", "Extendable",
		message(130, varint(10, 1), message(130, text(20, "x"), varint(536870911, 1)), varint(3, 3)),
		message(130, varint(3, 3), message(130, varint(536870911, 1), text(20, "x")), varint(10, 1)))
	s.becomes("extensions/group", "Extendable",
		join(varint(10, 1), group(120, varint(2, 2), varint(99, 1), varint(1, 1))),
		join(group(120, varint(1, 1), varint(2, 2), varint(99, 1)), varint(10, 1)))
	s.becomes("extensions/group-in-pieces", "Extendable",
		join(group(120, varint(1, 1)), varint(10, 1), group(120, varint(2, 2))),
		join(group(120, varint(1, 1), varint(2, 2)), varint(10, 1)))
	s.becomes("extensions/group-with-long-tags", "Extendable",
		join(paddedTag(120, protowire.StartGroupType, 4), varint(1, 1), paddedTag(120, protowire.EndGroupType, 5)),
		group(120, varint(1, 1)))
	s.keeps("extensions/repeated-groups", "Extendable",
		group(121, varint(1, 2)), group(121), group(121, varint(1, 1)))
	s.bad("extensions/proto3-message-with-text-not-utf8", "Extendable", message(5, text(1, "\xff")))
	s.bad("extensions/message-truncated-inside", "Extendable", message(5, raw(0x12)))
	s.bad("extensions/group-unterminated", "Extendable", tag(120, protowire.StartGroupType), varint(1, 1))
	s.bad("extensions/packed-truncated", "Extendable", message(112, raw(1, 2, 3)))
}
