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

// TakesKey says whether calls of a procedure get a key: by its schema, or else by the registered descriptors.
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
	for len(options) > 0 {
		number, _, length := protowire.ConsumeField(options)
		if number == 51915 || length < 0 {
			return length >= 0
		}
		options = options[length:]
	}
	return false
}

// Stream warns if a procedure takes keys: a stream passes without one.
func (c *Client) Stream(procedure string, schema any) {
	if c.TakesKey(procedure, schema) {
		c.warn(procedure, "a stream has no idempotency key, and is not sent again")
	}
}

// warn warns of a procedure once.
func (c *Client) warn(procedure, text string) {
	if _, warned := c.warned.LoadOrStore(procedure+text, true); !warned {
		slog.Warn(text, "procedure", procedure)
	}
}
