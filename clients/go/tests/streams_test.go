package tests

import (
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	idempotency "tonic-idempotency/go"
	"tonic-idempotency/go/connectidempotency"
)

func TestAStreamPassesWithOneWarning(t *testing.T) {
	t.Parallel()
	const grpcStream, connectStream = "/grpc.v1.Streams/Watch", "/connect.v1.Streams/Watch"
	for _, procedure := range []string{grpcStream, connectStream, watchOrders} {
		warnings.forget(procedure)
	}
	settings := idempotency.Settings{Procedures: []string{grpcStream, connectStream}}

	server := serve(t, created.over(overGRPC))
	interceptor := idempotency.NewInterceptor(settings)
	channel, err := grpc.NewClient("unix:"+server.socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithStreamInterceptor(interceptor.Stream))
	if err != nil {
		t.Fatal(err)
	}
	defer channel.Close()
	for _, procedure := range []string{grpcStream, grpcStream, getOrder, watchOrders} {
		stream, err := channel.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, procedure)
		if err != nil {
			t.Fatal(err)
		}
		var message wrapperspb.StringValue
		if err := stream.SendMsg(wrapperspb.String("")); err != nil {
			t.Fatal(err)
		}
		stream.CloseSend()
		if err := stream.RecvMsg(&message); err != nil || message.Value != "created" {
			t.Errorf("%v, and the message %q", err, message.Value)
		}
	}

	web := serve(t, created.over(overGRPCWeb))
	options := []connect.ClientOption{connect.WithGRPCWeb(), connect.WithInterceptors(connectidempotency.NewInterceptor(settings))}
	client := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](newHTTPClient(t, web, overGRPCWeb), "http://server"+connectStream, options...)
	for range 2 {
		stream, err := client.CallServerStream(t.Context(), connect.NewRequest(wrapperspb.String("")))
		if err != nil {
			t.Fatal(err)
		}
		if !stream.Receive() || stream.Msg().Value != "created" {
			t.Errorf("%v, and the message %v", stream.Err(), stream.Msg())
		}
		stream.Close()
	}

	for procedure, want := range map[string]int{grpcStream: 1, connectStream: 1, watchOrders: 1, getOrder: 0} {
		if warned := warnings.of(procedure); len(warned) != want {
			t.Errorf("%s: %q", procedure, warned)
		}
	}
	for _, request := range append(server.received(), web.received()...) {
		if request.key() != "" {
			t.Errorf("%s has the key %s", request.path, request.key())
		}
	}
}
