package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// random adds messages with pseudo-random content, as protojson writes them.
func (s *jsonSuite) random(names ...string) {
	for i, name := range names {
		for j := range 8 {
			r := newRandom(uint64(100_000 + 1000*i + j))
			r.json = true
			messageType, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(packageName + name))
			if err != nil {
				panic(err)
			}
			message := messageType.New()
			r.fill(message, 0)
			texts := []string{writeJSON(message, protojson.MarshalOptions{})}
			if j%2 == 0 {
				texts = append(texts, writeJSON(message, protojson.MarshalOptions{UseProtoNames: true, UseEnumNumbers: true}))
			}
			if j == 0 {
				// protojson writes null for an unset Value, and reads it as a Value that is set.
				s.same(fmt.Sprintf("random/%s/unpopulated", name), name,
					writeJSON(message, protojson.MarshalOptions{EmitUnpopulated: true, Indent: " "}))
			}
			s.same(fmt.Sprintf("random/%s/%d", name, j+1), name, texts...)
		}
	}
}

// writeJSON returns the output of protojson without its random spaces, and checks that protojson can read it.
func writeJSON(message protoreflect.Message, options protojson.MarshalOptions) string {
	options.AllowPartial = true
	text, err := options.Marshal(message.Interface())
	if err != nil {
		panic(fmt.Sprintf("%s: %v", message.Descriptor().FullName(), err))
	}
	var compact, indented bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		panic(err)
	}
	again := message.New().Interface()
	err = protojson.UnmarshalOptions{AllowPartial: true}.Unmarshal(compact.Bytes(), again)
	if err != nil || !options.EmitUnpopulated && !proto.Equal(again, message.Interface()) {
		panic(fmt.Sprintf("%s does not read back as the same message (%v)", compact.Bytes(), err))
	}
	if options.Indent == "" {
		return compact.String()
	}
	if err := json.Indent(&indented, compact.Bytes(), "", options.Indent); err != nil {
		panic(err)
	}
	return indented.String()
}

// wellKnown fills a message of a well-known type with content that its JSON form can represent; false for other
// messages.
func (r *random) wellKnown(m protoreflect.Message, depth int) bool {
	var value proto.Message
	switch m.Interface().(type) {
	case *timestamppb.Timestamp:
		value = &timestamppb.Timestamp{Seconds: int64(r.next()%315537897600) - 62135596800, Nanos: r.nanos()}
	case *durationpb.Duration:
		sign := int64(1 - 2*r.intn(2))
		value = &durationpb.Duration{Seconds: sign * int64(r.number()%315576000001), Nanos: int32(sign) * r.nanos()}
	case *fieldmaskpb.FieldMask:
		mask := new(fieldmaskpb.FieldMask)
		for range r.intn(3) {
			mask.Paths = append(mask.Paths, []string{"a", "foo_bar.baz", "b.c_d_e", "_f"}[r.intn(4)])
		}
		value = mask
	case *structpb.Value:
		value = r.anything(depth)
	case *anypb.Any:
		name := []protoreflect.FullName{"vectors.v1.Node", "vectors.v1.Scalars", "google.protobuf.Duration", "google.protobuf.Empty"}[r.intn(4)]
		messageType, err := protoregistry.GlobalTypes.FindMessageByName(name)
		if err != nil {
			panic(err)
		}
		inner := messageType.New()
		r.fill(inner, depth+3)
		content, err := canonicalOf(inner.Interface())
		if err != nil {
			panic(err)
		}
		value = &anypb.Any{TypeUrl: "type.googleapis.com/" + string(name), Value: content}
	default:
		return false
	}
	proto.Merge(m.Interface(), value)
	return true
}

func (r *random) nanos() int32 {
	unit := []int32{1_000_000_000, 1_000_000, 1_000, 1}[r.intn(4)]
	return int32(r.next()%1_000_000_000) / unit * unit
}

func (r *random) anything(depth int) *structpb.Value {
	switch kinds := 6; r.intn(kinds) {
	case 0:
		return structpb.NewNullValue()
	case 1:
		return structpb.NewBoolValue(r.oneIn(2))
	case 2:
		return structpb.NewStringValue(r.text())
	case 3:
		list := new(structpb.ListValue)
		for range r.intn(3) / depth {
			list.Values = append(list.Values, r.anything(depth+1))
		}
		return structpb.NewListValue(list)
	default:
		return structpb.NewNumberValue(r.double())
	}
}

// double returns random bits that are a finite number.
func (r *random) double() float64 {
	for {
		if value := math.Float64frombits(r.next()); !math.IsNaN(value) && !math.IsInf(value, 0) {
			return value
		}
	}
}

// float returns random bits that are not a NaN.
func (r *random) float() float32 {
	for {
		if value := math.Float32frombits(uint32(r.next())); value == value {
			return value
		}
	}
}
