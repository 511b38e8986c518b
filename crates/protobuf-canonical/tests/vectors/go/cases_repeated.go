package main

import "google.golang.org/protobuf/encoding/protowire"

// repeated adds lists of every kind, each sent packed and unpacked, regardless of the schema.
func (s *suite) repeated() {
	for _, k := range kinds {
		one, two := k.some(), k.values[len(k.values)-1].value
		single := join(k.field(one), k.field(k.zero), k.field(two))
		if !k.packable() {
			s.keeps("repeated/"+k.name, "Repeated", single)
			s.keeps("repeated/"+k.name+"/legacy", "LegacyRepeated", single)
			continue
		}
		packed := message(k.number, one, k.zero, two)
		for _, target := range []struct {
			name      string
			canonical []byte
		}{
			{"Repeated", packed}, {"LegacyPacked", packed}, {"Unpacked", single}, {"LegacyRepeated", single},
		} {
			s.becomes("repeated/"+k.name+"/arrives-packed/"+target.name, target.name, packed, target.canonical)
			s.becomes("repeated/"+k.name+"/arrives-unpacked/"+target.name, target.name, single, target.canonical)
		}
	}

	mixed := join(varint(3, 1), message(3, uvarints(2, 3)), message(3), message(3, uvarints(4)), varint(3, 5))
	packed := message(3, uvarints(1, 2, 3, 4, 5))
	single := join(varint(3, 1), varint(3, 2), varint(3, 3), varint(3, 4), varint(3, 5))
	s.becomes("repeated/mixed-chunks/packed", "Repeated", mixed, packed)
	s.becomes("repeated/mixed-chunks/unpacked", "Unpacked", mixed, single)
	s.becomes("repeated/mixed-chunks/legacy-unpacked", "LegacyRepeated", mixed, single)
	s.becomes("repeated/mixed-chunks/legacy-packed", "LegacyPacked", mixed, packed)
	s.becomes("repeated/chunks-around-other-fields", "Repeated",
		join(message(3, uvarints(1)), text(14, "x"), message(3, uvarints(2)), message(1, float8(1)), varint(3, 3)),
		join(message(1, float8(1)), message(3, uvarints(1, 2, 3)), text(14, "x")))

	s.becomes("repeated/empty-chunk-is-dropped/packed", "Repeated", message(3), nil)
	s.becomes("repeated/empty-chunk-is-dropped/unpacked", "Unpacked", message(3), nil)
	s.becomes("repeated/empty-chunk-is-dropped/fixed", "Repeated", join(message(1), message(9), message(13)), nil)
	s.becomes("repeated/zeros-are-kept", "Repeated",
		join(varint(3, 0), varint(13, 0), varint(16, 0)),
		join(message(3, raw(0)), message(13, raw(0)), message(16, raw(0))))
	s.becomes("repeated/empty-elements-are-kept", "Repeated",
		join(message(17), text(14, ""), message(15), message(17), text(14, "")),
		join(text(14, ""), text(14, ""), message(15), message(17), message(17)))
	s.keeps("repeated/messages-are-not-merged", "Repeated", message(17, varint(2, 1)), message(17, text(1, "a")))
	s.keeps("repeated/order-and-duplicates-are-kept", "Repeated", text(14, "b"), text(14, "a"), text(14, "b"))
	s.becomes("repeated/message-elements-are-canonicalized", "Repeated",
		message(17, varint(2, 0), message(3, varint(2, 0)), text(1, "n")), message(17, text(1, "n"), message(3)))

	var content []byte
	for i := range uint64(200) {
		content = join(content, uvarint(i*i))
	}
	s.becomes("repeated/packed-with-length-of-two-bytes", "Repeated",
		join(tag(4, protowire.BytesType), padded(uint64(len(content)), 3), content), message(4, content))
}

// wrongWireTypes adds fields with the wrong wire type: they are unknown, keep their bytes and follow the known fields.
func (s *suite) wrongWireTypes() {
	// A well-formed value of a field with this number in each wire type.
	shapes := func(n protowire.Number) map[protowire.Type][]byte {
		return map[protowire.Type][]byte{
			protowire.VarintType:     varint(n, 1),
			protowire.Fixed64Type:    fixed64(n, 2),
			protowire.BytesType:      message(n, raw(8, 3)),
			protowire.StartGroupType: group(n, varint(1, 4)),
			protowire.Fixed32Type:    fixed32(n, 5),
		}
	}
	wireTypes := []protowire.Type{
		protowire.VarintType, protowire.Fixed64Type, protowire.BytesType, protowire.StartGroupType, protowire.Fixed32Type,
	}
	// wrong returns all shapes except those that fit the field.
	wrong := func(n protowire.Number, fits ...protowire.Type) []byte {
		var b []byte
	next:
		for _, wireType := range wireTypes {
			for _, fit := range fits {
				if wireType == fit {
					continue next
				}
			}
			b = join(b, shapes(n)[wireType])
		}
		return b
	}

	for _, k := range kinds {
		unknown, known := wrong(k.number, k.wireType), k.field(k.some())
		for _, target := range []string{"Scalars", "OptionalScalars", "LegacyScalars"} {
			s.becomes("wrong-wire-type/"+k.name+"/"+target, target, join(unknown, known), join(known, unknown))
		}
		unknown = wrong(k.number, k.wireType, protowire.BytesType)
		canonical := join(known, unknown)
		if k.packable() {
			canonical = join(message(k.number, k.some()), unknown)
		}
		s.becomes("wrong-wire-type/"+k.name+"/Repeated", "Repeated", join(unknown, known), canonical)
	}

	s.keeps("wrong-wire-type/string-as-varint", "Scalars", varint(14, 7))
	s.keeps("wrong-wire-type/int32-as-packed", "Scalars", message(3, uvarints(1, 2)))
	s.becomes("wrong-wire-type/message-as-group", "Node",
		join(group(3, varint(2, 1)), message(3, varint(2, 2))),
		join(message(3, varint(2, 2)), group(3, varint(2, 1))))
	s.becomes("wrong-wire-type/message-as-varint", "Node",
		join(varint(3, 1), text(1, "n")), join(text(1, "n"), varint(3, 1)))
	s.keeps("wrong-wire-type/repeated-message-as-group", "Node", group(4, varint(2, 1)))
	s.becomes("wrong-wire-type/map-as-varint", "MapKeys",
		join(varint(3, 1), message(3, varint(1, 1), text(2, "a"))),
		join(message(3, varint(1, 1), text(2, "a")), varint(3, 1)))
	s.keeps("wrong-wire-type/map-as-group", "MapKeys", group(3, varint(1, 1), text(2, "a")))
	s.becomes("wrong-wire-type/group-as-message", "LegacyGroups",
		join(message(2, varint(1, 1)), group(2, varint(1, 2))),
		join(group(2, varint(1, 2)), message(2, varint(1, 1))))
	s.keeps("wrong-wire-type/repeated-group-as-message", "LegacyGroups", message(3, varint(1, 1)))
	s.keeps("wrong-wire-type/oneof-member-does-not-unset-the-other", "Oneofs",
		text(2, "low"), text(30, "high"), fixed32(11, 1))
	s.becomes("wrong-wire-type/order-of-arrival", "Scalars",
		join(fixed32(14, 1), varint(99, 1), varint(3, 1), fixed32(3, 2), varint(14, 3)),
		join(varint(3, 1), fixed32(14, 1), varint(99, 1), fixed32(3, 2), varint(14, 3)))
	s.keeps("wrong-wire-type/long-varints-are-kept-in-the-value", "Scalars",
		tag(14, protowire.VarintType), padded(1, 5))
}
