package main

import "google.golang.org/protobuf/encoding/protowire"

// editionFeatures adds the features of edition 2023 that do not concern groups: presence, lists, enums and text.
func (s *suite) editionFeatures() {
	s.keeps("presence/explicit-zero-is-kept", "e2023.Presence", varint(1, 0), text(3, ""), varint(11, 0), varint(13, 0))
	s.becomes("presence/implicit-zero-is-dropped", "e2023.Presence",
		join(varint(2, 0), text(4, ""), message(5), varint(6, 0), double(7, 0), float(8, 0), varint(9, 0), fixed64(15, 0)), nil)
	s.keeps("presence/implicit-minus-zero-is-kept", "e2023.Presence", fixed64(7, 1<<63), fixed32(8, 1<<31))
	s.becomes("presence/implicit-last-wins", "e2023.Presence", join(varint(2, 7), varint(1, 7), varint(2, 0), varint(1, 0)), varint(1, 0))
	s.becomes("presence/implicit-in-any-order", "e2023.Presence", join(varint(9, 1), text(4, "x"), varint(2, 1), varint(1, 0)),
		join(varint(1, 0), varint(2, 1), text(4, "x"), varint(9, 1)))
	s.keeps("presence/required-zero-is-kept", "e2023.Presence", varint(10, 0))
	s.keeps("presence/required-missing", "e2023.Presence", varint(1, 1))
	s.keeps("presence/message-is-kept", "e2023.Presence", message(14))
	s.becomes("presence/implicit-in-a-message", "e2023.Presence", message(14, varint(3, 0), varint(1, 0)), message(14, varint(1, 0)))
	s.keeps("presence/oneof-zero-is-kept", "e2023.Presence", varint(16, 0))
	s.becomes("presence/oneof-last-wins", "e2023.Presence", join(varint(16, 1), text(17, ""), varint(1, 1)), join(varint(1, 1), text(17, "")))
	s.becomes("presence/oneof-message-in-pieces", "e2023.Presence",
		join(message(18, varint(2, 1)), message(18, varint(1, 1))), message(18, varint(1, 1), varint(2, 1)))

	s.keeps("enums/closed-unknown-value", "e2023.Presence", varint(12, 77))
	s.keeps("enums/closed-zero", "e2023.Presence", varint(12, 0))
	s.keeps("enums/open-unknown-value", "e2023.Presence", varint(13, 77))
	s.becomes("enums/closed-last-wins", "e2023.Presence", join(varint(12, 1), signed(12, -1)), signed(12, -1))
	s.becomes("enums/closed-unknown-values-in-a-list", "e2023.Lists",
		join(varint(3, 77), message(3, uvarints(1, 0)), varint(3, 2)), message(3, uvarints(77, 1, 0, 2)))
	s.keeps("enums/open-unknown-value-in-a-map", "e2023.Maps", varintEntry(1, 77))

	s.becomes("lists/packed-arrives-expanded", "e2023.Lists", join(varint(1, 1), message(1, uvarints(2, 3))), message(1, uvarints(1, 2, 3)))
	s.becomes("lists/expanded-arrives-packed", "e2023.Lists", join(message(2, uvarints(1, 2)), varint(2, 3)), join(varint(2, 1), varint(2, 2), varint(2, 3)))
	s.becomes("lists/expanded-enums-arrive-packed", "e2023.Lists", message(4, uvarints(1, 77)), join(varint(4, 1), varint(4, 77)))
	s.becomes("lists/packed-floats-arrive-expanded", "e2023.Lists", join(float(8, 1), float(8, 2)), message(8, four(0x3f800000), four(0x40000000)))
	s.becomes("lists/expanded-flags-arrive-packed", "e2023.Lists", message(9, raw(1, 0)), join(varint(9, 1), varint(9, 0)))
	s.becomes("lists/empty-chunks", "e2023.Lists", join(message(1), message(2), message(3), message(4)), nil)
	s.keeps("lists/texts-and-messages", "e2023.Lists", text(5, ""), text(5, "a"), message(6), message(6, varint(1, 1)))

	const broken = "a\xffb"
	s.bad("text/verified", "e2023.Texts", text(1, broken))
	s.bad("text/verified-list", "e2023.Texts", text(3, "ok"), text(3, broken))
	s.bad("text/verified-map-key", "e2023.Texts", message(5, text(1, broken), text(2, "v")))
	s.bad("text/verified-map-value", "e2023.Texts", message(5, text(1, "k"), text(2, broken)))
	s.bad("text/verified-choice", "e2023.Texts", text(7, broken))
	s.keeps("text/unverified", "e2023.Texts", text(2, broken))
	s.keeps("text/unverified-list", "e2023.Texts", text(4, "ok"), text(4, broken))
	s.keeps("text/unverified-map", "e2023.Texts", message(6, text(1, broken), text(2, broken)))
	s.becomes("text/unverified-map-is-sorted", "e2023.Texts",
		join(message(6, text(1, "\xff"), text(2, "a")), message(6, text(1, "\xfe"), text(2, "b"))),
		join(message(6, text(1, "\xfe"), text(2, "b")), message(6, text(1, "\xff"), text(2, "a"))))
	s.keeps("text/unverified-choice", "e2023.Texts", text(8, broken))
	s.bad("text/verified-beside-unverified", "e2023.Texts", text(2, broken), text(1, broken))

	s.becomes("maps/sorted", "e2023.Maps", join(varintEntry(1, 2), varintEntry(1, 1)), join(varintEntry(1, 1), varintEntry(1, 2)))
	s.becomes("maps/message-in-any-order", "e2023.Maps",
		message(2, message(2, varint(2, 1), varint(3, 0), varint(1, 0)), text(1, "k")), message(2, text(1, "k"), message(2, varint(1, 0), varint(2, 1))))
	s.becomes("maps/defaults-are-written", "e2023.Maps", message(4), message(4, varint(1, 0), message(2)))
	s.becomes("maps/signalling-nan", "e2023.Maps", message(3, varint(1, 1), fixed32(2, 0x7f800001)), message(3, varint(1, 1), fixed32(2, 0x7fc00001)))
}

