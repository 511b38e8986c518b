package main

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func wireTypeOf(field protoreflect.FieldDescriptor) protowire.Type {
	switch field.Kind() {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	}
	return protowire.VarintType
}

// value returns a scalar without its tag, in one of the encodings that a reader accepts.
func (r *random) value(field protoreflect.FieldDescriptor, value protoreflect.Value) []byte {
	switch field.Kind() {
	case protoreflect.BoolKind:
		switch {
		case !value.Bool():
			return r.varint(0)
		case r.oneIn(4):
			return r.varint(r.next() | 1)
		}
		return r.varint(1)
	case protoreflect.EnumKind:
		return r.wide(uint64(value.Enum()))
	case protoreflect.Int32Kind:
		return r.wide(uint64(value.Int()))
	case protoreflect.Int64Kind:
		return r.varint(uint64(value.Int()))
	case protoreflect.Uint32Kind:
		return r.wide(value.Uint())
	case protoreflect.Uint64Kind:
		return r.varint(value.Uint())
	case protoreflect.Sint32Kind:
		return r.wide(protowire.EncodeZigZag(value.Int()))
	case protoreflect.Sint64Kind:
		return r.varint(protowire.EncodeZigZag(value.Int()))
	case protoreflect.Fixed32Kind:
		return four(uint32(value.Uint()))
	case protoreflect.Sfixed32Kind:
		return four(uint32(value.Int()))
	case protoreflect.FloatKind:
		return four(math.Float32bits(float32(value.Float())))
	case protoreflect.Fixed64Kind:
		return eight(value.Uint())
	case protoreflect.Sfixed64Kind:
		return eight(uint64(value.Int()))
	case protoreflect.DoubleKind:
		return eight(math.Float64bits(value.Float()))
	case protoreflect.StringKind:
		return r.length([]byte(value.String()))
	case protoreflect.BytesKind:
		return r.length(value.Bytes())
	}
	panic(fmt.Sprintf("%s is not a scalar", field.FullName()))
}

// varint returns a varint that is sometimes padded.
func (r *random) varint(value uint64) []byte {
	length := len(uvarint(value))
	if r.oneIn(8) {
		length += r.intn(11 - length)
	}
	return padded(value, length)
}

// wide returns a varint for a 32-bit field, sometimes with a high half that the reader drops.
func (r *random) wide(value uint64) []byte {
	if r.oneIn(8) {
		value = value&math.MaxUint32 | r.next()<<32
	}
	return r.varint(value)
}

// isDefault reports whether a map entry may leave the value out. Negative zero equals the default, but is another
// value.
func isDefault(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
	switch field.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return false
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return value.Float() == 0 && !math.Signbit(value.Float())
	}
	return value.Equal(field.Default())
}
