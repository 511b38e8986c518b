package main

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// messages adds submessages: present or not, in pieces, deeply nested.
func (s *suite) messages() {
	s.keeps("messages/empty-is-kept", "Node", message(3))
	s.becomes("messages/content-at-default-is-dropped", "Node", message(3, varint(2, 0), text(1, "")), message(3))
	s.becomes("messages/in-pieces", "Node",
		join(message(3, text(1, "a")), message(3, varint(2, 2))), message(3, text(1, "a"), varint(2, 2)))
	s.becomes("messages/in-pieces/later-scalars-win", "Node",
		join(message(3, text(1, "a"), varint(2, 1)), message(3, varint(2, 2)), message(3, text(1, "b"))),
		message(3, text(1, "b"), varint(2, 2)))
	s.becomes("messages/in-pieces/later-default-wins", "Node",
		join(message(3, varint(2, 1)), message(3, varint(2, 0))), message(3))
	s.becomes("messages/in-pieces/empty-piece-changes-nothing", "Node",
		join(message(3, varint(2, 1)), message(3)), message(3, varint(2, 1)))
	s.becomes("messages/in-pieces/lists-are-appended", "Node",
		join(message(3, message(4, varint(2, 1))), message(3, message(4, varint(2, 2)))),
		message(3, message(4, varint(2, 1)), message(4, varint(2, 2))))
	s.becomes("messages/in-pieces/packed-lists-are-appended", "Everything",
		join(message(3, message(3, uvarints(1, 2))), message(3, varint(3, 3))),
		message(3, message(3, uvarints(1, 2, 3))))
	s.becomes("messages/in-pieces/maps-are-united", "Node",
		join(message(3, message(5, text(1, "b"), message(2, text(1, "lost")))),
			message(3, message(5, text(1, "a"), message(2))),
			message(3, message(5, text(1, "b"), message(2, varint(2, 1))))),
		message(3, message(5, text(1, "a"), message(2)), message(5, text(1, "b"), message(2, varint(2, 1)))))
	s.becomes("messages/in-pieces/unknown-fields-in-order-of-arrival", "Node",
		join(message(3, varint(99, 1), varint(2, 1)), varint(98, 0),
			message(3, text(97, "x"), text(1, "a"), varint(99, 2))),
		join(message(3, text(1, "a"), varint(2, 1), varint(99, 1), text(97, "x"), varint(99, 2)), varint(98, 0)))
	s.becomes("messages/in-pieces/around-other-fields", "Node",
		join(message(3, varint(2, 1)), text(1, "top"), message(3, text(1, "sub")), message(4),
			message(3, message(3))),
		join(text(1, "top"), message(3, text(1, "sub"), varint(2, 1), message(3)), message(4)))
	s.becomes("messages/in-pieces/at-every-level", "Node",
		join(
			message(3, message(3, message(3, varint(2, 1))), message(3, message(3, text(1, "a")))),
			message(3, varint(2, 9), message(3, message(3, varint(2, 2), varint(77, 7)), text(1, "mid"))),
		),
		message(3, varint(2, 9), message(3, text(1, "mid"), message(3, text(1, "a"), varint(2, 2), varint(77, 7)))))

	for _, depth := range []int{50, 90} {
		innermost := join(text(1, "bottom"), varint(2, 1))
		name := fmt.Sprintf("messages/deep/%d-levels", depth)
		s.keeps(name, "Node", nested(3, depth, innermost))
		s.becomes(name+"/not-canonical-at-the-bottom", "Node",
			nested(3, depth, join(varint(2, 1), text(1, "bottom"))), nested(3, depth, innermost))
		s.becomes(name+"/in-pieces", "Node",
			join(nested(3, depth, text(1, "bottom")), nested(3, depth, varint(2, 1))), nested(3, depth, innermost))
		s.becomes(name+"/unknown-groups", "Node",
			join(nestedGroups(50, depth, varint(1, 1)), varint(2, 1)),
			join(varint(2, 1), nestedGroups(50, depth, varint(1, 1))))
		s.keeps(name+"/in-lists", "Node", nested(4, depth, innermost))
	}
	var mapped []byte
	for range 30 {
		mapped = message(5, message(2, mapped), text(1, "k"))
	}
	s.ok("messages/deep/30-levels-of-maps", "Node", mapped)

	// The length prefix changes its size because the content shrinks or grows.
	long := text(1, strings.Repeat("x", 120))
	s.becomes("messages/length-shrinks-below-128", "Node",
		message(3, long, varint(2, 0), varint(2, 0), varint(2, 0), varint(2, 0)), message(3, long))
	s.becomes("messages/length-grows-beyond-127", "Node",
		message(5, text(1, strings.Repeat("k", 124))), message(5, text(1, strings.Repeat("k", 124)), message(2)))
}

