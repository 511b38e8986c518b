// Command vectors writes the golden vectors of the canonical encoding: wire bytes and JSON as they may arrive, and
// protobuf-go's deterministic encoding of the decoded message. See README.md.
package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
)

//go:generate go run ./gen

// entry is one vector as canonical.json holds it.
type entry struct {
	Name             string  `json:"name"`
	Message          string  `json:"message"`
	Input            string  `json:"input"`
	Canonical        *string `json:"canonical,omitempty"`
	SHA256           string  `json:"sha256,omitempty"`
	AlreadyCanonical *bool   `json:"already_canonical,omitempty"`
	DynamicDiffers   bool    `json:"dynamicpb_differs,omitempty"`
	Error            bool    `json:"error,omitempty"`
}

func main() {
	log.SetFlags(0)
	output := flag.String("o", "../canonical.json", "the `file` to write")
	jsonOutput := flag.String("json", "../json.json", "the `file` to write for the vectors in JSON")
	editionsOutput := flag.String("editions", "../editions.json", "the `file` to write for the vectors of editions")
	editionsJSONOutput := flag.String("editions-json", "../editions_json.json",
		"the `file` to write for the vectors of editions in JSON")
	flag.Parse()

	var set suite
	set.scalars()
	set.floats()
	set.varints()
	set.repeated()
	set.maps()
	set.mapEntries()
	set.oneofs()
	set.messages()
	set.order()
	set.unknown()
	set.wrongWireTypes()
	set.wellKnown()
	set.legacy()
	set.groups()
	set.extensions()
	set.malformed()
	set.malformedText()
	set.random("Everything", "LegacyEverything")
	write(*output, set.render)

	var texts jsonSuite
	texts.syntax()
	texts.strings()
	texts.bytes()
	texts.integers()
	texts.floatTexts()
	texts.enumNames()
	texts.fields()
	texts.mapKeys()
	texts.legacyNames()
	texts.forms()
	texts.depth()
	texts.random("Scalars", "OptionalScalars", "Repeated", "MapKeys", "MapValues", "Node", "Oneofs", "WellKnown", "Names", "Forms",
		"LegacyGroups", "Extendable")
	write(*jsonOutput, texts.render)

	var editions suite
	editions.editionFeatures()
	editions.editionDelimited()
	editions.editionExtensions()
	editions.editionFiles()
	editions.random("e2023.Edition2023", "legacy2023.Item", "implicit2023.Form", "e2024.Record")
	write(*editionsOutput, editions.render)

	editionTexts := jsonSuite{written: true}
	editionTexts.editions()
	editionTexts.random("e2023.Presence", "e2023.Lists", "e2023.Delimited", "e2023.Maps", "e2023.Extended", "legacy2023.Item",
		"implicit2023.Form", "e2024.Record")
	write(*editionsJSONOutput, editionTexts.render)
}

// write writes the vectors of a suite to a file, or ends the program.
func write(name string, render func() (content []byte, count string, err error)) {
	content, count, err := render()
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(name, content, 0o644); err != nil {
		log.Fatal(err)
	}
	fmt.Println(count)
}

// render judges every case and returns the content of the file, one vector per line to keep diffs readable.
func (s *suite) render() (content []byte, count string, err error) {
	var out bytes.Buffer
	var valid, already, refused, differing int
	var problems []error
	names := make(map[string]bool)
	for i, c := range s.cases {
		if names[c.name] {
			problems = append(problems, fmt.Errorf("%s: two vectors have this name", c.name))
		}
		names[c.name] = true

		result, err := judge(c)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s (%s, %x): %w", c.name, c.message, c.input, err))
			continue
		}
		line := entry{Name: c.name, Message: packageName + c.message, Input: hex.EncodeToString(c.input)}
		if result.refused {
			line.Error = true
			refused++
		} else {
			canonical, same := hex.EncodeToString(result.canonical), bytes.Equal(result.canonical, c.input)
			line.Canonical, line.AlreadyCanonical = &canonical, &same
			line.SHA256 = hex.EncodeToString(result.hash[:])
			valid++
			if same {
				already++
			}
		}
		if c.dynamicDiffers {
			line.DynamicDiffers = true
			differing++
		}

		encoded, err := json.Marshal(line)
		if err != nil {
			return nil, "", err
		}
		separator := ",\n"
		if i == 0 {
			separator = "[\n"
		}
		out.WriteString(separator)
		out.Write(encoded)
	}
	if len(problems) > 0 {
		return nil, "", errors.Join(problems...)
	}
	out.WriteString("\n]\n")
	count = fmt.Sprintf("%d vectors: %d accepted (%d already canonical), %d refused, %d where dynamicpb differs",
		len(s.cases), valid, already, refused, differing)
	return out.Bytes(), count, nil
}
