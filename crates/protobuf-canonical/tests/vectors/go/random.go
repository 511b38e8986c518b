package main

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// random adds messages with pseudo-random content, each in several equivalent encodings. All of these must have the
// canonical form of the original message.
func (s *suite) random(names ...string) {
	const messagesOfEach, encodingsOfEach = 12, 3
	for i, name := range names {
		for j := range messagesOfEach {
			r := newRandom(uint64(1000*(i+1) + j))
			messageType, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(packageName + name))
			if err != nil {
				panic(err)
			}
			original := messageType.New()
			r.fill(original, 0)
			canonical, err := canonicalOf(original.Interface())
			if err != nil {
				panic(err)
			}
			s.keeps(fmt.Sprintf("random/%s-%02d/canonical", name, j+1), name, canonical)
			for k := range encodingsOfEach {
				input := join(r.encode(original)...)
				s.becomes(fmt.Sprintf("random/%s-%02d/encoding-%d", name, j+1, k+1), name, input, canonical)
			}
		}
	}
}

// random is a small generator (splitmix64), so that the vectors do not depend on the random numbers of a library.
type random struct {
	state uint64
	json  bool // whether to use only values that JSON can represent
}

func newRandom(seed uint64) *random { return &random{state: seed} }

func (r *random) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (r *random) intn(n int) int   { return int(r.next() % uint64(n)) }
func (r *random) oneIn(n int) bool { return r.intn(n) == 0 }
func (r *random) number() uint64   { return r.next() >> r.intn(64) }
func (r *random) text() string     { return string(r.runes("abcß€😀", 4)) }
func (r *random) shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, r.intn(i+1))
	}
}

func (r *random) runes(alphabet string, most int) []rune {
	letters := []rune(alphabet)
	word := make([]rune, r.intn(most+1))
	for i := range word {
		word[i] = letters[r.intn(len(letters))]
	}
	return word
}

// fill sets some fields of a message, some of them to their defaults.
func (r *random) fill(m protoreflect.Message, depth int) {
	if r.json && r.wellKnown(m, depth) {
		return
	}
	for _, field := range allFields(m.Descriptor()) {
		// Deep messages get fewer fields; otherwise the nesting would never end.
		if composite := field.Message() != nil; !r.oneIn(2) || composite && depth > 0 && !r.oneIn(depth+2) {
			continue
		}
		switch {
		case field.IsMap():
			entries := m.Mutable(field).Map()
			for range r.intn(4) {
				entries.Set(r.scalar(field.MapKey()).MapKey(), r.mapValue(entries, field.MapValue(), depth+1))
			}
		case field.IsList():
			list := m.Mutable(field).List()
			for range r.intn(4) {
				if field.Message() == nil {
					list.Append(r.scalar(field))
					continue
				}
				element := list.NewElement()
				r.fill(element.Message(), depth+1)
				list.Append(element)
			}
		case field.Message() != nil:
			r.fill(m.Mutable(field).Message(), depth+1)
		default:
			m.Set(field, r.scalar(field))
		}
	}
	if !r.json && r.oneIn(3) {
		m.SetUnknown(join(varint(7000, r.number()), text(7002, r.text()), varint(7001, 0), group(7000, fixed32(1, 1))))
	}
}

func (r *random) mapValue(entries protoreflect.Map, field protoreflect.FieldDescriptor, depth int) protoreflect.Value {
	if field.Message() == nil {
		return r.scalar(field)
	}
	value := entries.NewValue()
	r.fill(value.Message(), depth)
	return value
}

// scalar returns a value for the field, with a raised probability for zero. It is never a NaN.
func (r *random) scalar(field protoreflect.FieldDescriptor) protoreflect.Value {
	number := r.number()
	if r.oneIn(5) {
		number = 0
	}
	switch field.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(number%2 == 1)
	case protoreflect.EnumKind:
		if r.json && field.Enum().FullName() == "google.protobuf.NullValue" {
			return protoreflect.ValueOfEnum(0)
		}
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(int32(number)%3 - 1))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(number))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(int64(number))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(number))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(number)
	case protoreflect.FloatKind:
		if r.json {
			return protoreflect.ValueOfFloat32(r.float())
		}
		return protoreflect.ValueOfFloat32(float32(math.Copysign(float64(uint16(number)), float64(r.intn(2))-0.5)))
	case protoreflect.DoubleKind:
		if r.json {
			return protoreflect.ValueOfFloat64(r.double())
		}
		return protoreflect.ValueOfFloat64(math.Copysign(float64(uint32(number)), float64(r.intn(2))-0.5))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(r.text())
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(r.text()))
	}
	panic(fmt.Sprintf("%s is not a scalar", field.FullName()))
}

// allFields returns the fields of a message and its extensions, in a stable order.
func allFields(descriptor protoreflect.MessageDescriptor) []protoreflect.FieldDescriptor {
	var fields []protoreflect.FieldDescriptor
	for i := range descriptor.Fields().Len() {
		fields = append(fields, descriptor.Fields().Get(i))
	}
	for number := protoreflect.FieldNumber(1); number <= 1000; number++ {
		extension, err := protoregistry.GlobalTypes.FindExtensionByNumber(descriptor.FullName(), number)
		if err == nil {
			fields = append(fields, extension.TypeDescriptor())
		}
	}
	return fields
}