// order adds fields outside oneofs, which are sorted by number, regardless of the order of declaration or arrival.
func (s *suite) order() {
	canonical := join(
		varint(1, 1), varint(2, 2), message(3, uvarints(3, 4)), varint(15, 5), varint(16, 6), varint(2047, 7), varint(2048, 8),
		varint(262143, 9), message(262144, varint(2, 10)), varint(33554431, 11), varintEntry(33554432, 12), text(536870911, "13"))
	s.keeps("order/in-order", "Order", canonical)
	s.becomes("order/reversed", "Order",
		join(text(536870911, "13"), varintEntry(33554432, 12), varint(33554431, 11),
			message(262144, varint(2, 10)), varint(262143, 9), varint(2048, 8), varint(2047, 7), varint(16, 6),
			varint(15, 5), varint(3, 3), varint(2, 2), varint(3, 4), varint(1, 1)),
		canonical)
	s.becomes("order/as-declared", "Order",
		join(varint(16, 6), text(536870911, "13"), varint(2048, 8), message(3, uvarints(3)), varint(15, 5),
			message(262144, varint(2, 10)), varint(1, 1), varintEntry(33554432, 12), varint(2047, 7),
			varint(262143, 9), varint(33554431, 11), varint(2, 2), varint(3, 4)),
		canonical)
	s.becomes("order/tags-compare-by-number-not-by-byte", "Order",
		join(varint(2048, 1), varint(16, 2), varint(262144-1, 3)),
		join(varint(16, 2), varint(2048, 1), varint(262143, 3)))
	s.becomes("order/same-in-submessages", "Everything",
		join(message(9, varint(2, 2), varint(1, 1)), message(8, varint(30, 1), varint(5, 1)),
			message(1, varint(4, 1), varint(3, 1))),
		join(message(1, varint(3, 1), varint(4, 1)), message(8, varint(5, 1), varint(30, 1)),
			message(9, varint(1, 1), varint(2, 2))))
}