// editionDelimited adds delimited messages, which are groups on the wire.
func (s *suite) editionDelimited() {
	leaf := join(varint(1, 1), text(2, "l"))
	s.keeps("delimited/like-a-group", "e2023.Delimited", varint(1, 0), group(2, varint(1, 0)), varint(10, 1))
	s.keeps("delimited/unlike-a-group", "e2023.Delimited", group(3, varint(1, 0)), group(4, leaf))
	s.becomes("delimited/arrives-prefixed", "e2023.Delimited", join(message(2, varint(1, 1)), varint(1, 1)), join(varint(1, 1), message(2, varint(1, 1))))
	s.becomes("delimited/prefixed-arrives-delimited", "e2023.Delimited", join(group(5, leaf), varint(1, 1)), join(varint(1, 1), group(5, leaf)))
	s.becomes("delimited/in-pieces", "e2023.Delimited",
		join(group(4, text(2, "l")), varint(1, 2), group(4, varint(1, 1))), join(varint(1, 2), group(4, leaf)))
	s.becomes("delimited/nested", "e2023.Delimited",
		group(2, message(3, uvarints(1, 2)), message(2, group(4, varint(3, 0), varint(1, 1)))), group(2, message(2, group(4, varint(1, 1))), message(3, uvarints(1, 2))))
	s.keeps("delimited/list", "e2023.Lists", group(7, leaf), group(7), group(7, varint(1, 0)))
	s.keeps("delimited/choice", "e2023.Delimited", group(6, leaf))
	s.becomes("delimited/choice-replaced", "e2023.Delimited", join(group(6, leaf), message(7)), message(7))
	s.becomes("delimited/choice-merged", "e2023.Delimited", join(group(6, text(2, "l")), group(6, varint(1, 1))), group(6, leaf))
	s.keeps("delimited/map-values-are-prefixed", "e2023.Delimited", message(9, text(1, "k"), message(2, leaf)))
	s.keeps("delimited/map-values-in-a-delimited-file", "legacy2023.Item", message(7, text(1, "k"), message(2, text(1, "n"))))
	s.bad("delimited/unterminated", "e2023.Delimited", tag(4, protowire.StartGroupType), leaf)
	s.bad("delimited/wrong-end", "e2023.Delimited", tag(4, protowire.StartGroupType), leaf, tag(3, protowire.EndGroupType))
}

// editionExtensions adds extensions, which have the features of the file that declares them.
func (s *suite) editionExtensions() {
	s.becomes("extensions/before-ordinary-fields", "e2023.Extended",
		join(varint(30, 1), varint(20, 0), varint(3, 0), text(2, ""), varint(1, 1)), join(varint(1, 1), text(2, ""), varint(3, 0), varint(20, 0), varint(30, 1)))
	s.becomes("extensions/implicit-field-beside", "e2023.Extended", join(varint(21, 0), varint(3, 0)), varint(3, 0))
	s.becomes("extensions/lists", "e2023.Extended",
		join(varint(100, 1), message(101, uvarints(1, 2)), varint(100, 2)), join(message(100, uvarints(1, 2)), varint(101, 1), varint(101, 2)))
	s.becomes("extensions/delimited", "e2023.Extended",
		join(group(103, varint(3, 0), varint(2, 1), varint(1, 1)), message(102, varint(1, 1)), group(104), group(104, varint(1, 0))),
		join(message(102, varint(1, 1)), group(103, varint(1, 1), varint(2, 1)), group(104), group(104, varint(1, 0))))
	// protobuf-go does not verify the text of extensions in editions, whatever their features.
	s.keeps("extensions/verified-text", "e2023.Extended", text(2, "\xff"))
	s.keeps("extensions/unverified-text", "e2023.Extended", text(4, "\xff"))
	s.becomes("extensions/signalling-nan", "e2023.Extended", fixed32(105, 0xff800001), fixed32(105, 0xffc00001))
	s.keeps("extensions/closed-enum", "e2023.Extended", varint(106, 0))
}

