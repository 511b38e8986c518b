package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

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

const packageName = "vectors.v1."

// testCase is an input with the output that its author expects.
type testCase struct {
	name           string
	message        string // without the package
	input          []byte
	refused        bool   // protobuf-go must refuse it
	canonical      []byte // the expected output; nil if there is no expectation
	dynamicDiffers bool   // dynamicpb must give another output than the generated code
}

// suite collects the cases, in the order in which canonical.json lists them.
type suite struct {
	cases []testCase
}

// ok adds a vector that protobuf-go accepts.
func (s *suite) ok(name, message string, parts ...[]byte) {
	s.cases = append(s.cases, testCase{name: name, message: message, input: join(parts...)})
}

// becomes adds a vector with its expected canonical form, which also shows the reader the purpose of the vector.
func (s *suite) becomes(name, message string, input, canonical []byte) {
	s.cases = append(s.cases, testCase{name: name, message: message, input: input, canonical: canonical})
}

// keeps adds a vector that is already canonical.
func (s *suite) keeps(name, message string, parts ...[]byte) {
	s.becomes(name, message, join(parts...), join(parts...))
}

// bad adds a vector that protobuf-go refuses.
func (s *suite) bad(name, message string, parts ...[]byte) {
	s.cases = append(s.cases, testCase{name: name, message: message, input: join(parts...), refused: true})
}

// splits adds a vector on which dynamicpb and the generated code disagree.
func (s *suite) splits(name, message string, input, canonical []byte) {
	s.cases = append(s.cases, testCase{
		name: name, message: message, input: input, canonical: canonical, dynamicDiffers: true,
	})
}

// verdict is protobuf-go's result for one input.
type verdict struct {
	refused   bool
	canonical []byte
	hash      [sha256.Size]byte
}

// judge runs protobuf-go with generated code and with dynamicpb, and compares the results with each other and with the
// expectation of the case. The result of the generated code is returned.
func judge(c testCase) (verdict, error) {
	name := protoreflect.FullName(packageName + c.message)
	generated, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if err != nil {
		return verdict{}, err
	}
	canonical, refusal := recode(generated.New().Interface(), c.input, proto.UnmarshalOptions{})
	dynamic, dynamicRefusal := recodeDynamic(generated.Descriptor(), c.input)

	differs := (refusal == nil) != (dynamicRefusal == nil) || !bytes.Equal(canonical, dynamic)
	switch {
	case c.refused && refusal == nil:
		return verdict{}, fmt.Errorf("should be refused, but gives %x", canonical)
	case !c.refused && refusal != nil:
		return verdict{}, fmt.Errorf("should be accepted: %w", refusal)
	case differs && !c.dynamicDiffers:
		return verdict{}, fmt.Errorf("the generated code gives %x (%v), dynamicpb %x (%v)",
			canonical, refusal, dynamic, dynamicRefusal)
	case !differs && c.dynamicDiffers:
		return verdict{}, errors.New("dynamicpb should differ from the generated code, but agrees")
	case c.canonical != nil && !bytes.Equal(c.canonical, canonical):
		return verdict{}, fmt.Errorf("should give %x, but gives %x", c.canonical, canonical)
	case refusal != nil:
		return verdict{refused: true}, nil
	}

	again, err := recode(generated.New().Interface(), canonical, proto.UnmarshalOptions{})
	if err != nil || !bytes.Equal(again, canonical) {
		return verdict{}, fmt.Errorf("is not stable: %x becomes %x (%v)", canonical, again, err)
	}
	return verdict{canonical: canonical, hash: sha256.Sum256(canonical)}, nil
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