// unknown adds unknown fields, which follow the known fields in order of arrival. The tag of an unknown field is
// encoded again, so a padded tag becomes minimal; the rest is preserved bit by bit. dynamicpb also preserves a padded
// tag.
func (s *suite) unknown() {
	every := join(varint(90, 1), fixed64(91, 2), text(92, "x"), group(93, varint(1, 1)), fixed32(94, 5))
	s.keeps("unknown/every-wire-type", "Empty", every)
	s.keeps("unknown/every-wire-type/legacy", "LegacyScalars", every)
	s.keeps("unknown/order-of-arrival", "Empty", varint(9, 1), varint(3, 1), varint(9, 2), varint(1, 1))
	s.becomes("unknown/behind-known-fields", "Scalars",
		join(varint(90, 1), varint(4, 4), fixed32(20, 1), text(14, "x"), group(17), varint(3, 3), varint(90, 0)),
		join(varint(3, 3), varint(4, 4), text(14, "x"), varint(90, 1), fixed32(20, 1), group(17), varint(90, 0)))
	s.becomes("unknown/in-submessages", "Node",
		join(varint(50, 1), message(3, varint(50, 2), varint(2, 1)), message(4, varint(50, 3)),
			message(7, text(51, "x"), text(1, "r"))),
		join(message(3, varint(2, 1), varint(50, 2)), message(4, varint(50, 3)),
			message(7, text(1, "r"), text(51, "x")), varint(50, 1)))
	s.keeps("unknown/defaults-and-duplicates-are-kept", "Empty",
		varint(1, 0), text(2, ""), varint(1, 0), fixed64(3, 0))
	s.keeps("unknown/nested-groups", "Empty",
		group(1, varint(9, 1), group(2, text(3, "x"), group(2, fixed32(1, 1))), group(1), fixed64(8, 1)))
	s.keeps("unknown/highest-number", "Empty", varint(536870911, 1))
	s.keeps("unknown/reserved-numbers-of-the-implementation", "Empty", varint(19500, 1))
	s.keeps("unknown/text-need-not-be-utf8", "Empty", text(1, "\xff"))
	s.keeps("unknown/long-value-is-kept", "Empty", tag(9, protowire.VarintType), padded(1, 9))
	s.keeps("unknown/long-length-is-kept", "Empty", tag(9, protowire.BytesType), padded(1, 4), raw('x'))
	s.keeps("unknown/bool-like-2-is-kept", "Scalars", varint(20, 2))
	s.splits("unknown/long-tag-is-shortened", "Empty",
		join(paddedTag(9, protowire.VarintType, 4), uvarint(1)), varint(9, 1))
	s.splits("unknown/long-tag-is-shortened/10-bytes", "Empty",
		join(paddedTag(200, protowire.Fixed32Type, 10), four(1)), fixed32(200, 1))
	s.splits("unknown/long-tag-and-value-and-length", "Scalars",
		join(paddedTag(90, protowire.VarintType, 3), padded(1, 3), paddedTag(91, protowire.BytesType, 5),
			padded(1, 2), raw('x')),
		join(tag(90, protowire.VarintType), padded(1, 3), tag(91, protowire.BytesType), padded(1, 2), raw('x')))
	s.splits("unknown/long-tag-is-shortened/in-submessage", "Node",
		message(3, paddedTag(90, protowire.VarintType, 3), uvarint(1)), message(3, varint(90, 1)))
	s.splits("unknown/long-tag-is-shortened/wrong-wire-type", "Scalars",
		join(paddedTag(14, protowire.VarintType, 3), uvarint(1)), varint(14, 1))
	s.splits("unknown/long-tag-is-shortened/in-map-value", "Node",
		message(5, text(1, "k"), message(2, paddedTag(90, protowire.VarintType, 4), uvarint(1))),
		message(5, text(1, "k"), message(2, varint(90, 1))))
	s.splits("unknown/long-tag-is-shortened/in-group", "LegacyGroups",
		group(2, paddedTag(90, protowire.VarintType, 4), uvarint(1)), group(2, varint(90, 1)))
	s.splits("unknown/long-tag-is-shortened/in-extension", "Extendable",
		message(5, paddedTag(90, protowire.VarintType, 4), uvarint(1)), message(5, varint(90, 1)))
	inside := join(paddedTag(1, protowire.VarintType, 2), padded(1, 3), paddedTag(9, protowire.EndGroupType, 3))
	s.splits("unknown/long-tag-of-a-group-is-shortened-but-not-inside", "Empty",
		join(paddedTag(9, protowire.StartGroupType, 4), inside), join(tag(9, protowire.StartGroupType), inside))
	s.keeps("unknown/long-tags-inside-a-group-are-kept", "Empty", tag(9, protowire.StartGroupType), inside)

	// Inside an unknown group, field numbers up to 2^31-1 are accepted, although the highest valid number is 2^29-1.
	beyond := join(tag(9, protowire.StartGroupType), uvarint(1<<29<<3), uvarint(1), tag(9, protowire.EndGroupType))
	s.keeps("unknown/number-beyond-the-highest-inside-a-group", "Empty", beyond)
}
