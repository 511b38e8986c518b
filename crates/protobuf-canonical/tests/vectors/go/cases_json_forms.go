package main

// forms adds the well-known types.
func (s *jsonSuite) forms() {
	s.timestamps()
	s.durations()
	s.fieldMasks()
	s.structs()
	s.wrappers()
	s.anys()
	s.same("empty/empty", "WellKnown", in("empty", `{}`, ` { } `)...)
	s.refused("empty/fields", "WellKnown", in("empty", `{"a":1}`, `{"":null}`, `{"@type":""}`, `[]`, `""`, `0`, `true`)...)
}

func (s *jsonSuite) timestamps() {
	s.same("timestamps/some", "WellKnown", in("timestamp", `"2023-11-14T22:13:20Z"`, `"2023-11-14T22:13:20.0Z"`, `"2023-11-14T22:13:20.000000000Z"`,
		`"2023-11-15T00:13:20+02:00"`, `"2023-11-14T16:43:20-05:30"`, `"2023-11-14T22:13:20+00:00"`, `"2023-11-14T22:13:20-00:00"`,
		`"2023-11-15T22:12:20+23:59"`, `"2023-11-14\u005422:13:20\u005a"`)...)
	s.same("timestamps/fraction", "WellKnown", in("timestamp", `"2023-11-14T22:13:20.5Z"`, `"2023-11-14T22:13:20.50Z"`, `"2023-11-14T22:13:20.500Z"`,
		`"2023-11-14T22:13:20.5000Z"`, `"2023-11-14T22:13:20.500000Z"`, `"2023-11-14T22:13:20.50000000Z"`, `"2023-11-14T23:13:20.500000000+01:00"`)...)
	s.same("timestamps/nanosecond", "WellKnown", in("timestamp", `"2023-11-14T22:13:20.000000001Z"`)...)
	s.same("timestamps/before-1970", "WellKnown", in("timestamp", `"1969-12-31T23:59:59.999999999Z"`, `"1970-01-01T00:59:59.999999999+01:00"`)...)
	s.same("timestamps/epoch", "WellKnown", in("timestamp", `"1970-01-01T00:00:00Z"`, `"1969-12-31T12:00:00-12:00"`)...)
	s.same("timestamps/first", "WellKnown", in("timestamp", `"0001-01-01T00:00:00Z"`, `"0000-12-31T23:00:00-01:00"`, `"0001-01-01T01:00:00+01:00"`)...)
	s.same("timestamps/last", "WellKnown", in("timestamp", `"9999-12-31T23:59:59.999999999Z"`, `"9999-12-31T22:59:59.999999999-01:00"`)...)
	s.same("timestamps/leap-days", "Forms", `{"timestamps":["2000-02-29T00:00:00Z","2024-02-29T23:59:59Z","0004-02-29T00:00:00Z","1900-02-28T00:00:00Z","1999-12-31T00:00:00Z"]}`)
	s.refused("timestamps/no-leap-days", "WellKnown", in("timestamp", `"2023-02-29T00:00:00Z"`, `"1900-02-29T00:00:00Z"`, `"2023-02-30T00:00:00Z"`, `"2023-04-31T00:00:00Z"`)...)
	s.refused("timestamps/out-of-range", "WellKnown", in("timestamp", `"0000-12-31T23:59:59Z"`, `"0000-01-01T00:00:00Z"`, `"0001-01-01T00:59:59+01:00"`,
		`"9999-12-31T23:59:59-00:01"`, `"10000-01-01T00:00:00Z"`, `"-0001-01-01T00:00:00Z"`, `"+2023-11-14T22:13:20Z"`)...)
	s.refused("timestamps/parts", "WellKnown", in("timestamp", `"2023-00-14T22:13:20Z"`, `"2023-13-14T22:13:20Z"`, `"2023-11-00T22:13:20Z"`, `"2023-11-14T24:00:00Z"`,
		`"2023-11-14T22:60:20Z"`, `"2023-11-14T22:13:60Z"`, `"2016-12-31T23:59:60Z"`, `"2023-11-14T22:13:61Z"`, `"2023-11-14T22:13:20+25:00"`, `"2023-11-14T22:13:20+01:61"`)...)
	s.refused("timestamps/spellings", "WellKnown", in("timestamp", `""`, `"2023-11-14"`, `"2023-11-14T22:13:20"`, `"2023-11-14T22:13Z"`, `"2023-11-14t22:13:20Z"`,
		`"2023-11-14T22:13:20z"`, `"2023-11-14 22:13:20Z"`, `"2023-11-14T22:13:20.Z"`, `"2023-11-14T22:13:20,Z"`, `"2023-11-14T22:13:20.5"`,
		`"2023-11-14T22:13:20.1234567890Z"`, `"2023-11-14T22:13:20.0000000000Z"`, `"2023-11-14T22:13:20+0200"`, `"2023-11-14T22:13:20+02"`,
		`"2023-11-14T22:13:20+2:00"`, `"2023-11-14T22:13:20 +02:00"`, `"2023-11-14T22:13:20Z+02:00"`, `"2023-11-14T22:13:20+02:00:00"`, `" 2023-11-14T22:13:20Z"`,
		`"2023-11-14T22:13:20Z "`, `"2023-11-14T22:13:20 Z"`, `"23-11-14T22:13:20Z"`, `"2023-1-14T22:13:20Z"`, `"2023-11-1T22:13:20Z"`, `"2023-11-14T22:1:20Z"`,
		`"2023-11-14T22:13:2Z"`, `"2023-11-14T22:13:20.5ZZ"`, `"20231114T221320Z"`, `"2023-11-14T22:13:20.5.5Z"`, `"2023-11-14T22:13:20−02:00"`, `"٢٠٢٣-11-14T22:13:20Z"`,
		`"2023-11-14T22:13:20.-5Z"`, `"2023-11-14T22:13:20."`, `"2023-11-14T+2:13:20Z"`, `"2023-11-14T22:13:20é02:00"`, `"now"`, `1700000000`, `null0`, `{}`, `{"seconds":1}`, `[]`, `true`)...)
	s.same("timestamps/a-comma", "WellKnown", in("timestamp", `"2023-11-14T22:13:20,5Z"`, `"2023-11-14T22:13:20,500000000+00:00"`)...)
	s.same("timestamps/an-hour-of-one-digit", "WellKnown", in("timestamp", `"2023-11-14T02:13:20Z"`, `"2023-11-14T2:13:20Z"`, `"2023-11-14T3:13:20.000+01:00"`)...)
	s.same("timestamps/offsets-that-no-clock-has", "WellKnown", in("timestamp", `"2023-11-14T00:00:00Z"`, `"2023-11-15T00:00:00+24:00"`, `"2023-11-14T02:00:00+01:60"`, `"2023-11-12T23:00:00-24:60"`)...)
	s.same("timestamps/more-than-nanoseconds-behind-a-comma", "WellKnown", in("timestamp", `"2023-11-14T22:13:20,1234567899Z"`)...)
}

