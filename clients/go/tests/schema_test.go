package tests

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The descriptors that generated code would register: those of the option, and of a service that uses it.
func init() {
	registry := protoregistry.GlobalFiles
	option := register(registry, &descriptorpb.FileDescriptorProto{
		Name: proto.String("tests/option.proto"), Syntax: proto.String("proto3"), Package: proto.String("tests.option"),
		Dependency:  []string{"google/protobuf/descriptor.proto"},
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Procedure")}},
		Extension: []*descriptorpb.FieldDescriptorProto{{
			Name: proto.String("procedure"), Number: proto.Int32(51915), Extendee: proto.String(".google.protobuf.MethodOptions"),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(),
			TypeName: proto.String(".tests.option.Procedure"),
		}},
	})
	known := &descriptorpb.MethodOptions{}
	proto.SetExtension(known, dynamicpb.NewExtensionType(option.Extensions().Get(0)), dynamicpb.NewMessage(option.Messages().Get(0)))
	unknown := &descriptorpb.MethodOptions{IdempotencyLevel: descriptorpb.MethodOptions_IDEMPOTENT.Enum()}
	unknown.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 51915, protowire.BytesType), nil))
	text := proto.String("." + string((&wrapperspb.StringValue{}).ProtoReflect().Descriptor().FullName()))
	method := func(name string, options *descriptorpb.MethodOptions, streams bool) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{
			Name: &name, InputType: text, OutputType: text, Options: options, ServerStreaming: &streams,
		}
	}
	register(registry, &descriptorpb.FileDescriptorProto{
		Name: proto.String("tests/orders.proto"), Syntax: proto.String("proto3"), Package: proto.String("tests.v1"),
		Dependency: []string{"google/protobuf/wrappers.proto"},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: proto.String("OrderService"),
			Method: []*descriptorpb.MethodDescriptorProto{
				method("CreateOrder", known, false), method("CancelOrder", unknown, false), method("GetOrder", nil, false),
				method("WatchOrders", known, true),
			},
		}},
	})
}

func register(registry *protoregistry.Files, file *descriptorpb.FileDescriptorProto) protoreflect.FileDescriptor {
	descriptor, err := protodesc.NewFile(file, registry)
	if err != nil {
		panic(err)
	}
	if err := registry.RegisterFile(descriptor); err != nil {
		panic(err)
	}
	return descriptor
}
