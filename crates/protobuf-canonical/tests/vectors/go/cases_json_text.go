package main

import (
	"fmt"
	"strings"
)

// syntax adds the syntax of JSON and of a message in it.
func (s *jsonSuite) syntax() {
	s.same("syntax/empty-object", "Scalars", `{}`, ` { } `, "\t\r\n{}\n")
	s.refused("syntax/no-object", "Scalars", ``, ` `, `null`, `true`, `0`, `""`, `"{}"`, `[]`, `[{}]`, `}`, `{`, `nul`)
	s.refused("syntax/more-than-an-object", "Scalars", `{}{}`, `{} {}`, `{},`, `{} null`, `{}]`, `{};`, "{}\x00", `{}//`)
	s.refused("syntax/byte-order-mark", "Scalars", "\ufeff{}", "\xff\xfe{\x00}\x00")
	s.refused("syntax/comments", "Scalars", `{/**/}`, "{//\n}", "{}#", `{"fInt32":/*1*/1}`)
	s.refused("syntax/commas", "Scalars", `{,}`, `{"fInt32":1,}`, `{,"fInt32":1}`, `{"fInt32":1,,"fInt64":1}`, `{"fInt32":1 "fInt64":1}`)
	s.refused("syntax/members", "Scalars", `{"fInt32"}`, `{"fInt32":}`, `{"fInt32" 1}`, `{"fInt32"::1}`, `{fInt32:1}`, `{'fInt32':1}`,
		`{1:1}`, `{null:1}`, `{"fInt32":1:2}`, `{"fInt32":1]`, `{"fInt32":1`, `{"fInt32":1}}`, `{"fInt32"=1}`)
	s.refused("syntax/words", "Scalars", in("fBool", `True`, `TRUE`, `tru`, `truefalse`, `true1`, `nul`, `NULL`, `nullnull`, `undefined`)...)
	s.refused("syntax/other-spaces", "Scalars", "{\u00a0}", "{\f}", "{\v}", "\u2028{}")
	s.refused("syntax/lists", "Repeated", in("fInt32", `[1,]`, `[,1]`, `[,]`, `[1 2]`, `[1`, `[1}`, `[[1]]`, `1`, `"1"`, `{}`, `{"0":1}`)...)
	s.same("syntax/list", "Repeated", in("fInt32", `[1,2]`, ` [ 1 , "2" ] `, `["1",2.0]`)...)
	s.same("syntax/empty-list", "Repeated", in("fInt32", `[]`, `[ ]`)...)
	s.refused("syntax/no-message", "Node", in("child", `1`, `""`, `[]`, `true`, `[{}]`)...)
	s.refused("syntax/list-of-messages", "Node", in("children", `{}`, `[1]`, `[[]]`, `[""]`)...)
	s.refused("syntax/map", "Node", in("byName", `[]`, `1`, `"a"`, `[{"key":"a","value":{}}]`, `{"a":1}`, `{"a":[]}`)...)
}