func (s *jsonSuite) durations() {
	s.same("durations/some", "WellKnown", in("duration", `"1.5s"`, `"1.50s"`, `"1.500s"`, `"1.500000s"`, `"1.500000000s"`, `"+1.5s"`, `"\u0031.5s"`)...)
	s.same("durations/whole", "WellKnown", in("duration", `"3s"`, `"3.s"`, `"3.0s"`, `"+3s"`, `"3.000000000s"`)...)
	s.same("durations/fraction", "WellKnown", in("duration", `"0.5s"`, `".5s"`, `"+.5s"`, `"0.500s"`)...)
	s.same("durations/minus-fraction", "WellKnown", in("duration", `"-0.5s"`, `"-.5s"`, `"-0.500s"`)...)
	s.same("durations/minus", "WellKnown", in("duration", `"-1.000000001s"`)...)
	s.same("durations/nanosecond", "WellKnown", in("duration", `"0.000000001s"`, `".000000001s"`)...)
	s.same("durations/zero", "WellKnown", in("duration", `"0s"`, `"-0s"`, `"+0s"`, `"0.s"`, `".s"`, `"-.s"`, `"0.000000000s"`)...)
	s.same("durations/most", "WellKnown", in("duration", `"315576000000s"`, `"+315576000000.0s"`)...)
	s.same("durations/most-and-a-fraction", "WellKnown", in("duration", `"315576000000.999999999s"`)...)
	s.same("durations/least", "WellKnown", in("duration", `"-315576000000.999999999s"`)...)
	s.refused("durations/out-of-range", "WellKnown", in("duration", `"315576000001s"`, `"-315576000001s"`, `"9223372036854775808s"`, `"99999999999999999999999s"`, `"-9223372036854775808s"`)...)
	s.refused("durations/spellings", "WellKnown", in("duration", `""`, `"s"`, `"-s"`, `"+s"`, `"1"`, `"1.5"`, `"1S"`, `"1ms"`, `"1m"`, `"1 s"`, `" 1s"`, `"1s "`, `"--1s"`, `"+-1s"`, `"-+1s"`,
		`"01s"`, `"00s"`, `"1e3s"`, `"1.5e1s"`, `"0x1s"`, `"1,5s"`, `"1.1.1s"`, `"1.-5s"`, `"1.0000000000s"`, `"1.1234567891s"`, `"1s1s"`, `"PT1S"`, `"1h0s"`, `"Infinitys"`, `"NaNs"`,
		`"١s"`, `"é"`, `"1és"`, `1`, `1.5`, `{}`, `{"seconds":1}`, `[]`, `true`)...)
}

