package tests

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const retryPolicy = `{"methodConfig": [{"name": [{}], "retryPolicy": {
	"maxAttempts": 5, "initialBackoff": "0.001s", "maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]
}}]}`

// A channel with a retry policy hides that the first of two answers was no answer.
func TestAChannelsOwnRetriesAreOff(t *testing.T) {
	t.Parallel()
	script := []response{answer{code: code.Code_UNAVAILABLE}.over(overGRPC), answer{code: code.Code_NOT_FOUND}.over(overGRPC)}

	alone := serve(t, script...)
	channel, err := grpc.NewClient("unix:"+alone.socket, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(retryPolicy))
	if err != nil {
		t.Fatal(err)
	}
	defer channel.Close()
	err = channel.Invoke(t.Context(), createOrder, wrapperspb.String(""), &wrapperspb.StringValue{})
	if requests := len(alone.received()); requests != 2 {
		t.Fatalf("the channel alone sends %d requests: %v", requests, err)
	}

	settings := quick
	settings.MaxAttempts = 1
	server := serve(t, script...)
	result := dialGRPC(t, server, settings, grpc.WithDefaultServiceConfig(retryPolicy))(t.Context(), createOrder, "")
	wantUnresolved(t, result, server, 1, codes.Unavailable)
	wantRequests(t, server, 1)

	server = serve(t, script...)
	result = dialGRPC(t, server, quick, grpc.WithDefaultServiceConfig(retryPolicy))(t.Context(), createOrder, "")
	wantUnresolved(t, result, server, 2, codes.NotFound)
	wantRequests(t, server, 2)
}

// net/http repeats a request with an idempotency key by itself, if a connection that was used before breaks: it takes the request for
// idempotent.
func TestARequestThatTheTransportRepeatsIsNoticed(t *testing.T) {
	t.Parallel()
	script := []response{created.over(overConnect), lost, answer{code: code.Code_NOT_FOUND}.over(overConnect)}

	alone := serve(t, script...)
	client := newHTTPClient(t, alone, overConnect)
	for _, key := range []string{"", "key"} {
		request, err := http.NewRequest(http.MethodPost, "http://server"+createOrder, bytes.NewReader([]byte("message")))
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			request.Header.Set("Idempotency-Key", key)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	if requests := len(alone.received()); requests != 3 {
		t.Fatalf("net/http alone sends %d requests", requests)
	}

	for _, caller := range callers[1:] {
		if caller.protocol == overGRPC {
			continue // HTTP/2 repeats only requests that were not processed.
		}
		first, last := created.over(caller.protocol), answer{code: code.Code_NOT_FOUND}.over(caller.protocol)
		server := serve(t, first, lost, last)
		call := caller.dial(t, server, quick)
		wantCreated(t, call(t.Context(), createOrder, callersOwn), false)
		wantUnresolved(t, call(t.Context(), createOrder, callersOwn), server, 1, codes.NotFound)
		wantRequests(t, server, 3)
	}
}
