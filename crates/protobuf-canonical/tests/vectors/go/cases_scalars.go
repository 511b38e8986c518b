package main

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// scalars adds every kind at its default and at its bounds, with and without explicit presence; the last value wins.
func (s *suite) scalars() {
	s.becomes("empty", "Empty", nil, nil)
	s.becomes("empty/message-with-fields", "Everything", nil, nil)

	for _, k := range kinds {
		s.becomes("scalars/"+k.name+"/default-is-dropped", "Scalars", k.field(k.zero), nil)
		s.keeps("optional/"+k.name+"/default-is-kept", "OptionalScalars", k.field(k.zero))
		s.becomes("scalars/"+k.name+"/last-wins", "Scalars",
			join(k.field(k.values[len(k.values)-1].value), k.field(k.some())), k.field(k.some()))
		s.becomes("scalars/"+k.name+"/last-wins-and-is-default", "Scalars",
			join(k.field(k.some()), k.field(k.zero)), nil)
		for _, v := range k.values {
			s.keeps("scalars/"+k.name+"/"+v.name, "Scalars", k.field(v.value))
		}
	}

	var inOrder, reversed, defaults []byte
	for _, k := range kinds {
		inOrder = join(inOrder, k.field(k.some()))
		reversed = join(k.field(k.some()), reversed)
		defaults = join(defaults, k.field(k.zero))
	}
	for _, name := range []string{"Scalars", "OptionalScalars", "LegacyScalars"} {
		s.keeps("all-kinds/in-order/"+name, name, inOrder)
		s.becomes("all-kinds/reversed/"+name, name, reversed, inOrder)
		s.becomes("all-kinds/twice/"+name, name, join(reversed, inOrder), inOrder)
	}
	s.becomes("all-kinds/defaults/Scalars", "Scalars", defaults, nil)
	s.keeps("all-kinds/defaults/OptionalScalars", "OptionalScalars", defaults)

	s.becomes("optional/last-wins-and-is-default", "OptionalScalars",
		join(varint(3, 5), text(14, "x"), text(14, ""), varint(3, 0)), join(varint(3, 0), text(14, "")))
	s.becomes("optional/synthetic-oneofs-do-not-move-fields", "OptionalScalars",
		join(varint(18, 1), message(17), varint(3, 0)), join(varint(3, 0), message(17), varint(18, 1)))
	s.ok("optional/empty-message-is-kept", "OptionalScalars", message(17))
	s.becomes("optional/negative-zero-and-zero", "OptionalScalars",
		join(float(2, 0), fixed64(1, 1<<63)), join(fixed64(1, 1<<63), float(2, 0)))
}

// floats adds the NaNs of 32-bit floats. protobuf-go preserves the bits of a float in generated structs, but converts
// those of map values and extensions to float64, which makes a signaling NaN quiet. dynamicpb does so for all floats.
func (s *suite) floats() {
	const signaling, quieted = 0x7fa0beef, 0x7fe0beef
	const quiet = 0xffc0beef

	s.splits("float/signaling-nan/implicit", "Scalars", fixed32(2, signaling), fixed32(2, signaling))
	s.splits("float/signaling-nan/optional", "OptionalScalars", fixed32(2, signaling), fixed32(2, signaling))
	s.splits("float/signaling-nan/legacy", "LegacyScalars", fixed32(2, signaling), fixed32(2, signaling))
	s.splits("float/signaling-nan/oneof", "Oneofs", fixed32(13, signaling), fixed32(13, signaling))
	s.splits("float/signaling-nan/wrapper", "WellKnown",
		message(11, fixed32(1, signaling)), message(11, fixed32(1, signaling)))
	s.splits("float/signaling-nan/packed", "Repeated",
		join(fixed32(2, signaling), fixed32(2, quiet)), message(2, four(signaling), four(quiet)))
	s.splits("float/signaling-nan/unpacked", "Unpacked",
		message(2, four(signaling), four(quiet)), join(fixed32(2, signaling), fixed32(2, quiet)))
	s.becomes("float/signaling-nan/map-value-is-quieted", "MapValues",
		message(2, varint(1, 1), fixed32(2, signaling)), message(2, varint(1, 1), fixed32(2, quieted)))
	s.becomes("float/signaling-nan/extension-is-quieted", "Extendable",
		fixed32(15, signaling), fixed32(15, quieted))
	s.becomes("float/signaling-nan/packed-extension-is-quieted", "Extendable",
		message(112, four(signaling), four(quiet)), message(112, four(quieted), four(quiet)))
	s.keeps("float/quiet-nan/map-value", "MapValues", message(2, varint(1, 1), fixed32(2, quiet)))
	s.keeps("double/signaling-nan/map-value", "MapValues", message(1, varint(1, 1), fixed64(2, 0x7ff0000000000001)))
}