func (s *jsonSuite) fieldMasks() {
	s.same("field-masks/some", "WellKnown", in("fieldMask", `"a,fooBar.bazQux"`, `" a,fooBar.bazQux "`, `"\ta,fooBar.bazQux\n"`, `"\u00a0a,fooBar.bazQux\u2003"`)...)
	s.same("field-masks/none", "WellKnown", in("fieldMask", `""`, `" "`, `"\n\t"`)...)
	s.same("field-masks/capitals", "WellKnown", in("fieldMask", `"Foo,fooBAR,A.B,aB1c"`)...)
	s.same("field-masks/order-and-repetition", "WellKnown", in("fieldMask", `"b,a,b"`)...)
	s.same("field-masks/digits", "WellKnown", in("fieldMask", `"a1.b2C"`)...)
	s.refused("field-masks/paths", "WellKnown", in("fieldMask", `"a,"`, `",a"`, `","`, `"a,,b"`, `"a, b"`, `"a ,b"`, `"foo_bar"`, `"_a"`, `"a."`, `".a"`, `"a..b"`, `"1a"`, `"a.1b"`, `"a-b"`, `"a*"`,
		`"*"`, `"é"`, `"a/b"`, `"map[1]"`, `"a\u0000"`)...)
	s.refused("field-masks/no-string", "WellKnown", in("fieldMask", `1`, `[]`, `["a"]`, `{}`, `{"paths":["a"]}`, `true`)...)
}

