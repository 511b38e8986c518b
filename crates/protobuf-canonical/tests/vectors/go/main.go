// Command vectors has protobuf-go judge the golden vectors: wire bytes and JSON as they may arrive, each with protobuf-go's
// deterministic encoding of the decoded message. It writes its results into the files that hold the inputs: review the diff.
//
// For a new vector add a line with its name, message and input; protoscope reads and writes the hex. After a change of a .proto file,
// `go generate`, and before it tests/data/editions/compile for an edition's. After an update of protobuf-go, a changed canonical is a
// changed request hash.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
)

//go:generate go run ./gen

// vector is a line of a file: an input, and what protobuf-go makes of it.
type vector struct {
	Name    string `json:"name"`
	Message string `json:"message"`
	// The input: in hex, as JSON, or as text that is not UTF-8.
	Input  *string `json:"input,omitempty"`
	JSON   *string `json:"json,omitempty"`
	Base64 []byte  `json:"base64,omitempty"`
	// The results.
	Canonical        *string `json:"canonical,omitempty"`
	SHA256           string  `json:"sha256,omitempty"`
	AlreadyCanonical *bool   `json:"already_canonical,omitempty"`
	DynamicDiffers   bool    `json:"dynamicpb_differs,omitempty"`
	Written          *string `json:"written,omitempty"`
	Error            bool    `json:"error,omitempty"`
}

func main() {
	log.SetFlags(0)
	for _, name := range []string{"canonical", "json", "editions", "editions_json"} {
		file := "../" + name + ".json"
		count, err := update(file)
		if err != nil {
			log.Fatalf("%s: %v", file, err)
		}
		fmt.Printf("%s: %d vectors\n", file, count)
	}
}

// update judges each vector of a file, and writes the file again: one vector per line, to keep diffs readable.
func update(file string) (count int, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	var vectors []vector
	if err := json.Unmarshal(content, &vectors); err != nil {
		return 0, err
	}
	var out bytes.Buffer
	var problems []error
	known := make(map[string]bool)
	for _, v := range vectors {
		judged, err := judge(v)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", v.Name, err))
			continue
		}
		if known[v.Name] {
			problems = append(problems, fmt.Errorf("%s: two vectors have this name", v.Name))
		}
		known[v.Name] = true
		out.WriteString(map[bool]string{true: "[\n", false: ",\n"}[out.Len() == 0])
		encoder := json.NewEncoder(&out)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(judged); err != nil {
			return 0, err
		}
		out.Truncate(out.Len() - 1) // the newline
	}
	if len(problems) > 0 {
		return 0, errors.Join(problems...)
	}
	out.WriteString("\n]\n")
	return len(vectors), os.WriteFile(file, out.Bytes(), 0o644)
}
