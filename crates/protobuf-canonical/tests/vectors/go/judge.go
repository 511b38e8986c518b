package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	// Register the messages.
	_ "tonic-idempotency/vectors/vectorspb"
	_ "tonic-idempotency/vectors/vectorspb/edition2023"
	_ "tonic-idempotency/vectors/vectorspb/edition2023_implicit"
	_ "tonic-idempotency/vectors/vectorspb/edition2023_legacy"
	_ "tonic-idempotency/vectors/vectorspb/edition2024"
)

// judge returns the vector with protobuf-go's results for its input.
func judge(v vector) (vector, error) {
	messageType, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(v.Message))
	if err != nil {
		return v, err
	}
	judged := vector{Name: v.Name, Message: v.Message, Input: v.Input, JSON: v.JSON, Base64: v.Base64}
	if v.Input == nil {
		return judgeJSON(judged, messageType.New())
	}
	input, err := hex.DecodeString(*v.Input)
	if err != nil {
		return v, err
	}
	return judgeBinary(judged, messageType, input)
}

// judgeBinary runs protobuf-go with generated code, whose results are returned, and with dynamicpb, which may differ.
func judgeBinary(v vector, generated protoreflect.MessageType, input []byte) (vector, error) {
	canonical, refusal := recode(generated.New().Interface(), input, proto.UnmarshalOptions{})
	dynamic, dynamicRefusal := recodeDynamic(generated.Descriptor(), input)
	v.DynamicDiffers = (refusal == nil) != (dynamicRefusal == nil) || !bytes.Equal(canonical, dynamic)
	if refusal != nil {
		v.Error = true
		return v, nil
	}
	again, err := recode(generated.New().Interface(), canonical, proto.UnmarshalOptions{})
	if err != nil || !bytes.Equal(again, canonical) {
		return v, fmt.Errorf("is not stable: %x becomes %x (%v)", canonical, again, err)
	}
	encoded, same, hash := hex.EncodeToString(canonical), bytes.Equal(canonical, input), sha256.Sum256(canonical)
	v.Canonical, v.AlreadyCanonical, v.SHA256 = &encoded, &same, hex.EncodeToString(hash[:])
	return v, nil
}

// judgeJSON reads the text, and writes the message in protojson's most compact form, if protojson can write it.
func judgeJSON(v vector, message protoreflect.Message) (vector, error) {
	text := v.Base64
	if v.JSON != nil {
		text = []byte(*v.JSON)
	}
	if err := (protojson.UnmarshalOptions{AllowPartial: true}).Unmarshal(text, message.Interface()); err != nil {
		v.Error = true
		return v, nil
	}
	canonical, err := canonicalOf(message.Interface())
	if err != nil {
		return v, err
	}
	encoded := hex.EncodeToString(canonical)
	v.Canonical = &encoded
	written, err := protojson.MarshalOptions{AllowPartial: true}.Marshal(message.Interface())
	if err != nil {
		return v, nil
	}
	// protojson adds random spaces.
	var compact bytes.Buffer
	if err := json.Compact(&compact, written); err != nil {
		return v, err
	}
	compacted := compact.String()
	v.Written = &compacted
	return v, nil
}

// recode decodes into an empty message and encodes it again. This defines the canonical encoding.
func recode(message proto.Message, input []byte, options proto.UnmarshalOptions) ([]byte, error) {
	options.AllowPartial = true
	if err := options.Unmarshal(input, message); err != nil {
		return nil, err
	}
	return canonicalOf(message)
}

// recodeDynamic does the same with dynamicpb, which panics on some inputs.
func recodeDynamic(descriptor protoreflect.MessageDescriptor, input []byte) (canonical []byte, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			canonical, err = nil, fmt.Errorf("panic: %v", cause)
		}
	}()
	types := dynamicpb.NewTypes(protoregistry.GlobalFiles)
	return recode(dynamicpb.NewMessage(descriptor), input, proto.UnmarshalOptions{Resolver: types})
}

func canonicalOf(message proto.Message) ([]byte, error) {
	return proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(message)
}