func (s *jsonSuite) structs() {
	s.same("structs/struct", "WellKnown", in("struct", `{"a":null,"b":1.5,"c":"x","d":true,"e":{"f":[]},"g":[1,null,{}]}`,
		` { "g" : [ 1.0 , null , { } ] , "e":{"f":[]},"\u0063":"\u0078","d":true,"b":15e-1,"a":null}`)...)
	s.same("structs/empty", "WellKnown", in("struct", `{}`)...)
	s.same("structs/empty-key", "WellKnown", in("struct", `{"":""}`)...)
	s.same("structs/at-type", "WellKnown", in("struct", `{"@type":"x","value":1}`)...)
	s.refused("structs/twice", "WellKnown", in("struct", `{"a":1,"a":1}`, `{"a":1,"\u0061":2}`, `{"a":{"b":1,"b":2}}`, `{"a":[{"b":1,"b":2}]}`)...)
	s.refused("structs/no-struct", "WellKnown", in("struct", `[]`, `1`, `""`, `true`, `{"a":}`, `{"a":NaN}`, `{"a":1e400}`, `{"a":01}`, `{"a":+1}`, `{"a":1.}`, `{"fields":}`)...)
	s.same("values/numbers", "WellKnown", in("value", `1`, `1.0`, `10e-1`, ` 1 `)...)
	s.same("values/zero", "WellKnown", in("value", `0`, `0.0`, `1e-400`, `0e400`)...)
	s.same("values/minus-zero", "WellKnown", in("value", `-0`, `-0.0`, `-1e-400`)...)
	s.same("values/large", "WellKnown", in("value", `9007199254740992`, `9007199254740993`)...)
	s.same("values/beyond-64-bits", "WellKnown", in("value", `18446744073709551616`, `18446744073709551617`, `1.8446744073709551616e19`)...)
	s.same("values/signed-64-bits", "WellKnown", in("value", `-9223372036854775808`, `-9223372036854775809`, `-9223372036854775807`)...)
	s.same("values/rounded", "WellKnown", in("value", `51.2481783755054`, `512481783755054e-13`)...)
	s.same("values/least", "WellKnown", in("value", `5e-324`, `4.9406564584124654e-324`)...)
	s.refused("values/too-large", "WellKnown", in("value", `1e309`, `-1e309`, `1e999999999`, `NaN`, `Infinity`, `1e`)...)
	s.same("values/strings-that-look-like-more", "Forms", `{"values":["1","NaN","null","true","Infinity",""]}`)
	s.same("values/bools", "Forms", `{"values":[true,false]}`)
	s.same("values/lists", "WellKnown", in("listValue", `[1,"a",null,[],{},[[true]]]`, `[1.0,"\u0061",null,[ ],{ },[[true]]]`)...)
	s.same("values/list-in-a-value", "WellKnown", in("value", `[]`, `[ ]`)...)
	s.same("values/struct-in-a-value", "WellKnown", in("value", `{}`, `{ }`)...)
	s.same("values/map", "WellKnown", in("values", `{"a":1,"b":[]}`, `{"b":[],"a":1.0}`)...)
	s.refused("values/no-list", "WellKnown", in("listValue", `{}`, `1`, `""`, `true`, `[1,]`, `[1 2]`, `[,]`)...)
	s.refused("values/no-json", "WellKnown", in("value", ``, `a`, `'a'`, `"\ud800"`, "\"\xff\"", `[`, `]`, `01`, `.5`, `+1`, `- 1`)...)
	s.same("values/in-a-oneof", "Forms", `{"choiceValue":{"a":1}}`)
	s.same("values/lists-in-maps", "Forms", `{"listsByName":{"a":[1]},"lists":[[],[null]],"structs":[{},{"a":null}]}`)
}

