package main

// fields adds the names of fields, duplicate fields, and the meanings of null.
func (s *jsonSuite) fields() {
	s.same("names/both", "Names", `{"plainName":"x"}`, `{"plain_name":"x"}`)
	s.same("names/another", "Names", `{"anotherName":"x"}`, `{"renamed":"x"}`)
	s.same("names/double-underscore", "Names", `{"doubleUnder":"x"}`, `{"double__under":"x"}`)
	s.same("names/leading-underscore", "Names", `{"Leading":"x"}`, `{"_leading":"x"}`)
	s.same("names/trailing-underscore", "Names", `{"trailing":"x"}`, `{"trailing_":"x"}`)
	s.same("names/camel-case", "Names", `{"camelCase":"x"}`)
	s.same("names/upper-case", "Names", `{"UPPERCASE":"x"}`, `{"UPPER_CASE":"x"}`)
	s.same("names/digit", "Names", `{"with1Digit":1}`, `{"with_1_digit":1}`)
	s.same("names/at-type", "Names", `{"@type":"x"}`, `{"type":"x"}`)
	s.same("names/quoted", "Names", `{"\"\\é":"x"}`, `{"\u0022\u005c\u00e9":"x"}`, `{"quoted":"x"}`)
	s.refused("names/unknown", "Names", `{"PlainName":"x"}`, `{"plain-name":"x"}`, `{"plainname":"x"}`, `{"PLAIN_NAME":"x"}`, `{"another_name":"x"}`,
		`{"double_Under":"x"}`, `{"camel_case":"x"}`, `{"upperCase":"x"}`, `{"":"x"}`, `{"1":"x"}`, `{" plainName":"x"}`, `{"nobody":null}`,
		`{"[plainName]":"x"}`, `{"[vectors.v1.Names.plain_name]":"x"}`, `{"[vectors.v1.ext_int32]":1}`, `{"[]":1}`, `{"[":1}`)
	s.refused("names/of-a-oneof", "Oneofs", `{"first":1}`, `{"_synthetic":1}`)
	s.refused("names/in-an-inner-message", "Node", `{"child":{"nobody":1}}`, `{"children":[{"nobody":1}]}`, `{"byName":{"a":{"nobody":1}}}`)

	s.refused("twice/field", "Scalars", `{"fInt32":1,"fInt32":1}`, `{"fInt32":1,"f_int32":1}`, `{"fInt32":1,"\u0066Int32":2}`, `{"fInt32":null,"fInt32":1}`,
		`{"fInt32":null,"f_int32":null}`)
	s.refused("twice/list", "Repeated", `{"fInt32":[1],"fInt32":[2]}`, `{"fInt32":[],"f_int32":[]}`)
	s.refused("twice/message", "Node", `{"child":{},"child":{}}`, `{"child":{"value":1,"value":1}}`)
	s.refused("twice/map", "Node", `{"byName":{},"by_name":{}}`)
	s.refused("twice/map-key", "MapKeys", `{"fString":{"a":"1","a":"1"}}`, `{"fString":{"a":"1","\u0061":"2"}}`, `{"fInt32":{"1":"a","01":"b"}}`,
		`{"fInt64":{"0":"","-0":""}}`, `{"fInt32":{"+1":"a","1":"a"}}`, `{"fBool":{"true":{},"true":{}}}`)
	s.refused("twice/oneof", "Oneofs", `{"firstHigh":1,"firstLow":"x"}`, `{"firstHigh":0,"firstLow":""}`, `{"secondNode":{},"secondOtherNode":{}}`,
		`{"firstHigh":1,"first_high":1}`)
	s.same("twice/oneof-with-null", "Oneofs", `{"firstLow":"x"}`, `{"firstHigh":null,"firstLow":"x"}`, `{"firstLow":"x","firstHigh":null}`)
	s.same("twice/different-oneofs", "Oneofs", `{"firstHigh":1,"secondBool":true,"synthetic":0}`, `{"synthetic":"0","secondBool":true,"firstHigh":1}`)

	for _, message := range []string{"Scalars", "OptionalScalars", "Repeated", "MapValues"} {
		s.same("null/"+message, message, `{}`, `{"fDouble":null}`, `{"fInt32":null,"fUint64":null,"fBool":null,"fString":null,"fBytes":null,"fEnum":null}`)
	}
	s.same("null/message", "Node", `{}`, `{"child":null,"children":null,"byName":null,"left":null,"right":null}`)
	s.same("null/well-known", "WellKnown", `{}`, `{"timestamp":null,"duration":null,"any":null,"struct":null,"listValue":null,"fieldMask":null,"empty":null,
		"doubleValue":null,"int64Value":null,"boolValue":null,"stringValue":null,"bytesValue":null,"anys":null,"values":null}`)
	s.refused("null/in-a-list", "Repeated", in("fInt32", `[null]`, `[1,null]`)...)
	s.refused("null/in-a-list-of-other-kinds", "Repeated", `{"fString":[null]}`, `{"fDouble":[null]}`, `{"fBytes":[null]}`, `{"fBool":[null]}`, `{"fEnum":[null]}`,
		`{"fMessage":[null]}`)
	s.refused("null/in-a-map", "MapValues", `{"fInt32":{"1":null}}`, `{"fString":{"1":null}}`, `{"fEnum":{"1":null}}`, `{"fMessage":{"1":null}}`)
	s.refused("null/in-a-string", "Scalars", in("fInt32", `"null"`)...)
	s.same("null/value", "WellKnown", `{"value":null}`)
	s.same("null/in-a-map-of-values", "WellKnown", `{"values":{"a":null}}`)
	s.same("null/in-a-list-of-values", "Forms", `{"values":[null]}`)
	s.same("null/null-value", "Forms", `{"optionalNull":null}`, `{"optionalNull":0}`, `{"optionalNull":"NULL_VALUE"}`, `{"optional_null":0.0}`)
	s.same("null/null-value-with-another-number", "Forms", `{"optionalNull":7}`)
	s.same("null/null-values", "Forms", `{"nulls":[null,null]}`, `{"nulls":[0,"NULL_VALUE"]}`)
	s.same("null/null-values-by-name", "Forms", `{"nullsByName":{"a":null}}`, `{"nullsByName":{"a":"NULL_VALUE"}}`, `{"nullsByName":{"a":0}}`)
	s.same("null/map-of-null-values", "Forms", `{}`, `{"nullsByName":null}`)
	s.refused("null/null-value-that-is-none", "Forms", in("optionalNull", `"null"`, `false`, `""`, `{}`, `[]`, `"0"`)...)
	s.refused("null/list-of-what-may-be-null", "Forms", `{"nulls":null}`, `{"values":null}`)
	s.same("null/in-a-oneof", "Forms", `{"choiceNull":null}`, `{"choiceNull":"NULL_VALUE"}`, `{"choiceNull":null,"choiceNumber":null}`)
	s.same("null/in-a-oneof-of-forms", "Forms", `{}`, `{"choiceString":null,"choiceStruct":null,"choiceTimestamp":null,"choiceAny":null,"choiceMood":null}`)
	s.same("null/value-in-a-oneof", "Forms", `{"choiceValue":null}`)
	s.refused("null/two-of-a-oneof", "Forms", `{"choiceNull":null,"choiceValue":null}`, `{"choiceNull":null,"choiceNumber":1}`)
	s.refused("null/in-lists-of-forms", "Forms", `{"structs":[null]}`, `{"lists":[null]}`, `{"timestamps":[null]}`, `{"masks":[null]}`, `{"empties":[null]}`,
		`{"strings":[null]}`, `{"listsByName":{"a":null}}`, `{"durationsByName":{"a":null}}`, `{"anysByName":{"a":null}}`, `{"numbersByName":{"a":null}}`)
}

