package main

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// grpcClient calls with grpc-go.
type grpcClient struct {
	connection *grpc.ClientConn
}

func newGrpc(address, config string, options ...grpc.DialOption) (*grpcClient, error) {
	plaintext := grpc.WithTransportCredentials(insecure.NewCredentials())
	connection, err := grpc.NewClient(address, append(options, plaintext, grpc.WithDefaultServiceConfig(config))...)
	return &grpcClient{connection}, err
}

func (c *grpcClient) call(ctx context.Context, method *method, headers [][2]string) (*Reply, error) {
	for _, header := range headers {
		ctx = metadata.AppendToOutgoingContext(ctx, header[0], header[1])
	}
	var received metadata.MD
	response := method.newResponse()
	failed := c.connection.Invoke(ctx, method.path, method.request, response, grpc.Header(&received))

	reply := &Reply{Details: []Detail{}, Headers: pairs(received)}
	if failed == nil {
		var err error
		reply.Body, err = protojson.Marshal(response)
		return reply, err
	}
	state, ok := status.FromError(failed)
	if !ok {
		return nil, failed
	}
	reply.Code, reply.Message = int(state.Code()), state.Message()
	for _, decoded := range state.Details() {
		message, ok := decoded.(proto.Message)
		if !ok {
			return nil, fmt.Errorf("cannot decode a detail: %v", decoded)
		}
		detail, err := detail(message)
		if err != nil {
			return nil, err
		}
		reply.Details = append(reply.Details, detail)
	}
	return reply, nil
}