func (s *jsonSuite) wrappers() {
	s.same("wrappers/double", "WellKnown", in("doubleValue", `1.5`, `"1.5"`, `15e-1`)...)
	s.same("wrappers/minus-zero", "WellKnown", in("doubleValue", `-0`, `"-0.0"`)...)
	s.same("wrappers/float", "WellKnown", in("floatValue", `0.1`, `"0.1"`)...)
	s.same("wrappers/infinity", "WellKnown", in("floatValue", `"-Infinity"`)...)
	s.same("wrappers/int64", "WellKnown", in("int64Value", `"9007199254740993"`, `9007199254740993`)...)
	s.same("wrappers/uint64", "WellKnown", in("uint64Value", `"18446744073709551615"`, `18446744073709551615`)...)
	s.same("wrappers/int32", "WellKnown", in("int32Value", `-1`, `"-1"`, `-1.0`)...)
	s.same("wrappers/zeros", "WellKnown", `{"int64Value":0,"doubleValue":0,"boolValue":false,"stringValue":"","bytesValue":"","uint32Value":0}`,
		`{"int64Value":"0","doubleValue":"0","boolValue":false,"stringValue":"","bytesValue":"\n","uint32Value":-0}`)
	s.same("wrappers/string", "WellKnown", in("stringValue", `"a"`, `"\u0061"`)...)
	s.same("wrappers/bytes", "WellKnown", in("bytesValue", `"+/8="`, `"-_8"`)...)
	s.refused("wrappers/objects", "WellKnown", `{"int64Value":{"value":1}}`, `{"stringValue":{"value":"a"}}`, `{"boolValue":{}}`, `{"int32Value":[1]}`)
	s.refused("wrappers/values", "WellKnown", `{"int64Value":true}`, `{"stringValue":1}`, `{"boolValue":"true"}`, `{"int32Value":2147483648}`, `{"uint32Value":-1}`, `{"bytesValue":"!"}`, `{"floatValue":1e39}`)
	s.same("wrappers/lists-and-maps", "Forms", `{"strings":["","a"],"numbersByName":{"a":"1","b":0}}`, `{"numbersByName":{"b":"0","a":1},"strings":["","\u0061"]}`)
}

