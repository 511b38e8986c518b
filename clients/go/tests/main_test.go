// Package tests has the tests of both interceptors, on servers that send just the answers of a script.
package tests

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests wait most of their time.
	if err := flag.Set("test.parallel", "64"); err != nil {
		panic(err)
	}
	slog.SetDefault(slog.New(&warnings))
	var err error
	if sockets, err = os.MkdirTemp("", "idempotency"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(sockets)
	os.Exit(code)
}

// warnings are the warnings of all tests.
var warnings recorder

// recorder is a log that is kept.
type recorder struct {
	mutex sync.Mutex
	lines []line
}

type line struct{ procedure, text string }

// of returns the warnings of a procedure.
func (r *recorder) of(procedure string) (texts []string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, line := range r.lines {
		if line.procedure == procedure {
			texts = append(texts, line.text)
		}
	}
	return texts
}

// forget removes the warnings of a procedure, of an earlier run.
func (r *recorder) forget(procedure string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.lines = slices.DeleteFunc(r.lines, func(line line) bool { return line.procedure == procedure })
}

func (r *recorder) Enabled(context.Context, slog.Level) bool { return true }
func (r *recorder) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *recorder) WithGroup(string) slog.Handler            { return r }

func (r *recorder) Handle(_ context.Context, record slog.Record) error {
	written := line{text: record.Message}
	record.Attrs(func(attribute slog.Attr) bool {
		if attribute.Key == "procedure" {
			written.procedure = attribute.Value.String()
		}
		return true
	})
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.lines = append(r.lines, written)
	return nil
}