// varints adds varints that are longer than necessary, or wider than their field.
func (s *suite) varints() {
	for _, length := range []int{2, 6, 10} {
		suffix := fmt.Sprintf("%d-bytes", length)
		s.becomes("varints/long-tag/"+suffix, "Scalars",
			join(paddedTag(3, protowire.VarintType, length), uvarint(1)), varint(3, 1))
		s.becomes("varints/long-value/"+suffix, "Scalars",
			join(tag(6, protowire.VarintType), padded(6, length)), varint(6, 6))
		s.becomes("varints/long-length/"+suffix, "Scalars",
			join(tag(14, protowire.BytesType), padded(3, length), []byte("abc")), text(14, "abc"))
	}
	s.becomes("varints/long-zero-is-dropped", "Scalars", join(tag(3, protowire.VarintType), padded(0, 10)), nil)
	s.becomes("varints/long-false-is-dropped", "Scalars", join(tag(13, protowire.VarintType), padded(0, 7)), nil)
	s.becomes("varints/long-tag-and-length-in-submessage", "Node",
		join(paddedTag(3, protowire.BytesType, 3), padded(4, 2), paddedTag(2, protowire.VarintType, 2),
			padded(9, 2)),
		message(3, varint(2, 9)))
	s.becomes("varints/long-in-packed", "Repeated",
		join(paddedTag(3, protowire.BytesType, 2), padded(5, 3), padded(1, 2), padded(0, 3)),
		message(3, uvarints(1, 0)))
	s.becomes("varints/long-in-map-entry", "MapKeys",
		join(paddedTag(3, protowire.BytesType, 2), padded(10, 2), paddedTag(1, protowire.VarintType, 2),
			padded(5, 3), paddedTag(2, protowire.BytesType, 2), padded(1, 2), raw('v')),
		message(3, varint(1, 5), text(2, "v")))
	s.becomes("varints/long-tag-of-the-highest-field", "Order",
		join(paddedTag(536870911, protowire.BytesType, 9), uvarint(1), raw('z')), text(536870911, "z"))

	for _, c := range []struct {
		message   string
		canonical []byte
	}{
		{"Scalars", varint(13, 1)},
		{"Repeated", message(13, uvarints(1))},
	} {
		s.becomes("varints/bool-as-2/"+c.message, c.message, varint(13, 2), c.canonical)
		s.becomes("varints/bool-as-max/"+c.message, c.message, varint(13, math.MaxUint64), c.canonical)
		s.becomes("varints/bool-with-high-bit-only/"+c.message, c.message, varint(13, 1<<32), c.canonical)
	}
	s.becomes("varints/bool-optional-as-10-zero-bytes", "OptionalScalars",
		join(tag(13, protowire.VarintType), padded(0, 10)), varint(13, 0))

	// A 32-bit field takes the low half of a 64-bit varint.
	s.becomes("varints/int32-truncated", "Scalars", varint(3, 5<<32|7), varint(3, 7))
	s.becomes("varints/int32-truncated-to-negative", "Scalars", varint(3, math.MaxUint32), signed(3, -1))
	s.becomes("varints/int32-truncated-to-min", "Scalars", varint(3, 1<<31), signed(3, math.MinInt32))
	s.becomes("varints/int32-truncated-to-zero-is-dropped", "Scalars", varint(3, 1<<32), nil)
	s.becomes("varints/int32-optional-truncated-to-zero-is-kept", "OptionalScalars", varint(3, 1<<32), varint(3, 0))
	s.becomes("varints/int32-from-int64-min-is-dropped", "Scalars", signed(3, math.MinInt64), nil)
	s.becomes("varints/uint32-truncated", "Scalars", varint(5, math.MaxUint64), varint(5, math.MaxUint32))
	s.becomes("varints/uint32-truncated-to-zero-is-dropped", "Scalars", varint(5, 1<<63), nil)
	s.becomes("varints/sint32-truncated", "Scalars", varint(7, 1<<32|3), varint(7, 3))
	s.becomes("varints/sint32-truncated-max", "Scalars", varint(7, math.MaxUint64), varint(7, math.MaxUint32))
	s.becomes("varints/sint32-truncated-to-zero-is-dropped", "Scalars", varint(7, 1<<40), nil)
	s.becomes("varints/enum-truncated", "Scalars", varint(16, 1<<32|2), varint(16, 2))
	s.becomes("varints/enum-truncated-to-negative", "Scalars", varint(16, math.MaxUint32), signed(16, -1))
	s.becomes("varints/enum-truncated-to-zero-is-dropped", "Scalars", varint(16, 1<<35), nil)
	s.becomes("varints/packed-truncated", "Repeated",
		join(message(3, uvarints(1<<32|1, math.MaxUint32)), message(5, uvarints(1<<32|2)),
			message(7, uvarints(1<<32|3)), message(16, uvarints(1<<32|1, 1<<31))),
		join(message(3, uvarint(1), negative(-1)), message(5, uvarints(2)),
			message(7, uvarints(3)), message(16, uvarint(1), negative(math.MinInt32))))
	s.becomes("varints/tenth-byte-is-1", "Scalars",
		join(tag(6, protowire.VarintType), raw(0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1)),
		varint(6, 1<<63))
}
