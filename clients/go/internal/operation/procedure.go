package operation

import (
	"log/slog"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// TakesKey says whether calls of a procedure get a key: by the settings, its schema, or else the registered descriptors.
func (c *Client) TakesKey(procedure string, schema any) bool {
	method, ok := schema.(protoreflect.MethodDescriptor)
	if !ok {
		name := strings.ReplaceAll(strings.TrimPrefix(procedure, "/"), "/", ".")
		found, _ := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		method, ok = found.(protoreflect.MethodDescriptor)
	}
	return slices.Contains(c.settings.Procedures, procedure) || ok && hasOption(method)
}

// hasOption looks for (idempotency.v1.procedure) in the bytes of the options: the program need not know it.
func hasOption(method protoreflect.MethodDescriptor) bool {
	options, _ := proto.Marshal(method.Options())
	for length := 0; len(options) > 0 && length >= 0; options = options[max(length, 0):] {
		var number protowire.Number
		if number, _, length = protowire.ConsumeField(options); number == 51915 {
			return true
		}
	}
	return false
}

// Stream warns once if the procedure takes keys: a stream has none.
func (c *Client) Stream(procedure string, schema any) {
	if c.TakesKey(procedure, schema) {
		c.warn(procedure, "a stream has no idempotency key, and is not sent again")
	}
}

func (c *Client) warn(procedure, text string) {
	if _, warned := c.warned.LoadOrStore(procedure+text, true); !warned {
		slog.Warn(text, "procedure", procedure)
	}
}