// enumNames adds enum values by name and by number.
func (s *jsonSuite) enumNames() {
	s.same("enums/name", "Scalars", in("fEnum", `"MOOD_MERRY"`, `"\u004dOOD_MERRY"`, `2`, `2.0`, `2e0`, `0.2e1`)...)
	s.same("enums/zero", "OptionalScalars", in("fEnum", `"MOOD_UNSPECIFIED"`, `0`, `-0`)...)
	s.same("enums/negative", "Scalars", in("fEnum", `"MOOD_GLUM"`, `-1`, `-10e-1`)...)
	s.same("enums/most", "Scalars", in("fEnum", `"MOOD_HIGHEST"`, `2147483647`)...)
	s.same("enums/least", "Scalars", in("fEnum", `"MOOD_LOWEST"`, `-2147483648`)...)
	s.same("enums/unknown-number", "Scalars", in("fEnum", `77`)...)
	s.refused("enums/unknown-name", "Scalars", in("fEnum", `"MOOD_SAD"`, `"mood_merry"`, `"MERRY"`, `" MOOD_MERRY"`, `"MOOD_MERRY "`, `""`, `"2"`, `"-1"`, `"77"`,
		`"Mood.MOOD_MERRY"`, `"vectors.v1.MOOD_MERRY"`)...)
	s.refused("enums/no-enum", "Scalars", in("fEnum", `2.5`, `2147483648`, `-2147483649`, `true`, `[]`, `{}`, `1e10`)...)
	s.same("enums/list", "Repeated", in("fEnum", `["MOOD_CALM",77,2]`, `[1,77,"MOOD_MERRY"]`)...)
	s.same("enums/map", "MapValues", `{"fEnum":{"1":"MOOD_CALM"}}`, `{"fEnum":{"1":1}}`)
	s.refused("enums/unknown-name-in-them", "MapValues", `{"fEnum":{"1":"MOOD_SAD"}}`)
	s.same("enums/closed", "LegacyScalars", in("fEnum", `"LEGACY_MOOD_GLUM"`, `-1`)...)
	s.same("enums/closed-unknown-number", "LegacyScalars", in("fEnum", `77`)...)
	s.same("enums/in-a-oneof", "Oneofs", `{"secondEnum":"MOOD_UNSPECIFIED"}`, `{"second_enum":0}`)
	s.refused("bools/no-bool", "Scalars", in("fBool", `0`, `1`, `"true"`, `"false"`, `""`, `[]`, `{}`)...)
	s.same("bools/false", "OptionalScalars", in("fBool", `false`, ` false `)...)
}

