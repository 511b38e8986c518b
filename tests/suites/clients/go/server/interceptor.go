package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// interceptor reserves a key before its handler runs, and completes or unreserves it afterwards.
type interceptor struct {
	store  *store
	output protoreflect.MessageDescriptor
}

func (i *interceptor) wrap(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		key := request.Header().Get("Idempotency-Key")
		if key == "" {
			return next(ctx, request)
		}
		call, err := callOf(request.Header(), key, request.Any())
		if err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, err)
		}
		record, err := i.store.lookUp(ctx, call)
		if err != nil {
			return nil, err
		}
		if record != nil {
			return i.replay(ctx, call, record)
		}
		reserved, err := i.store.reserve(ctx, call)
		if err != nil {
			return nil, err
		}
		if !reserved {
			// Another call was faster.
			record, err := i.store.lookUp(ctx, call)
			if err != nil {
				return nil, err
			}
			return i.replay(ctx, call, record)
		}
		response, err := next(ctx, request)
		if err != nil {
			return nil, errors.Join(err, i.store.unreserve(ctx, call))
		}
		if err := i.complete(ctx, call, response); err != nil {
			return nil, err
		}
		response.Header().Set("Idempotency-Status", "processing")
		return response, nil
	}
}

func (i *interceptor) complete(ctx context.Context, call *call, response connect.AnyResponse) error {
	message := response.Any().(proto.Message)
	encoded, err := proto.Marshal(message)
	if err != nil {
		return err
	}
	project := message.ProtoReflect().Get(i.output.Fields().ByName("project_id")).String()
	return i.store.complete(ctx, call, encoded, project)
}

// replay answers a call whose key has a record; nil if it has gone meanwhile.
func (i *interceptor) replay(ctx context.Context, call *call, record *record) (connect.AnyResponse, error) {
	switch {
	case record == nil:
		return nil, connect.NewError(connect.CodeAborted, errors.New("the first call has failed; retry"))
	case record.procedure != procedure:
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("the key was used for another procedure"))
	case subtle.ConstantTimeCompare(record.hash, call.hash) != 1:
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("the key was used for another request"))
	case record.response == nil:
		return nil, connect.NewError(connect.CodeAborted, errors.New("the first call is running"))
	}
	message := dynamicpb.NewMessage(i.output)
	if err := proto.Unmarshal(record.response, message); err != nil {
		return nil, err
	}
	response := connect.NewResponse(message)
	response.Header().Set("Idempotency-Status", i.store.status(ctx, call, record))
	return response, nil
}

// call is a call with a key.
type call struct {
	key, user string
	hash      []byte
}

func callOf(header http.Header, key string, message any) (*call, error) {
	user, err := subject(header)
	if err != nil {
		return nil, err
	}
	canonical, err := proto.MarshalOptions{Deterministic: true}.Marshal(message.(proto.Message))
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(canonical)
	return &call{key, user, hash[:]}, nil
}
