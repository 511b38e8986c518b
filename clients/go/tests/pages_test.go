package tests

import (
	"testing"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
)

// A proxy's page hides what became of a call that has taken effect. A library makes a code of it that would end the operation.
func TestAPageDoesNotEndAnOperation(t *testing.T) {
	hidden := map[int]codes.Code{401: codes.Unauthenticated, 403: codes.PermissionDenied, 404: codes.Unimplemented}
	onEach(t, func(t *testing.T, caller caller) {
		for status, code := range hidden {
			for _, it := range []response{html(status), page(status, "application/json", `{"message": "no"}`)} {
				server := serve(t, it, replayed.over(caller.protocol))
				call := caller.dial(t, server, quick)
				unresolved := wantUnresolved(t, call(t.Context(), createOrder, ""), server, 1, code)
				wantCreated(t, call(t.Context(), createOrder, unresolved.Key), true)
				wantRequests(t, server, 2)
			}
		}
	})
}

func TestAPageOfAGatewayIsFollowedByAReplay(t *testing.T) {
	onEach(t, func(t *testing.T, caller caller) {
		server := serve(t, html(502), html(503), html(504), html(429), replayed.over(caller.protocol))
		wantCreated(t, caller.dial(t, server, quick)(t.Context(), createOrder, ""), true)
		wantRequests(t, server, 5)
	})
}

// A server's own error with such a code ends the operation, except that connect-go hides in the Connect protocol if it is the server's own.
func TestAServersOwnErrorEndsAnOperation(t *testing.T) {
	onEach(t, func(t *testing.T, caller caller) {
		for _, it := range []code.Code{code.Code_UNAUTHENTICATED, code.Code_PERMISSION_DENIED, code.Code_UNIMPLEMENTED, code.Code_NOT_FOUND} {
			server := serve(t, answer{code: it}.over(caller.protocol))
			result := caller.dial(t, server, quick)(t.Context(), createOrder, "")
			isHidden := caller.protocol == overConnect && it != code.Code_NOT_FOUND
			if (result.unresolved() != nil) != isHidden || result.code != codes.Code(it) {
				t.Errorf("%v: %v", it, result.err)
			}
			// A word of the layer tells.
			server = serve(t, answer{code: it, metadata: kept.metadata}.over(caller.protocol))
			if result := caller.dial(t, server, quick)(t.Context(), createOrder, ""); result.unresolved() != nil {
				t.Errorf("%v, kept: %v", it, result.err)
			}
		}
	})
}
