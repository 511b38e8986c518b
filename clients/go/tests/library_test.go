package tests

import (
	"errors"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"tonic-idempotency/go/connectidempotency"
)

// The caller's own options of grpc-go have the metadata of the last attempt, and its errors have their details.
func TestTheOptionsOfACallerOfGRPC(t *testing.T) {
	t.Parallel()
	busy := answer{code: code.Code_UNAVAILABLE, metadata: []field{{"attempt", "first"}}}
	last := answer{code: code.Code_ABORTED, reason: "IDEMPOTENCY_KEY_REUSED", metadata: []field{{"attempt", "last"}}, isInTrailers: true}
	server := serve(t, busy.over(overGRPC), last.over(overGRPC))
	channel := newChannel(t, server, quick)
	var header, trailer metadata.MD
	err := channel.Invoke(t.Context(), createOrder, wrapperspb.String(""), &wrapperspb.StringValue{}, grpc.Header(&header), grpc.Trailer(&trailer))
	if state, ok := status.FromError(err); !ok || state.Code() != codes.Aborted || len(state.Details()) != 1 {
		t.Errorf("not the server's error: %v", err)
	}
	if it := header.Get("attempt"); len(it) != 1 || it[0] != "last" || len(trailer.Get("grpc-status-details-bin")) != 1 {
		t.Errorf("the header %v, and the trailer %v", header, trailer)
	}
}

// status and connect find the code and the details of the cause of an UnresolvedError.
func TestTheStatusOfAnUnresolvedCall(t *testing.T) {
	t.Parallel()
	unknown := answer{code: code.Code_FAILED_PRECONDITION, reason: "IDEMPOTENCY_OUTCOME_UNKNOWN"}

	server := serve(t, unknown.over(overGRPC))
	err := dialGRPC(t, server, quick)(t.Context(), createOrder, "").err
	if state, ok := status.FromError(err); !ok || state.Code() != codes.FailedPrecondition || len(state.Details()) != 1 {
		t.Errorf("not the cause: %v", err)
	}

	server = serve(t, unknown.over(overConnect))
	err = callers[1].dial(t, server, quick)(t.Context(), createOrder, "").err
	var cause *connect.Error
	var unresolved *connectidempotency.UnresolvedError
	if !errors.As(err, &unresolved) || !errors.As(err, &cause) || cause.Code() != connect.CodeFailedPrecondition || len(cause.Details()) != 1 {
		t.Errorf("not the cause: %v", err)
	}
}

// A request of connect-go may be used again, for another operation.
func TestARequestKeepsNoKey(t *testing.T) {
	t.Parallel()
	server := serve(t, created.over(overConnect))
	client := newConnectClient(newHTTPClient(t, server, overConnect), connectidempotency.NewInterceptor(quick), createOrder)
	request := connect.NewRequest(wrapperspb.String(messageOfAll))
	for range 2 {
		if _, err := client.CallUnary(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	requests := server.received()
	if key := request.Header().Get("idempotency-key"); key != "" || requests[0].key() == requests[1].key() {
		t.Errorf("the keys %q, %s and %s", key, requests[0].key(), requests[1].key())
	}
}

// A call without wrappers of connect-go finds the header of the last attempt in its context.
func TestTheCallInfoOfAConnectCaller(t *testing.T) {
	t.Parallel()
	server := serve(t, lost, replayed.over(overConnect))
	client := newConnectClient(newHTTPClient(t, server, overConnect), connectidempotency.NewInterceptor(quick), createOrder)
	ctx, info := connect.NewClientContext(t.Context())
	info.RequestHeader().Set("Idempotency-Key", callersOwn)
	if _, err := client.CallUnary(ctx, connect.NewRequest(wrapperspb.String(messageOfAll))); err != nil {
		t.Fatal(err)
	}
	if header := info.ResponseHeader(); !connectidempotency.Replayed(header) || connectidempotency.Status(header) != "completed" {
		t.Errorf("not the last attempt's header: %v", header)
	}
	if requests := wantRequests(t, server, 2); requests[0].key() != callersOwn {
		t.Errorf("not the caller's key: %s", requests[0].key())
	}
}