// editionFiles adds files with features of their own, and edition 2024.
func (s *suite) editionFiles() {
	s.keeps("legacy/text", "legacy2023.Item", text(1, "\xff"))
	s.bad("legacy/checked-text", "legacy2023.Item", text(2, "\xff"))
	s.bad("legacy/checked-map", "legacy2023.Item", message(8, text(1, "\xff"), text(2, "")))
	s.bad("legacy/checked-choice", "legacy2023.Item", text(16, "\xff"))
	s.keeps("legacy/map-of-texts", "legacy2023.Item", message(17, varint(1, 1), text(2, "\xff")))
	s.becomes("legacy/lists", "legacy2023.Item", join(message(3, uvarints(7, 1)), varint(4, 7)), join(varint(3, 7), varint(3, 1), message(4, uvarints(7))))
	s.keeps("legacy/delimited", "legacy2023.Item", group(5, text(1, "")), message(6, group(5)), varint(9, 0), group(11, varint(1, 1)), group(12, text(1, "n")))
	s.becomes("legacy/of-another-file", "legacy2023.Item", group(11, varint(3, 0)), group(11))
	s.bad("legacy/text-of-another-file", "legacy2023.Item", group(12, text(1, "\xff")))
	s.becomes("legacy/implicit", "legacy2023.Item", join(varint(10, 0), varint(9, 0)), varint(9, 0))
	s.keeps("legacy/parts", "legacy2023.Item", group(13, varint(1, 0), group(3, varint(1, 1), varint(1, 2))), group(13))
	s.keeps("legacy/choice", "legacy2023.Item", group(14, message(2, raw(0xff))))
	s.becomes("legacy/extensions", "legacy2023.Item",
		join(text(1, "n"), varint(101, 1), message(100, uvarints(1, 2)), group(102), text(103, "\xff")),
		join(varint(100, 1), varint(100, 2), message(101, uvarints(1)), group(102), text(103, "\xff"), text(1, "n")))
	s.keeps("legacy/checked-extension", "legacy2023.Item", text(104, "\xff"))

	s.becomes("implicit/zeros", "implicit2023.Form", join(varint(1, 0), text(2, ""), double(3, 0), varint(4, 0), varint(5, 0)), join(varint(4, 0), varint(5, 0)))
	s.keeps("implicit/messages-and-choices", "implicit2023.Form", message(6), message(7), group(11), varint(8, 0))
	s.becomes("implicit/inside", "implicit2023.Form", join(message(6, varint(1, 0), varint(4, 0)), group(11, text(2, ""))), join(message(6, varint(4, 0)), group(11)))
	s.keeps("implicit/map", "implicit2023.Form", message(10, varint(1, 0), varint(2, 0)))
	s.keeps("implicit/extension", "implicit2023.Form", varint(100, 0))
	s.bad("implicit/text", "implicit2023.Form", text(2, "\xff"))

	s.becomes("2024/lists", "e2024.Record",
		join(varint(2, 1), message(3, uvarints(1, 2)), text(1, "")), join(text(1, ""), message(2, uvarints(1)), varint(3, 1), varint(3, 2)))
	s.becomes("2024/implicit", "e2024.Record", join(varint(4, 0), varint(7, 0)), varint(7, 0))
	s.keeps("2024/unverified-text", "e2024.Record", text(5, "\xff"))
	s.bad("2024/verified-text", "e2024.Record", text(1, "\xff"))
	s.keeps("2024/delimited", "e2024.Record", group(6, varint(1, 1)), message(9, varint(1, 0)), group(10, varint(1, 1)))
	s.keeps("2024/map", "e2024.Record", message(8, text(1, "k"), message(2, group(6))))
	s.becomes("2024/extensions", "e2024.Record",
		join(text(1, "i"), message(101, four(1), four(2)), text(100, "")), join(text(100, ""), fixed32(101, 1), fixed32(101, 2), text(1, "i")))
}

