package main

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"tonic-idempotency/clients/descriptors"

	// Registers the error details.
	_ "google.golang.org/genproto/googleapis/rpc/errdetails"
)

// schema has the service's descriptors.
type schema struct {
	files *protoregistry.Files
}

// method is a procedure and the request to call it with.
type method struct {
	descriptor protoreflect.MethodDescriptor
	path       string
	request    *dynamicpb.Message
}

func readSchema(path string) (*schema, error) {
	files, err := descriptors.Read(path)
	if err != nil {
		return nil, err
	}
	return &schema{files}, register(files)
}

// register registers the files with services, as generated code does.
func register(files *protoregistry.Files) (failed error) {
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if file.Services().Len() > 0 {
			failed = protoregistry.GlobalFiles.RegisterFile(file)
		}
		return failed == nil
	})
	return failed
}

// method finds a procedure such as `organization.v1.ProjectService/CreateProject`.
func (s *schema) method(procedure string, request []byte) (*method, error) {
	found, err := s.files.FindDescriptorByName(protoreflect.FullName(strings.Replace(procedure, "/", ".", 1)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", procedure, err)
	}
	descriptor, ok := found.(protoreflect.MethodDescriptor)
	if !ok {
		return nil, fmt.Errorf("%s is not a procedure", procedure)
	}
	message := dynamicpb.NewMessage(descriptor.Input())
	if err := protojson.Unmarshal(request, message); err != nil {
		return nil, err
	}
	return &method{descriptor, "/" + procedure, message}, nil
}

// newResponse returns an empty response message of the procedure.
func (m *method) newResponse() *dynamicpb.Message {
	return dynamicpb.NewMessage(m.descriptor.Output())
}

// detail converts a detail that a client has decoded.
func detail(message proto.Message) (Detail, error) {
	value, err := protojson.Marshal(message)
	return Detail{string(message.ProtoReflect().Descriptor().FullName()), value}, err
}
