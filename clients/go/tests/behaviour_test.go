package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"

	idempotency "tonic-idempotency/go"
)

var version7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// wantRequests checks the number of requests, and that they have one key and one message.
func wantRequests(t *testing.T, server *rawServer, count int) []request {
	t.Helper()
	requests := server.received()
	if len(requests) != count {
		t.Fatalf("%d requests, and not %d", len(requests), count)
	}
	for _, request := range requests {
		if first := requests[0]; request.key() != first.key() || !bytes.Equal(request.body, first.body) || request.path != first.path {
			t.Errorf("another attempt: %v, and not %v", request, first)
		}
	}
	return requests
}

// wantUnresolved checks that a result is an unresolved call of this server, and returns its error.
func wantUnresolved(t *testing.T, result result, server *rawServer, attempts int, code codes.Code) *idempotency.UnresolvedError {
	t.Helper()
	unresolved := result.unresolved()
	if unresolved == nil {
		t.Fatalf("not unresolved: %v", result.err)
	}
	requests := server.received()
	if len(requests) == 0 {
		t.Fatalf("no requests: %v", result.err)
	}
	if key := requests[0].key(); unresolved.Key != key || unresolved.Attempts != attempts || result.code != code {
		t.Errorf("%+v with %v, and not key %s, %d attempts and %v", unresolved, result.code, key, attempts, code)
	}
	return unresolved
}

func wantCreated(t *testing.T, result result, replayed bool) {
	t.Helper()
	if result.err != nil || result.message != "created" || result.status != "completed" || result.replayed != replayed {
		t.Errorf("not the response: %+v", result)
	}
}

func TestALostAnswerIsReplayed(t *testing.T) {
	onEach(t, func(t *testing.T, caller caller) {
		server := serve(t, lost, replayed.over(caller.protocol))
		wantCreated(t, caller.dial(t, server, quick)(t.Context(), createOrder, ""), true)
		if requests := wantRequests(t, server, 2); !version7.MatchString(requests[0].key()) {
			t.Errorf("no UUID of version 7: %q", requests[0].key())
		}
	})
}

func TestEachOperationHasItsKey(t *testing.T) {
	onEach(t, func(t *testing.T, caller caller) {
		server := serve(t, created.over(caller.protocol))
		call := caller.dial(t, server, quick)
		wantCreated(t, call(t.Context(), createOrder, ""), false)
		wantCreated(t, call(t.Context(), createOrder, ""), false)
		requests := server.received()
		if one, other := requests[0].key(), requests[1].key(); one == other || len(requests) != 2 {
			t.Errorf("%d requests with the keys %s and %s", len(requests), one, other)
		}
	})
}

func TestACallersKeyWins(t *testing.T) {
	onEach(t, func(t *testing.T, caller caller) {
		server := serve(t, lost, created.over(caller.protocol))
		wantCreated(t, caller.dial(t, server, quick)(t.Context(), createOrder, callersOwn), false)
		requests := wantRequests(t, server, 2)
		if keys := requests[0].header.Values("idempotency-key"); len(keys) != 1 || keys[0] != callersOwn {
			t.Errorf("not the caller's key: %v", keys)
		}
	})
}

func TestWhichProceduresTakeKeys(t *testing.T) {
	settings := quick
	settings.Procedures = []string{undescribed}
	onEach(t, func(t *testing.T, caller caller) {
		for procedure, takesKey := range map[string]bool{
			createOrder: true, cancelOrder: true, getOrder: false, undescribed: true, "/unknown.v1.Service/Other": false,
		} {
			server := serve(t, answer{code: code.Code_UNAVAILABLE}.over(caller.protocol), created.over(caller.protocol))
			result := caller.dial(t, server, settings)(t.Context(), procedure, "")
			if takesKey {
				wantCreated(t, result, false)
				wantRequests(t, server, 2)
			} else if requests := wantRequests(t, server, 1); requests[0].key() != "" || result.code != codes.Unavailable {
				t.Errorf("%s: %v with %v", procedure, result.err, requests[0].header)
			}
		}
	})
}

func TestAnAttemptHasATimeOfItsOwn(t *testing.T) {
	settings := quick
	settings.AttemptTimeout = time.Second
	onEach(t, func(t *testing.T, caller caller) {
		server := serve(t, late, replayed.over(caller.protocol))
		result := caller.dial(t, server, settings)(t.Context(), createOrder, "")
		wantCreated(t, result, true)
		for _, request := range server.received() {
			if request.header.Get("grpc-timeout")+request.header.Get("connect-timeout-ms") == "" {
				t.Errorf("no timeout: %v", request.header)
			}
		}
		if result.took < settings.AttemptTimeout {
			t.Errorf("given up after %v", result.took)
		}
	})
}

func TestAFreeKeyIsAskedForLater(t *testing.T) {
	settings := quick
	settings.AttemptTimeout = time.Second
	onEach(t, func(t *testing.T, caller caller) {
		freed := answer{code: code.Code_INVALID_ARGUMENT, metadata: []field{{"idempotency-outcome", "freed"}}}
		server := serve(t, lost, freed.over(caller.protocol))
		result := caller.dial(t, server, settings)(t.Context(), createOrder, "")
		if result.code != codes.InvalidArgument || result.unresolved() != nil || result.took < settings.AttemptTimeout {
			t.Errorf("%v after %v", result.err, result.took)
		}
		if requests := len(server.received()); requests < 3 {
			t.Errorf("%d requests", requests)
		}
	})
}