// editions adds texts in JSON. The random messages have more.
func (s *jsonSuite) editions() {
	s.same("presence/zeros", "e2023.Presence", `{"explicitNumber":0,"implicitNumber":0,"implicitText":"","implicitFlag":false,"implicitMood":0,"requiredNumber":"0"}`,
		`{"explicit_number":0,"required_number":0}`)
	s.same("presence/zeros-of-each-kind", "e2023.Presence",
		`{"implicitNumber":0,"implicitText":"","implicitBytes":"","implicitFlag":false,"implicitDouble":0,"implicitFloat":0,"implicitMood":"OPEN_MOOD_UNSPECIFIED","implicitFixed":"0"}`, `{}`)
	s.same("presence/minus-zero", "e2023.Presence", `{"implicitDouble":-0.0,"implicitFloat":-0.0}`)
	s.same("presence/null", "e2023.Presence", `{"explicitNumber":null,"implicitNumber":null,"leaf":null}`, `{}`)
	s.same("presence/choice", "e2023.Presence", `{"chosenNumber":0}`, `{"chosen_number":0,"chosenText":null}`)
	s.refused("presence/two-of-a-choice", "e2023.Presence", `{"chosenNumber":0,"chosenText":""}`)
	s.same("enums/closed", "e2023.Presence", `{"closedMood":"CLOSED_MOOD_MERRY"}`, `{"closedMood":2}`)
	s.same("enums/closed-unknown-number", "e2023.Presence", `{"closedMood":77}`)
	s.same("enums/open-unknown-number", "e2023.Presence", `{"openMood":77}`)
	s.refused("enums/unknown-name", "e2023.Presence", `{"closedMood":"NOBODY"}`, `{"openMood":"NOBODY"}`)
	s.same("lists/both", "e2023.Lists", `{"packedNumbers":[1,2],"expandedNumbers":[1,2],"packedMoods":["CLOSED_MOOD_CALM",77],"expandedFlags":[true,false]}`,
		`{"expandedFlags":[true,false],"packed_moods":[1,77],"expanded_numbers":["1",2],"packed_numbers":[1,2]}`)
	s.same("delimited/like-a-group", "e2023.Delimited", `{"inner":{"value":1}}`, `{"Inner":{"value":1}}`)
	s.refused("delimited/unlike-a-group", "e2023.Delimited", `{"Leaf":{}}`, `{"Another":{}}`)
	s.refused("delimited/twice", "e2023.Delimited", `{"inner":{},"Inner":{}}`)
	s.same("delimited/fields", "e2023.Delimited", `{"another":{"value":0},"leaf":{"quiet":0},"leaves":{"k":{"value":1}},"chosenDelimited":{}}`)
	s.same("delimited/list", "e2023.Lists", `{"delimitedLeaves":[{"value":1},{}]}`, `{"delimited_leaves":[{"value":1.0},{"quiet":0}]}`)
	s.same("delimited/nested", "e2023.Delimited", `{"Inner":{"nested":{"Inner":{"numbers":[1]}}}}`, `{"inner":{"nested":{"inner":{"numbers":[1]}}}}`)
	s.same("names/by-hand", "e2023.Names", `{"someName":"a","another":"b"}`, `{"some_name":"a","another":"b"}`)
	s.same("extensions/all", "e2023.Extended",
		`{"[vectors.v1.e2023.edition_number]":0,"[vectors.v1.e2023.edition_expanded]":[1,2],"[vectors.v1.e2023.edition_delimited]":{"value":1},"[vectors.v1.e2023.EditionScope.edition_scoped]":"-1"}`)
	s.same("extensions/of-another-file", "legacy2023.Item",
		`{"[vectors.v1.legacy2023.numbers]":["1"],"[vectors.v1.legacy2023.extension_item]":{"name":"n"},"node":{},"prefixed":{"child":{}}}`)
	s.same("legacy/group-names", "legacy2023.Item", `{"part":{"deep":{"numbers":[1]}}}`, `{"Part":{"Deep":{"numbers":[1]}}}`)
	s.same("legacy/enums", "legacy2023.Item", `{"levels":["LEVEL_LOW",7,3],"quiet":"KNOWN_UNSPECIFIED"}`, `{"levels":[-1,"LEVEL_HIGH",3]}`)
	s.same("implicit/zeros", "implicit2023.Form", `{"number":0,"text":"","ratio":0,"setNumber":0,"closed":"CLOSED_FIVE","delimited":{}}`,
		`{"setNumber":0,"closed":5,"delimited":{"number":0}}`)
	s.same("implicit/similar-names", "implicit2023.Form", `{"foobar":1,"fooBar":2}`, `{"foobar":1,"foo_bar":2}`)
	s.same("2024/record", "e2024.Record",
		`{"id":"","readings":[-1],"quiet":0,"leaf":{"value":0},"status":"STATUS_READY","chosen":{"flag":false},"[vectors.v1.e2024.tag]":""}`)
	s.same("2024/odd-name", "e2024.Record", `{"hidden":{"OddlyNamed":"x"}}`, `{"hidden":{"Oddly_Named":"x"}}`)
}
