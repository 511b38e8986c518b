package main

import (
	"sort"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// stream is a sequence of records whose order matters. Records of different streams can be mixed in any way.
type stream [][]byte

// encode returns one of the many equivalent encodings of a message, picked at random, as records with a tag and a
// value. It shuffles fields, splits messages and lists into pieces, adds values that later ones replace, and pads
// varints.
func (r *random) encode(m protoreflect.Message) [][]byte {
	streams := []stream{unknownFields(m)}
	for _, field := range allFields(m.Descriptor()) {
		oneof := field.ContainingOneof()
		switch {
		case oneof != nil && !oneof.IsSynthetic():
			if m.WhichOneof(oneof) == field {
				streams = append(streams, r.oneof(m, oneof, field))
			}
		case field.IsMap():
			streams = append(streams, r.mapField(m, field)...)
		case field.IsList():
			streams = append(streams, r.list(m, field))
		case m.Has(field):
			streams = append(streams, r.singular(field, m.Get(field)))
		case !field.HasPresence() && r.oneIn(3):
			streams = append(streams, r.singular(field, field.Default()))
		}
	}
	return r.mix(streams)
}

// mix merges streams into one and keeps the order within each.
func (r *random) mix(streams []stream) [][]byte {
	var turns []int
	for i, records := range streams {
		for range records {
			turns = append(turns, i)
		}
	}
	r.shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	var mixed [][]byte
	for _, i := range turns {
		mixed = append(mixed, streams[i][0])
		streams[i] = streams[i][1:]
	}
	return mixed
}

func unknownFields(m protoreflect.Message) stream {
	var records stream
	for b := []byte(m.GetUnknown()); len(b) > 0; {
		_, _, n := protowire.ConsumeField(b)
		records = append(records, b[:n])
		b = b[n:]
	}
	return records
}

// singular returns a field, perhaps after values that it replaces, or a message in pieces.
func (r *random) singular(field protoreflect.FieldDescriptor, value protoreflect.Value) stream {
	if field.Message() != nil {
		return r.pieces(field, value.Message())
	}
	var records stream
	for r.oneIn(4) {
		records = append(records, r.record(field, r.scalar(field)))
	}
	return append(records, r.record(field, value))
}

// pieces returns a message in one or more pieces, which a reader merges.
func (r *random) pieces(field protoreflect.FieldDescriptor, m protoreflect.Message) stream {
	records := r.encode(m)
	var pieces stream
	for r.oneIn(3) {
		cut := r.intn(len(records) + 1)
		pieces = append(pieces, r.wrap(field, join(records[:cut]...)))
		records = records[cut:]
	}
	return append(pieces, r.wrap(field, join(records...)))
}

// oneof returns the set member of a oneof, after other members that it replaces.
func (r *random) oneof(m protoreflect.Message, oneof protoreflect.OneofDescriptor, set protoreflect.FieldDescriptor) stream {
	var records stream
	for i := range oneof.Fields().Len() {
		other := oneof.Fields().Get(i)
		switch {
		case other == set || !r.oneIn(3):
		case other.Message() != nil:
			replaced := m.NewField(other).Message()
			r.fill(replaced, 4)
			records = append(records, r.pieces(other, replaced)...)
		default:
			records = append(records, r.record(other, r.scalar(other)))
		}
	}
	return append(records, r.singular(set, m.Get(set))...)
}

// list returns a list in chunks, some packed and some not, regardless of the schema.
func (r *random) list(m protoreflect.Message, field protoreflect.FieldDescriptor) stream {
	var records stream
	list := m.Get(field).List()
	packable := field.Message() == nil && wireTypeOf(field) != protowire.BytesType
	for i := 0; i < list.Len(); {
		switch {
		case packable && r.oneIn(2):
			var chunk []byte
			for range r.intn(list.Len() - i + 1) {
				chunk = join(chunk, r.value(field, list.Get(i)))
				i++
			}
			records = append(records, r.delimited(field, chunk))
		case field.Message() != nil:
			records = append(records, r.wrap(field, join(r.encode(list.Get(i).Message())...)))
			i++
		default:
			records = append(records, r.record(field, list.Get(i)))
			i++
		}
	}
	return records
}

// mapField returns a stream for each key: entries that are replaced, and then the one that remains.
func (r *random) mapField(m protoreflect.Message, field protoreflect.FieldDescriptor) []stream {
	entries := m.Get(field).Map()
	var keys []protoreflect.MapKey
	entries.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, key)
		return true
	})
	// Sorted: Go iterates over maps in random order, but the vectors must be stable.
	sort.Slice(keys, func(i, j int) bool { return keys[i].String() < keys[j].String() })

	var streams []stream
	for _, key := range keys {
		var records stream
		for r.oneIn(4) {
			replaced := r.mapValue(m.NewField(field).Map(), field.MapValue(), 4)
			records = append(records, r.entry(field, key, replaced))
		}
		streams = append(streams, append(records, r.entry(field, key, entries.Get(key))))
	}
	return streams
}

func (r *random) entry(field protoreflect.FieldDescriptor, key protoreflect.MapKey, value protoreflect.Value) []byte {
	var unknown stream
	if r.oneIn(5) {
		unknown = stream{varint(3, r.number())}
	}
	keys, values := r.singular(field.MapKey(), key.Value()), r.singular(field.MapValue(), value)
	if isDefault(field.MapKey(), key.Value()) && r.oneIn(2) {
		keys = nil
	}
	if isDefault(field.MapValue(), value) && r.oneIn(2) {
		values = nil
	}
	return r.wrap(field, join(r.mix([]stream{keys, values, unknown})...))
}

// wrap returns a message field with this content.
func (r *random) wrap(field protoreflect.FieldDescriptor, content []byte) []byte {
	if field.Kind() == protoreflect.GroupKind {
		return join(r.tag(field.Number(), protowire.StartGroupType), content, r.tag(field.Number(), protowire.EndGroupType))
	}
	return r.delimited(field, content)
}

func (r *random) delimited(field protoreflect.FieldDescriptor, content []byte) []byte {
	return join(r.tag(field.Number(), protowire.BytesType), r.length(content))
}

// record returns a scalar field.
func (r *random) record(field protoreflect.FieldDescriptor, value protoreflect.Value) []byte {
	return join(r.tag(field.Number(), wireTypeOf(field)), r.value(field, value))
}

func (r *random) tag(number protowire.Number, wireType protowire.Type) []byte {
	return r.varint(protowire.EncodeTag(number, wireType))
}

func (r *random) length(content []byte) []byte {
	return join(r.varint(uint64(len(content))), content)
}
