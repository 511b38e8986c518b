package main

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	idempotency "tonic-idempotency/go"
	"tonic-idempotency/go/connectidempotency"
)

// attemptTimeout is short: the networks of these tests hang.
const attemptTimeout = time.Second

// idempotentClient calls with an interceptor that repeats calls, between two that watch it.
type idempotentClient struct {
	client
}

// watch is what is seen of a call.
type watch struct {
	// sent counts the requests.
	sent atomic.Int32
	// unresolved is set if the interceptor does not know what became of the operation.
	unresolved *idempotency.UnresolvedError
}

type watchKey struct{}

func watchOf(ctx context.Context) *watch { return ctx.Value(watchKey{}).(*watch) }

func newIdempotentGrpc(address, config string) (*idempotentClient, error) {
	above := func(ctx context.Context, method string, request, reply any, channel *grpc.ClientConn, invoke grpc.UnaryInvoker,
		options ...grpc.CallOption) error {
		err := invoke(ctx, method, request, reply, channel, options...)
		errors.As(err, &watchOf(ctx).unresolved)
		return err
	}
	below := func(ctx context.Context, method string, request, reply any, channel *grpc.ClientConn, invoke grpc.UnaryInvoker,
		options ...grpc.CallOption) error {
		watchOf(ctx).sent.Add(1)
		return invoke(ctx, method, request, reply, channel, options...)
	}
	interceptor := idempotency.NewInterceptor(idempotency.Settings{AttemptTimeout: attemptTimeout})
	client, err := newGrpc(address, config, grpc.WithChainUnaryInterceptor(above, interceptor.Unary, below))
	return &idempotentClient{client}, err
}

func newIdempotentConnect(address string, protocol connectProtocol) *idempotentClient {
	above := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			response, err := next(ctx, request)
			errors.As(err, &watchOf(ctx).unresolved)
			return response, err
		}
	})
	below := connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
			watchOf(ctx).sent.Add(1)
			return next(ctx, request)
		}
	})
	interceptor := connectidempotency.NewInterceptor(connectidempotency.Settings{AttemptTimeout: attemptTimeout})
	protocol.options = slices.Concat(protocol.options, []connect.ClientOption{connect.WithInterceptors(above, interceptor, below)})
	return &idempotentClient{newConnect(address, protocol)}
}

func (c *idempotentClient) call(ctx context.Context, method *method, headers [][2]string) (*Reply, error) {
	watch := new(watch)
	reply, err := c.client.call(context.WithValue(ctx, watchKey{}, watch), method, headers)
	if err != nil {
		return nil, err
	}
	reply.Verdict, reply.Attempts = "ended", int(watch.sent.Load())
	if watch.unresolved != nil {
		reply.Verdict, reply.Attempts = "unknown", watch.unresolved.Attempts
	}
	reply.Replayed = slices.Contains(reply.Headers, [2]string{"idempotent-replayed", "true"})
	return reply, nil
}