// mapKeys adds map keys: strings that are parsed by the key's kind, and unlike numbers.
func (s *jsonSuite) mapKeys() {
	for _, field := range []struct{ name, value string }{
		{"fInt32", `"x"`}, {"fInt64", `"YQ"`}, {"fSint32", `1`}, {"fSint64", `1`}, {"fSfixed32", `true`}, {"fSfixed64", `1`},
	} {
		s.same("map-keys/"+field.name+"/one", "MapKeys", keyed(field.name, field.value, `1`, `+1`, `01`, `0001`, `\u0031`)...)
		s.same("map-keys/"+field.name+"/minus-one", "MapKeys", keyed(field.name, field.value, `-1`, `-01`)...)
		s.same("map-keys/"+field.name+"/zero", "MapKeys", keyed(field.name, field.value, `0`, `-0`, `+0`, `00`)...)
	}
	for _, field := range []struct{ name, value string }{{"fUint32", `1`}, {"fUint64", `1`}, {"fFixed32", `1`}, {"fFixed64", `1`}} {
		s.same("map-keys/"+field.name+"/one", "MapKeys", keyed(field.name, field.value, `1`, `01`, `0001`)...)
		s.refused("map-keys/"+field.name+"/signs", "MapKeys", keyed(field.name, field.value, `+1`, `-1`, `-0`, `+0`)...)
	}
	for _, field := range []struct{ name, value string }{{"fInt32", `"x"`}, {"fUint64", `1`}} {
		s.refused("map-keys/"+field.name+"/no-number", "MapKeys", keyed(field.name, field.value,
			``, ` 1`, `1 `, `1.0`, `1e0`, `0x1`, `1_0`, `-`, `+`, `--1`, `1,0`, `\"1\"`, `null`, `true`, `NaN`, `١`, `1\u0000`)...)
	}
	s.same("map-keys/extremes", "MapKeys", `{"fInt32":{"-2147483648":"a","2147483647":"b"},"fUint64":{"18446744073709551615":1},"fSint64":{"-9223372036854775808":1}}`,
		`{"fSint64":{"-09223372036854775808":1},"fUint64":{"018446744073709551615":1},"fInt32":{"+2147483647":"b","-2147483648":"a"}}`)
	s.refused("map-keys/out-of-range", "MapKeys", `{"fInt32":{"2147483648":"a"}}`, `{"fInt32":{"-2147483649":"a"}}`, `{"fUint32":{"4294967296":1}}`,
		`{"fInt64":{"9223372036854775808":""}}`, `{"fUint64":{"18446744073709551616":1}}`, `{"fInt64":{"99999999999999999999999":""}}`)
	s.same("map-keys/bool", "MapKeys", `{"fBool":{"true":{},"false":{}}}`, `{"fBool":{"false":{},"\u0074rue":{}}}`)
	s.refused("map-keys/no-bool", "MapKeys", keyed("fBool", `{}`, `TRUE`, `True`, `1`, `0`, `t`, ``, ` true`, `true `)...)
	s.refused("map-keys/no-string", "MapKeys", `{"fInt32":{1:"x"}}`, `{"fBool":{true:{}}}`, `{"fString":{null:""}}`)
	s.same("map-keys/string", "MapKeys", keyed("fString", `""`, ``)...)
	s.same("map-keys/sorted", "MapKeys", `{"fString":{"a":"1","b":"2","":"3","é":"4"}}`, `{"fString":{"é":"4","b":"2","a":"1","":"3"}}`)
	s.same("map-keys/at-type", "Node", `{"byName":{"@type":{}}}`)
}