func TestTheOperationEndsInTime(t *testing.T) {
	settings := quick
	settings.OperationTimeout = 2 * time.Second
	onEach(t, func(t *testing.T, caller caller) {
		server := serve(t, late)
		result := caller.dial(t, server, settings)(t.Context(), createOrder, "")
		wantUnresolved(t, result, server, 1, codes.DeadlineExceeded)
	})
}

func TestTheCallersDeadlineCounts(t *testing.T) {
	settings := quick
	settings.OperationTimeout = time.Millisecond
	onEach(t, func(t *testing.T, caller caller) {
		// It leaves no time for the delay of the second answer.
		busy := answer{code: code.Code_UNAVAILABLE, retryAfter: duration(time.Hour)}
		server := serve(t, lost, busy.over(caller.protocol))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		result := caller.dial(t, server, settings)(ctx, createOrder, "")
		wantUnresolved(t, result, server, 2, codes.Unavailable)
		wantRequests(t, server, 2)
	})
}

// cancelledAfter returns a context that is cancelled this time after the first request.
func cancelledAfter(t *testing.T, server *rawServer, wait time.Duration) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for len(server.received()) == 0 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(wait)
		cancel()
	}()
	return ctx
}

func TestACancelledCallIsUnresolved(t *testing.T) {
	onEach(t, func(t *testing.T, caller caller) {
		server := serve(t, late)
		ctx := cancelledAfter(t, server, 0)
		result := caller.dial(t, server, quick)(ctx, createOrder, "")
		wantUnresolved(t, result, server, 1, codes.Canceled)
	})
}

func TestACallThatIsCancelledInAPauseIsUnresolved(t *testing.T) {
	onEach(t, func(t *testing.T, caller caller) {
		busy := answer{code: code.Code_UNAVAILABLE, retryAfter: duration(30 * time.Second)}
		server := serve(t, busy.over(caller.protocol))
		ctx := cancelledAfter(t, server, time.Second)
		result := caller.dial(t, server, quick)(ctx, createOrder, "")
		wantUnresolved(t, result, server, 1, codes.Unavailable)
	})
}

func TestACallThatWasNotSentIsNotUnresolved(t *testing.T) {
	onEach(t, func(t *testing.T, caller caller) {
		server := serve(t, created.over(caller.protocol))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		result := caller.dial(t, server, quick)(ctx, createOrder, "")
		if result.code != codes.Canceled || result.unresolved() != nil || len(server.received()) > 0 {
			t.Errorf("%v after %d requests", result.err, len(server.received()))
		}
	})
}

func TestTheAttemptsAreLimited(t *testing.T) {
	settings := quick
	settings.MaxAttempts = 3
	onEach(t, func(t *testing.T, caller caller) {
		running := answer{code: code.Code_ABORTED, reason: "IDEMPOTENCY_IN_PROGRESS", retryAfter: duration(time.Millisecond)}
		server := serve(t, lost, running.over(caller.protocol), running.over(caller.protocol), html(503))
		result := caller.dial(t, server, settings)(t.Context(), createOrder, "")
		unresolved := wantUnresolved(t, result, server, 3, codes.Unavailable)
		wantRequests(t, server, 5) // Asking for a call that runs is no attempt.
		if cause := errors.Unwrap(result.err); cause != unresolved.Cause || cause == nil {
			t.Errorf("the cause is %v", cause)
		}
	})
}

func TestAServersDelayIsObeyed(t *testing.T) {
	onEach(t, func(t *testing.T, caller caller) {
		for name, busy := range map[string]answer{
			"RetryInfo": {code: code.Code_UNAVAILABLE, retryAfter: duration(100 * time.Millisecond)},
			"a reason":  {code: code.Code_ABORTED, reason: "IDEMPOTENCY_CONFLICT", retryAfter: duration(100 * time.Millisecond)},
			"a pushback, which wins": {
				code: code.Code_UNAVAILABLE, retryAfter: duration(time.Hour), metadata: []field{{"grpc-retry-pushback-ms", "100"}},
			},
		} {
			server := serve(t, busy.over(caller.protocol), created.over(caller.protocol))
			wantCreated(t, caller.dial(t, server, quick)(t.Context(), createOrder, ""), false)
			requests := wantRequests(t, server, 2)
			if pause := requests[1].at.Sub(requests[0].at); pause < 100*time.Millisecond {
				t.Errorf("%s: a pause of %v", name, pause)
			}
		}
	})
}

// It runs alone: the budget is that of ten seconds.
func TestAllCallsHaveOneBudget(t *testing.T) {
	settings := quick
	settings.MaxAttempts = 2
	for _, caller := range callers {
		server := serve(t, answer{code: code.Code_UNAVAILABLE}.over(caller.protocol))
		call := caller.dial(t, server, settings)
		for range 105 {
			if call(t.Context(), createOrder, "").unresolved() == nil {
				t.Fatal("not unresolved")
			}
		}
		if requests := len(server.received()); requests != 105+100 {
			t.Errorf("%s over %s: %d requests", caller.name, caller.protocol, requests)
		}
	}
}

func TestASuccessWithoutAStatusIsWarnedOfOnce(t *testing.T) {
	onEach(t, func(t *testing.T, caller caller) {
		procedure := fmt.Sprintf("/%s.v1.%s/Unprotected", caller.name, caller.protocol)
		warnings.forget(procedure)
		settings := quick
		settings.Procedures = []string{procedure}
		server := serve(t, created.over(caller.protocol), answer{}.over(caller.protocol))
		call := caller.dial(t, server, settings)
		for i, want := range []int{0, 1, 1} {
			if result := call(t.Context(), procedure, ""); result.err != nil {
				t.Fatal(result.err)
			}
			if warned := warnings.of(procedure); len(warned) != want {
				t.Errorf("after call %d: %v", i, warned)
			}
		}
	})
}
