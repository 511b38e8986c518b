package main

import "strings"

// integers adds every spelling of an integer, as a number or in a string.
func (s *jsonSuite) integers() {
	signed, unsigned := []string{"fInt32", "fInt64", "fSint32", "fSint64", "fSfixed32", "fSfixed64"},
		[]string{"fUint32", "fUint64", "fFixed32", "fFixed64"}
	notIntegers := []string{
		`01`, `+1`, `1.`, `.1`, `1.5`, `1e-1`, `1.5e0`, `0x1`, `1_0`, `- 1`, `--1`, `-`, `1e1e1`, `1e+`, `1e1.0`, `NaN`, `Infinity`,
		`1e999999999`, `1e-999999999`, `1e99999999999999999999`, `123456789012345678901`, `""`, `" 1"`, `"1 "`, `"1\n"`, `"+1"`,
		`"01"`, `"1."`, `".1"`, `"1.5"`, `"0x1"`, `"1e"`, `"-"`, `"1 2"`, `"1,2"`, `"NaN"`, `"Infinity"`, `"\"1\""`, `"true"`,
		`"١"`, `true`, `false`, `[]`, `[1]`, `{}`,
	}
	for _, field := range signed {
		s.same("integers/"+field+"/minus-one", "Scalars", in(field,
			`-1`, `"-1"`, `-1.0`, `"-1.000"`, `-1e0`, `-10e-1`, `"-0.1E1"`, `"\u002d1"`)...)
	}
	for _, field := range append(signed, unsigned...) {
		s.same("integers/"+field+"/zero", "OptionalScalars", in(field, `0`, `-0`, `"0"`, `"-0"`, `0.0`, `-0e-9`, `0e999999999999`)...)
	}
	for _, field := range unsigned {
		s.refused("integers/"+field+"/minus-one", "Scalars", in(field, `-1`, `"-1"`, `-1e0`)...)
	}
	for _, field := range []string{"fInt32", "fUint64"} {
		s.same("integers/"+field+"/some", "Scalars", in(field,
			`12`, `"12"`, `12.0`, `1.2e1`, `120e-1`, `1.20E+1`, `0.12e2`, `0.012e3`, ` 12 `, "\t\r\n12", `"1\u0032"`, `1200e-02`)...)
		s.refused("integers/"+field+"/no-integer", "Scalars", in(field, notIntegers...)...)
	}
	for _, bits := range []struct{ fields, most, over, least, under []string }{
		{[]string{"fInt32", "fSint32", "fSfixed32"}, []string{`2147483647`, `"2.147483647e9"`}, []string{`2147483648`, `"2147483648"`, `1e10`},
			[]string{`-2147483648`, `"-2147483648.0"`}, []string{`-2147483649`}},
		{[]string{"fUint32", "fFixed32"}, []string{`4294967295`, `42949672950e-1`}, []string{`4294967296`}, []string{`0`}, []string{`-4294967295`}},
		{[]string{"fInt64", "fSint64", "fSfixed64"}, []string{`9223372036854775807`, `"9223372036854775807"`, `9.223372036854775807e18`},
			[]string{`9223372036854775808`, `"9223372036854775808"`, `1e19`}, []string{`-9223372036854775808`, `"-9223372036854775808"`}, []string{`-9223372036854775809`}},
		{[]string{"fUint64", "fFixed64"}, []string{`18446744073709551615`, `"18446744073709551615"`, `1.8446744073709551615e19`, `184467440737095516150e-1`},
			[]string{`18446744073709551616`, `"18446744073709551616"`, `1e20`, `99999999999999999999`}, []string{`0`}, []string{`-18446744073709551615`}},
	} {
		for _, field := range bits.fields {
			s.same("integers/"+field+"/most", "Scalars", in(field, bits.most...)...)
			s.same("integers/"+field+"/least", "Scalars", in(field, bits.least...)...)
			s.refused("integers/"+field+"/out-of-range", "Scalars", in(field, append(bits.over, bits.under...)...)...)
		}
	}
	s.same("integers/beyond-a-double", "Scalars", in("fInt64", `9007199254740993`, `"9007199254740993"`, `9007199254740993.0`)...)
	s.same("integers/digits-that-fall-away", "Scalars", in("fUint64",
		`1`, `1`+strings.Repeat("0", 30)+`e-30`, `1.`+strings.Repeat("0", 30), `0.00000000000000000001e20`)...)
	s.refused("integers/twenty-places-are-shifted-at-most", "Scalars", in("fUint64", `0.000000000000000000001e21`, `1.0e20`)...)
	s.same("integers/not-json-but-accepted", "Scalars", in("fInt32", `1e`, `1E`)...)
}