// legacyNames adds groups and extensions.
func (s *jsonSuite) legacyNames() {
	s.same("groups/group", "LegacyGroups", `{"single":{"value":1}}`, `{"Single":{"value":1}}`)
	s.same("groups/nested", "LegacyGroups", `{"single":{"inner":{"value":1,"numbers":[1,2]},"pairs":{"1":2}}}`, `{"Single":{"pairs":{"01":2},"Inner":{"numbers":["1",2],"value":1}}}`)
	s.same("groups/repeated", "LegacyGroups", `{"many":[{"value":1,"deep":[{}]},{}]}`, `{"Many":[{"Deep":[{}],"value":1},{}]}`)
	s.same("groups/in-a-oneof", "LegacyGroups", `{"chosen":{"other":1},"number":null}`, `{"Chosen":{"other":1}}`)
	s.same("groups/far", "LegacyGroups", `{"far":{}}`, `{"Far":{}}`)
	s.refused("groups/names", "LegacyGroups", `{"SINGLE":{}}`, `{"single":{},"Single":{}}`, `{"single":1}`, `{"many":{}}`)
	s.same("extensions/number", "Extendable", in("[vectors.v1.ext_int32]", `1`, `"1"`)...)
	s.same("extensions/in-a-message", "Extendable", in("[vectors.v1.Scope.scoped]", `-1`)...)
	s.same("extensions/message", "Extendable", in("[vectors.v1.ext_self]", `{"ten":1,"[vectors.v1.ext_strings]":["a"]}`, `{"[vectors.v1.ext_strings]":["\u0061"],"ten":"1"}`)...)
	s.same("extensions/lists", "Extendable", `{"[vectors.v1.ext_packed]":[1,2],"[vectors.v1.ext_unpacked]":[1,2],"[vectors.v1.ext_nodes]":[{}]}`)
	s.same("extensions/group", "Extendable", in("[vectors.v1.extgroup]", `{"value":1}`)...)
	s.same("extensions/groups", "Extendable", in("[vectors.v1.extgroups]", `[{"value":1},{}]`)...)
	s.same("extensions/null", "Extendable", `{}`, `{"[vectors.v1.ext_int32]":null}`)
	s.same("extensions/default", "Extendable", in("[vectors.v1.ext_bool]", `true`)...)
	s.refused("extensions/names", "Extendable", `{"vectors.v1.ext_int32":1}`, `{"ext_int32":1}`, `{"extInt32":1}`, `{"[vectors.v1.extInt32]":1}`, `{"[ext_int32]":1}`,
		`{"[.vectors.v1.ext_int32]":1}`, `{"[vectors.v1.nobody]":1}`, `{"[vectors.v1.scoped]":1}`, `{"[vectors.v1.ExtGroup]":{}}`, `{"[vectors.v1.ext_int32 ]":1}`)
	s.refused("extensions/twice", "Extendable", `{"[vectors.v1.ext_int32]":1,"[vectors.v1.ext_int32]":1}`)
	s.refused("extensions/of-another-message", "Names", `{"[vectors.v1.ext_int32]":1}`)
	s.same("required/missing", "LegacyRequired", `{"next":{"id":1}}`)
	s.same("required/default", "LegacyScalars", `{"fInt32":-3,"fString":"fourteen"}`, `{"f_string":"fourteen","f_int32":"-3"}`)
}
