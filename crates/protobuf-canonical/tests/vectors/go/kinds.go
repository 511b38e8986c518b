package main

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// kind is a scalar kind, with its field number in the messages that hold one field of each kind.
type kind struct {
	name     string
	number   protowire.Number
	wireType protowire.Type
	zero     []byte   // the default value without its tag
	values   []sample // other values, the first of them ordinary
}

// sample is a value in canonical form, without its tag.
type sample struct {
	name  string
	value []byte
}

func (k kind) field(value []byte) []byte { return join(tag(k.number, k.wireType), value) }
func (k kind) some() []byte              { return k.values[0].value }
func (k kind) packable() bool            { return k.wireType != protowire.BytesType }

func negative(value int64) []byte     { return uvarint(uint64(value)) }
func zigzag(value int64) []byte       { return uvarint(protowire.EncodeZigZag(value)) }
func four(value uint32) []byte        { return protowire.AppendFixed32(nil, value) }
func eight(value uint64) []byte       { return protowire.AppendFixed64(nil, value) }
func float4(value float32) []byte     { return four(math.Float32bits(value)) }
func float8(value float64) []byte     { return eight(math.Float64bits(value)) }
func delimited(value string) []byte   { return protowire.AppendString(nil, value) }
func float4bits(bits uint32) []byte   { return four(bits) }
func float8bits(bits uint64) []byte   { return eight(bits) }
func named(n string, v []byte) sample { return sample{n, v} }

var kinds = []kind{
	{"double", 1, protowire.Fixed64Type, float8(0), []sample{
		named("some", float8(1.25)),
		named("negative", float8(-1.25)),
		named("min", float8(-math.MaxFloat64)),
		named("max", float8(math.MaxFloat64)),
		named("smallest", float8(math.SmallestNonzeroFloat64)),
		named("negative-zero", float8bits(1<<63)),
		named("infinity", float8(math.Inf(1))),
		named("negative-infinity", float8(math.Inf(-1))),
		named("nan", float8bits(0x7ff8000000000000)),
		named("nan-negative", float8bits(0xfff8000000000000)),
		named("nan-with-payload", float8bits(0x7ff80000deadbeef)),
		named("nan-signaling", float8bits(0x7ff0000000000001)),
		named("nan-signaling-negative", float8bits(0xfff4000000000001)),
	}},
	{"float", 2, protowire.Fixed32Type, float4(0), []sample{
		named("some", float4(2.5)),
		named("negative", float4(-2.5)),
		named("min", float4(-math.MaxFloat32)),
		named("max", float4(math.MaxFloat32)),
		named("smallest", float4(math.SmallestNonzeroFloat32)),
		named("negative-zero", float4bits(1<<31)),
		named("infinity", float4bits(0x7f800000)),
		named("negative-infinity", float4bits(0xff800000)),
		named("nan", float4bits(0x7fc00000)),
		named("nan-negative", float4bits(0xffc00000)),
		named("nan-with-payload", float4bits(0x7fc0beef)),
		// floats has the vectors for signaling NaNs of this kind.
	}},
	{"int32", 3, protowire.VarintType, uvarint(0), []sample{
		named("some", uvarint(300)),
		named("negative", negative(-1)),
		named("min", negative(math.MinInt32)),
		named("max", uvarint(math.MaxInt32)),
	}},
	{"int64", 4, protowire.VarintType, uvarint(0), []sample{
		named("some", uvarint(1<<33)),
		named("negative", negative(-1)),
		named("min", negative(math.MinInt64)),
		named("max", uvarint(math.MaxInt64)),
	}},
	{"uint32", 5, protowire.VarintType, uvarint(0), []sample{
		named("some", uvarint(127)),
		named("two-bytes", uvarint(128)),
		named("max", uvarint(math.MaxUint32)),
	}},
	{"uint64", 6, protowire.VarintType, uvarint(0), []sample{
		named("some", uvarint(1<<40)),
		named("max", uvarint(math.MaxUint64)),
	}},
	{"sint32", 7, protowire.VarintType, uvarint(0), []sample{
		named("some", zigzag(64)),
		named("negative", zigzag(-1)),
		named("min", zigzag(math.MinInt32)),
		named("max", zigzag(math.MaxInt32)),
	}},
	{"sint64", 8, protowire.VarintType, uvarint(0), []sample{
		named("some", zigzag(1<<34)),
		named("negative", zigzag(-1)),
		named("min", zigzag(math.MinInt64)),
		named("max", zigzag(math.MaxInt64)),
	}},
	{"fixed32", 9, protowire.Fixed32Type, four(0), []sample{
		named("some", four(9)),
		named("max", four(math.MaxUint32)),
	}},
	{"fixed64", 10, protowire.Fixed64Type, eight(0), []sample{
		named("some", eight(10)),
		named("max", eight(math.MaxUint64)),
	}},
	{"sfixed32", 11, protowire.Fixed32Type, four(0), []sample{
		named("some", four(11)),
		named("negative", four(math.MaxUint32)),
		named("min", four(1<<31)),
		named("max", four(math.MaxInt32)),
	}},
	{"sfixed64", 12, protowire.Fixed64Type, eight(0), []sample{
		named("some", eight(12)),
		named("negative", eight(math.MaxUint64)),
		named("min", eight(1<<63)),
		named("max", eight(math.MaxInt64)),
	}},
	{"bool", 13, protowire.VarintType, uvarint(0), []sample{
		named("true", uvarint(1)),
	}},
	{"string", 14, protowire.BytesType, delimited(""), []sample{
		named("some", delimited("text")),
		named("beyond-ascii", delimited("é€😀\u200b\ufeff\x00\uffff\U0010ffff")),
		named("not-normalized", delimited("e\u0301")),
	}},
	{"bytes", 15, protowire.BytesType, delimited(""), []sample{
		named("some", delimited("bytes")),
		named("not-utf8", delimited("\xff\xfe\x00\xc0\x80")),
	}},
	{"enum", 16, protowire.VarintType, uvarint(0), []sample{
		named("some", uvarint(2)),
		named("negative", negative(-1)),
		named("min", negative(math.MinInt32)),
		named("max", uvarint(math.MaxInt32)),
		named("unknown", uvarint(77)),
		named("unknown-negative", negative(-77)),
	}},
}

// kindNamed looks a kind up in the table.
func kindNamed(name string) kind {
	for _, k := range kinds {
		if k.name == name {
			return k
		}
	}
	panic("no kind " + name)
}
