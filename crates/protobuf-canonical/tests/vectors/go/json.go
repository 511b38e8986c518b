package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// jsonEntry is one vector as json.json holds it. Text that is not UTF-8 is in Base64.
type jsonEntry struct {
	Name      string  `json:"name"`
	Message   string  `json:"message"`
	JSON      *string `json:"json,omitempty"`
	Base64    []byte  `json:"base64,omitempty"`
	Canonical *string `json:"canonical,omitempty"`
	Written   *string `json:"written,omitempty"`
	Error     bool    `json:"error,omitempty"`
}

// jsonCase holds texts and the expectation for protobuf-go: either it refuses each, or all are the same message.
type jsonCase struct {
	name    string
	message string // without the package
	texts   []string
	refused bool
}

// jsonSuite collects the cases, in the order in which json.json lists them.
type jsonSuite struct {
	cases   []jsonCase
	written bool // whether the vectors hold what protojson writes, too
}

// same adds texts that protojson accepts as the same message.
func (s *jsonSuite) same(name, message string, texts ...string) {
	s.cases = append(s.cases, jsonCase{name: name, message: message, texts: texts})
}

// refused adds texts that protojson refuses.
func (s *jsonSuite) refused(name, message string, texts ...string) {
	s.cases = append(s.cases, jsonCase{name: name, message: message, texts: texts, refused: true})
}

// render judges every case and returns the content of the file, one vector per line to keep diffs readable.
func (s *jsonSuite) render() (content []byte, count string, err error) {
	var out bytes.Buffer
	var accepted, refused int
	var problems []error
	names := make(map[string]bool)
	for _, c := range s.cases {
		if names[c.name] {
			problems = append(problems, fmt.Errorf("%s: two cases have this name", c.name))
		}
		names[c.name] = true
		var first []byte
		for i, text := range c.texts {
			message, canonical, refusal := readJSON(c.message, text)
			switch {
			case c.refused && refusal == nil:
				problems = append(problems, fmt.Errorf("%s: %q should be refused, but gives %x", c.name, text, canonical))
			case !c.refused && refusal != nil:
				problems = append(problems, fmt.Errorf("%s: %q should be accepted: %w", c.name, text, refusal))
			case !c.refused && i > 0 && !bytes.Equal(canonical, first):
				problems = append(problems, fmt.Errorf("%s: %q gives %x, not %x", c.name, text, canonical, first))
			}
			first = canonical

			line := jsonEntry{Name: c.name, Message: packageName + c.message, Error: c.refused}
			if len(c.texts) > 1 {
				line.Name = fmt.Sprintf("%s/%d", c.name, i+1)
			}
			if utf8.ValidString(text) {
				line.JSON = &text
			} else {
				line.Base64 = []byte(text)
			}
			if c.refused {
				refused++
			} else {
				encoded := hex.EncodeToString(canonical)
				line.Canonical = &encoded
				if s.written {
					written := writeJSON(message, protojson.MarshalOptions{})
					line.Written = &written
				}
				accepted++
			}
			out.WriteString(map[bool]string{true: "[\n", false: ",\n"}[out.Len() == 0])
			encoder := json.NewEncoder(&out)
			encoder.SetEscapeHTML(false)
			if err := encoder.Encode(line); err != nil {
				return nil, "", err
			}
			out.Truncate(out.Len() - 1) // the newline
		}
	}
	if len(problems) > 0 {
		return nil, "", errors.Join(problems...)
	}
	out.WriteString("\n]\n")
	count = fmt.Sprintf("%d vectors in JSON: %d accepted, %d refused", accepted+refused, accepted, refused)
	return out.Bytes(), count, nil
}

// readJSON returns the message of a text, and its canonical encoding.
func readJSON(name, text string) (protoreflect.Message, []byte, error) {
	messageType, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(packageName + name))
	if err != nil {
		return nil, nil, err
	}
	message := messageType.New()
	if err := (protojson.UnmarshalOptions{AllowPartial: true}).Unmarshal([]byte(text), message.Interface()); err != nil {
		return nil, nil, err
	}
	canonical, err := canonicalOf(message.Interface())
	return message, canonical, err
}

// in returns one object for each value, with the value as its only member.
func in(name string, values ...string) []string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = `{"` + name + `":` + value + `}`
	}
	return texts
}

// keyed returns one object for each key, with a map that has the key as its only entry.
func keyed(name, value string, keys ...string) []string {
	texts := make([]string, len(keys))
	for i, key := range keys {
		texts[i] = `{"` + name + `":{"` + key + `":` + value + `}}`
	}
	return texts
}