// strings adds strings: their bytes and escapes.
func (s *jsonSuite) strings() {
	s.same("strings/escapes", "Scalars", in("fString", "\"a\u00e9\U0001f600/\"", `"\u0061\u00e9\ud83d\ude00\/"`, `"a\u00E9\uD83D\uDE00\u002f"`)...)
	s.same("strings/short-escapes", "Scalars", in("fString", `"\"\\\b\f\n\r\t"`, `"\u0022\u005c\u0008\u000c\u000A\u000d\u0009"`)...)
	s.same("strings/nul", "Scalars", in("fString", `"\u0000"`)...)
	s.same("strings/not-escaped", "Scalars", in("fString", "\"\u007f\u0080\u2028\ufeff\uffff\"", `"\u007f\u0080\u2028\ufeff\uffff"`)...)
	s.same("strings/not-normalized", "Scalars", in("fString", "\"e\u0301\"", `"e\u0301"`)...)
	s.same("strings/replacement", "Scalars", in("fString", "\"\ufffd\"", `"\ufffd"`)...)
	s.refused("strings/lone-surrogates", "Scalars", in("fString", `"\ud800"`, `"\udc00"`, `"\ud800\ud800"`, `"\udc00\ud800"`, `"\ud800x"`,
		`"\ud800\n\n\n"`, `"\ud83d \ude00"`, `"\ud800\u0061"`)...)
	s.refused("strings/not-utf8", "Scalars", in("fString", "\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"", "\"\xe2\x82\"")...)
	s.refused("strings/control-characters", "Scalars", in("fString", "\"\n\"", "\"\x00\"", "\"\t\"", "\"\x1f\"")...)
	s.refused("strings/no-escapes", "Scalars", in("fString", `"\x41"`, `"\'"`, `"\0"`, `"\u12"`, `"\u12g4"`, `"\U00000041"`, `"\u+123"`, `"\u{41}"`, `"\`, `"\"`)...)
	s.refused("strings/no-strings", "Scalars", in("fString", `1`, `true`, `[]`, `{}`, `'a'`, `a`, `["a"]`)...)
	s.refused("strings/names", "Scalars", "{\"\xff\":1}", "{\"fString\xff\":1}", `{"\ud800":1}`, "{\"f\nString\":1}")
	s.same("strings/name-with-escapes", "Scalars", `{"fString":"x"}`, `{"\u0066String":"x"}`, `{"f\u005fstring":"x"}`)
	s.same("strings/map-key-escapes", "MapKeys", `{"fString":{"a\u0000\"":"b"}}`, `{"f_string":{"\u0061\u0000\u0022":"\u0062"}}`)
	s.refused("strings/map-key-not-utf8", "MapKeys", keyed("fString", `"x"`, "\xff", `\ud800`)...)
	s.refused("strings/in-list-not-utf8", "Repeated", "{\"fString\":[\"\xff\"]}")
	s.refused("strings/in-bytes-not-utf8", "Scalars", "{\"fBytes\":\"\xff\"}")
	s.refused("strings/in-any-not-utf8", "WellKnown", "{\"any\":{\"@type\":\"a/vectors.v1.Scalars\",\"fString\":\"\xff\"}}")
}

// bytes adds Base64 in both alphabets, with and without padding.
func (s *jsonSuite) bytes() {
	s.same("bytes/alphabets", "Scalars", in("fBytes", `"+//+AQ=="`, `"-__-AQ=="`, `"+//+AQ"`, `"-__-AQ"`, `"\u002b/\/+AQ"`)...)
	s.same("bytes/one", "Scalars", in("fBytes", `"YQ=="`, `"YQ"`, `"YR=="`, `"YR"`, `"YX"`)...)
	s.same("bytes/two", "Scalars", in("fBytes", `"YWI="`, `"YWI"`, `"YWL"`)...)
	s.same("bytes/three", "Scalars", in("fBytes", `"YWJj"`, `"YWJj\n"`, `"Y\r\nWJj"`, `"\nYWJj\n\n\n"`)...)
	s.same("bytes/lines", "Scalars", in("fBytes", `"YQ==\n\n\n\n"`, `"Y\n\n\n\nQ=\n\n\n\n="`, `"YQ\n"`, `"\r\n\r\n\r\n\r\nYQ"`)...)
	s.same("bytes/empty", "OptionalScalars", in("fBytes", `""`, `"\n"`, `"\r\n\r\n"`)...)
	s.refused("bytes/padding", "Scalars", in("fBytes", `"="`, `"===="`, `"YQ="`, `"YQ==="`, `"YWJj="`, `"YWJj===="`, `"YQ==YQ=="`, `"Y==="`, `"=YQ="`,
		`"YQ==\n"`, `"YQ=\n="`, `"YQ\n\n"`, `"YWI=\n"`, `"YQ=\n"`)...)
	s.refused("bytes/length", "Scalars", in("fBytes", `"Y"`, `"YWJjY"`)...)
	s.refused("bytes/alphabet", "Scalars", in("fBytes", `"+_"`, `"-/AA"`, `"Y Q=="`, `"YQ== "`, `" YQ=="`, `"Y\tQ="`, `"Yé"`, `"Y!"`, `"YQ,,"`, `"YW\u0000j"`)...)
	s.refused("bytes/no-string", "Scalars", in("fBytes", `1`, `[89]`, `true`, `{}`)...)
}

// depth adds nested messages below, at and above the depth limit of the canonical encoding.
func (s *jsonSuite) depth() {
	nested := func(count int, open, inner, closed string) string {
		return strings.Repeat(open, count) + inner + strings.Repeat(closed, count)
	}
	for _, count := range []int{98, 99, 100, 101, 127, 200} {
		s.same(fmt.Sprintf("depth/messages/%d", count), "Node", nested(count, `{"child":`, `{}`, `}`))
	}
	for _, count := range []int{32, 33, 34, 60} {
		s.same(fmt.Sprintf("depth/structs/%d", count), "WellKnown", nested(1, `{"value":`, nested(count, `{"a":`, `1`, `}`), `}`))
	}
	for _, count := range []int{49, 50, 51, 120, 200} {
		s.same(fmt.Sprintf("depth/lists/%d", count), "WellKnown", nested(1, `{"value":`, nested(count, `[`, ``, `]`), `}`))
	}
	for _, count := range []int{30, 60} {
		inner := nested(1, `{"@type":"a/google.protobuf.Value","value":`, nested(count, `[`, ``, `]`), `}`)
		s.same(fmt.Sprintf("depth/any-of-lists/%d", count), "WellKnown", `{"any":`+inner+`}`)
	}
	for _, count := range []int{2, 8, 9, 12} {
		inner := nested(count, `{"@type":"a/google.protobuf.Any","value":`, `{"@type":"a/vectors.v1.Scalars","fInt32":1}`, `}`)
		s.same(fmt.Sprintf("depth/any-in-any/%d", count), "WellKnown", `{"any":`+inner+`}`)
	}
	s.refused("depth/unclosed", "WellKnown", `{"value":`+strings.Repeat(`[`, 1000), `{"value":`+strings.Repeat(`{"a":`, 1000))
	s.refused("depth/in-what-is-no-list", "Scalars", nested(1, `{"fInt32":`, nested(1000, `[`, ``, `]`), `}`))
}