func (s *jsonSuite) anys() {
	const scalars = `"@type":"type.googleapis.com/vectors.v1.Scalars"`
	s.same("anys/message", "WellKnown", in("any", `{`+scalars+`,"fInt32":1,"fString":"x"}`, `{"fString":"x",`+scalars+`,"f_int32":"1"}`,
		`{"fInt32":1.0,"fString":"\u0078","\u0040type":"type.googleapis.com\/vectors.v1.Scalars"}`)...)
	s.same("anys/without-fields", "WellKnown", in("any", `{`+scalars+`}`, `{`+scalars+`,"fInt32":0,"fBool":null}`)...)
	s.same("anys/none", "WellKnown", in("any", `{}`, ` { } `)...)
	s.same("anys/another-authority", "WellKnown", in("any", `{"@type":"x/y/vectors.v1.Scalars","fInt32":1}`)...)
	s.same("anys/only-a-slash", "WellKnown", in("any", `{"@type":"/vectors.v1.Scalars","fInt32":1}`)...)
	s.same("anys/no-slash", "WellKnown", in("any", `{"@type":"vectors.v1.Scalars","fInt32":1}`, `{"fInt32":1,"@type":"vectors.v1.Scalars"}`)...)
	s.same("anys/of-a-form-without-slash", "WellKnown", in("any", `{"@type":"google.protobuf.Duration","value":"1s"}`)...)
	s.same("anys/field-called-value", "WellKnown", in("any", `{"@type":"a/vectors.v1.Names","value":"x"}`, `{"value":"x","@type":"a/vectors.v1.Names"}`)...)
	s.same("anys/field-called-type", "WellKnown", in("any", `{"@type":"a/vectors.v1.Names","type":"x"}`)...)
	s.same("anys/map-in-it-is-sorted", "WellKnown", in("any", `{"@type":"a/vectors.v1.MapKeys","fString":{"a":"1","b":"2"}}`, `{"fString":{"b":"2","a":"1"},"@type":"a/vectors.v1.MapKeys"}`)...)
	s.same("anys/extensions", "WellKnown", in("any", `{"@type":"a/vectors.v1.Extendable","ten":1,"[vectors.v1.ext_int32]":1}`)...)
	s.same("anys/required-missing", "WellKnown", in("any", `{"@type":"a/vectors.v1.LegacyRequired"}`)...)
	s.same("anys/list", "WellKnown", in("anys", `[{`+scalars+`},{},{"@type":"a/vectors.v1.Node","value":1}]`)...)
	s.same("anys/in-a-map", "Forms", `{"anysByName":{"a":{`+scalars+`,"fInt32":1}}}`)
	s.same("anys/in-a-oneof", "Forms", `{"choiceAny":{}}`, `{"choice_any":{},"choiceNumber":null}`)
	s.same("anys/in-an-any", "WellKnown", in("any", `{"@type":"a/google.protobuf.Any","value":{`+scalars+`,"fInt32":1}}`, `{"value":{"fInt32":"1",`+scalars+`},"@type":"a/google.protobuf.Any"}`)...)
	s.same("anys/in-a-message-in-an-any", "WellKnown", in("any", `{"@type":"a/vectors.v1.WellKnown","any":{`+scalars+`,"fInt32":1}}`)...)
	s.same("anys/none-in-an-any", "WellKnown", in("any", `{"@type":"a/google.protobuf.Any","value":{}}`)...)
	for _, form := range []struct{ name, values string }{
		{"Timestamp", `"1970-01-01T00:00:01Z"`}, {"Duration", `"1s"`}, {"FieldMask", `"a,bC"`}, {"Struct", `{"a":1}`}, {"Value", `null`}, {"ListValue", `[1]`},
		{"Int64Value", `"1"`}, {"StringValue", `"x"`}, {"BytesValue", `"eA"`}, {"BoolValue", `false`}, {"Empty", `{}`},
	} {
		s.same("anys/of-"+form.name, "WellKnown", in("any", `{"@type":"a/google.protobuf.`+form.name+`","value":`+form.values+`}`,
			`{"value":`+form.values+`,"@type":"a/google.protobuf.`+form.name+`"}`)...)
	}
	s.same("anys/of-nothing-without-value", "WellKnown", in("any", `{"@type":"a/google.protobuf.Empty"}`)...)
	s.refused("anys/values", "WellKnown", in("any", `{"@type":"a/google.protobuf.Duration"}`, `{"@type":"a/google.protobuf.Duration","value":null}`, `{"@type":"a/google.protobuf.Value"}`,
		`{"@type":"a/google.protobuf.Duration","value":"1s","value":"1s"}`, `{"@type":"a/google.protobuf.Duration","value":"1s","other":1}`,
		`{"@type":"a/google.protobuf.Duration","seconds":1}`, `{"@type":"a/google.protobuf.Struct","a":1}`, `{"@type":"a/google.protobuf.Any"}`,
		`{"@type":"a/google.protobuf.Any","value":null}`, `{"@type":"a/google.protobuf.Empty","value":null}`, `{"@type":"a/google.protobuf.Empty","value":{"a":1}}`,
		`{"@type":"a/google.protobuf.Empty","a":1}`, `{"@type":"a/google.protobuf.Empty","value":{},"value":{}}`)...)
	s.refused("anys/types", "WellKnown", in("any", `{"@type":""}`, `{"@type":null}`, `{"@type":1}`, `{"@type":"a/nobody"}`, `{"@type":"nobody"}`, `{"@type":"a/"}`, `{"@type":"a/vectors.v1"}`,
		`{"@type":"a/vectors.v1.Mood"}`, `{"@type":"a/vectors.v1.Scalars/"}`, `{"@type":"a/.vectors.v1.Scalars"}`, `{"@type":"a/vectors.v1.Scalars "}`, `{"@type":["a/vectors.v1.Scalars"]}`,
		`{"fInt32":1}`, `{"type":"a/vectors.v1.Scalars"}`, `{"typeUrl":"a/vectors.v1.Scalars","value":""}`, `{"value":"1s"}`,
		`{"@type":"","@type":"a/vectors.v1.Scalars"}`)...)
	s.refused("anys/members", "WellKnown", in("any", `{`+scalars+`,`+scalars+`}`, `{`+scalars+`,"nobody":1}`, `{`+scalars+`,"fInt32":1,"fInt32":1}`, `{`+scalars+`,"fInt32":"x"}`,
		`{`+scalars+`,"value":{"fInt32":1}}`, `[]`, `1`, `"a"`, `[{`+scalars+`}]`, `{"@type":"a/vectors.v1.Node","child":{"@type":"a/vectors.v1.Node"}}`)...)
}