// floatTexts adds floats, which are rounded once, directly from their digits.
func (s *jsonSuite) floatTexts() {
	notNumbers := []string{
		`01`, `+1`, `1.`, `.1`, `-.5`, `1e`, `1e+`, `0x1p3`, `1_0`, `NaN`, `Infinity`, `-Infinity`, `inf`, `-`, `true`, `[]`, `{}`,
		`""`, `" 1"`, `"1 "`, `"+1"`, `"01"`, `"1."`, `".5"`, `"1e"`, `"0x1p3"`, `"1_0"`, `"nan"`, `"NAN"`, `"-NaN"`, `"+NaN"`, `" NaN"`,
		`"infinity"`, `"INFINITY"`, `"+Infinity"`, `"Inf"`, `"-inf"`, `"1,5"`, `"1f"`, `"true"`, `"\"1\""`,
	}
	for _, field := range []string{"fDouble", "fFloat"} {
		s.same("floats/"+field+"/zero", "OptionalScalars", in(field, `0`, `0.0`, `"0"`, `0e999999999`, `1e-999999999`, `"1e-400"`)...)
		s.same("floats/"+field+"/minus-zero", "Scalars", in(field, `-0`, `-0.0`, `"-0"`, `"-0.0"`, `-0e5`, `-1e-999999999`)...)
		s.same("floats/"+field+"/some", "Scalars", in(field, `1.5`, `"1.5"`, `15e-1`, `0.15E+1`, `1.50`, `1.500000000000000000000000000000e0`)...)
		s.same("floats/"+field+"/infinity", "Scalars", in(field, `"Infinity"`, `"\u0049nfinity"`)...)
		s.same("floats/"+field+"/minus-infinity", "Scalars", in(field, `"-Infinity"`)...)
		s.same("floats/"+field+"/nan", "Scalars", in(field, `"NaN"`)...)
		s.refused("floats/"+field+"/no-number", "Scalars", in(field, notNumbers...)...)
		s.refused("floats/"+field+"/too-large", "Scalars", in(field, `1e309`, `-1e309`, `"1e309"`, `1e999999999`, `1e99999999999999999999`,
			`1`+strings.Repeat("0", 400), `1.7976931348623159e308`)...)
	}
	for _, c := range []struct {
		field, name string
		texts       []string
	}{
		{"fDouble", "largest", []string{`1.7976931348623157e308`, `1.7976931348623158e308`, `"17976931348623157e292"`}},
		{"fDouble", "least", []string{`5e-324`, `4.9406564584124654e-324`, `2.4703282292062328e-324`}},
		{"fDouble", "half-of-the-least", []string{`2.4703282292062327e-324`}},
		{"fDouble", "largest-subnormal", []string{`2.225073858507201e-308`, `2.2250738585072011e-308`}},
		{"fDouble", "smallest-normal", []string{`2.2250738585072014e-308`, `2.2250738585072012e-308`}},
		{"fDouble", "tie-to-even-down", []string{`9007199254740992`, `9007199254740993`, `9007199254740993.0`}},
		{"fDouble", "tie-to-even-up", []string{`9007199254740996`, `9007199254740995`}},
		{"fDouble", "above-a-tie", []string{`9007199254740994`, `9007199254740993.00000000000000000000000000000000000001`}},
		{"fDouble", "seventeen-digits", []string{`0.1`, `0.10000000000000001`, `0.1000000000000000055511151231257827`}},
		{"fDouble", "next-of-a-tenth", []string{`0.30000000000000004`, `0.3000000000000000444089209850062616169452667236328125`}},
		{"fDouble", "hard-to-round", []string{`51.24817837550540000`, `51.2481783755054`, `"512481783755054e-13"`}},
		{"fDouble", "many-digits", []string{`1.` + strings.Repeat("3", 800)}},
		{"fFloat", "largest", []string{`3.4028235e38`, `3.4028234663852886e38`, `3.4028235677973366e38`, `340282356779733661637539395458142568447`, `"340282346638528859811704183484516925440"`}},
		{"fFloat", "least", []string{`1e-45`, `1.401298464324817e-45`, `7.1e-46`}},
		{"fFloat", "half-of-the-least", []string{`7.006492321624085e-46`}},
		{"fFloat", "tie-to-even-down", []string{`16777216`, `16777217`, `16777217.0`}},
		{"fFloat", "above-a-tie-by-less-than-a-double-can-tell", []string{`16777218`, `16777217.000000000000000001`}},
		{"fFloat", "not-a-double-first", []string{`7.038531e-26`, `"7.038531e-26"`}},
		{"fFloat", "tenth", []string{`0.1`, `0.10000000149011612`, `"0.100000001490116119384765625"`}},
	} {
		s.same("floats/"+c.field+"/"+c.name, "Scalars", in(c.field, c.texts...)...)
	}
	s.refused("floats/fFloat/too-large-for-it", "Scalars", in("fFloat", `3.4028236e38`, `3.4028235677973367e38`, `340282356779733661637539395458142568448`, `"-1e39"`)...)
}
