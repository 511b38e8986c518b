package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// The functions below return wire bytes exactly as told, valid or not.

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

// raw returns the bytes unchanged.
func raw(b ...byte) []byte { return b }

func tag(number protowire.Number, wireType protowire.Type) []byte {
	return protowire.AppendTag(nil, number, wireType)
}

func uvarint(value uint64) []byte { return protowire.AppendVarint(nil, value) }

// padded returns a varint padded to a length.
func padded(value uint64, length int) []byte {
	b := uvarint(value)
	if length < len(b) || length > 10 {
		panic(fmt.Sprintf("varint %d cannot take %d bytes", value, length))
	}
	for len(b) < length {
		b[len(b)-1] |= 0x80
		b = append(b, 0)
	}
	return b
}

// paddedTag returns a tag padded to a length.
func paddedTag(number protowire.Number, wireType protowire.Type, length int) []byte {
	return padded(protowire.EncodeTag(number, wireType), length)
}

func varint(number protowire.Number, value uint64) []byte {
	return join(tag(number, protowire.VarintType), uvarint(value))
}

// signed returns an int32, int64 or enum field; negative values take ten bytes.
func signed(number protowire.Number, value int64) []byte { return varint(number, uint64(value)) }

func fixed32(number protowire.Number, value uint32) []byte {
	return protowire.AppendFixed32(tag(number, protowire.Fixed32Type), value)
}

func fixed64(number protowire.Number, value uint64) []byte {
	return protowire.AppendFixed64(tag(number, protowire.Fixed64Type), value)
}

func float(number protowire.Number, value float32) []byte {
	return fixed32(number, math.Float32bits(value))
}

func double(number protowire.Number, value float64) []byte {
	return fixed64(number, math.Float64bits(value))
}

func text(number protowire.Number, value string) []byte {
	return protowire.AppendString(tag(number, protowire.BytesType), value)
}

// message returns a length-delimited field: a submessage, a map entry, bytes or a packed list.
func message(number protowire.Number, parts ...[]byte) []byte {
	return protowire.AppendBytes(tag(number, protowire.BytesType), join(parts...))
}

func group(number protowire.Number, parts ...[]byte) []byte {
	return join(tag(number, protowire.StartGroupType), join(parts...), tag(number, protowire.EndGroupType))
}

// uvarints returns the content of a packed list.
func uvarints(values ...uint64) []byte {
	var b []byte
	for _, value := range values {
		b = protowire.AppendVarint(b, value)
	}
	return b
}

// nested wraps the innermost bytes in `depth` messages, each a field of the next.
func nested(number protowire.Number, depth int, innermost []byte) []byte {
	b := innermost
	for range depth {
		b = message(number, b)
	}
	return b
}

// nestedGroups does the same as nested with groups.
func nestedGroups(number protowire.Number, depth int, innermost []byte) []byte {
	start := strings.Repeat(string(tag(number, protowire.StartGroupType)), depth)
	end := strings.Repeat(string(tag(number, protowire.EndGroupType)), depth)
	return join([]byte(start), innermost, []byte(end))
}
