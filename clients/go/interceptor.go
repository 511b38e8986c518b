// Package idempotency gives each operation of a grpc-go client one idempotency key, and repeats its call if that may help.
package idempotency

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"tonic-idempotency/go/internal/operation"
)

// Settings are those of an interceptor.
type Settings = operation.Settings

// UnresolvedError is the error of a call whose outcome is unknown. status.FromError finds the status of its cause.
type UnresolvedError = operation.UnresolvedError

// Interceptor sends the calls of procedures that take keys. It has to see each attempt: nothing below it may repeat calls.
type Interceptor struct{ client *operation.Client }

// NewInterceptor returns an interceptor, whose calls share a budget for further attempts.
func NewInterceptor(settings Settings) *Interceptor {
	return &Interceptor{operation.NewClient(settings)}
}

// Unary is a grpc.UnaryClientInterceptor. A key in the outgoing metadata wins over a new one. The result is a response, the error that ended
// the operation, or an UnresolvedError. The channel's own retries are off.
func (i *Interceptor) Unary(
	ctx context.Context, method string, request, reply any, channel *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
) error {
	if !i.client.TakesKey(method, nil) {
		return invoke(ctx, method, request, reply, channel, options...)
	}
	keys := metadata.ValueFromOutgoingContext(ctx, "idempotency-key")
	if len(keys) == 0 {
		keys = []string{operation.NewKey()}
		ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", keys[0])
	}
	return i.client.Run(ctx, method, keys[0], func(ctx context.Context) operation.Answer {
		var header, trailer metadata.MD
		var server peer.Peer
		// The channel sends a call again only from its buffer.
		own := []grpc.CallOption{grpc.Header(&header), grpc.Trailer(&trailer), grpc.Peer(&server), grpc.MaxRetryRPCBufferSize(0)}
		err := invoke(ctx, method, request, reply, channel, slices.Concat(options, own)...)
		state, received := status.Convert(err), metadata.Join(trailer, header)
		return operation.Answer{
			Err: err, Code: state.Code(), Details: state.Proto().GetDetails(), Metadata: received.Get,
			IsOwn:    len(received.Get("content-type")) > 0, // grpc-go shows only that of gRPC.
			IsLost:   isLost(state),
			IsUnsent: err != nil && server.Addr == nil,
		}
	})
}

// isLost says whether grpc-go has made this status of a stream that ended without one.
func isLost(it *status.Status) bool {
	return strings.HasPrefix(it.Message(), "stream terminated by RST_STREAM") ||
		it.Message() == "server closed the stream without sending trailers" || it.Code() == codes.Unknown && it.Message() == ""
}

// Stream is a grpc.StreamClientInterceptor. Streams pass, with one warning for each procedure that takes keys.
func (i *Interceptor) Stream(
	ctx context.Context, stream *grpc.StreamDesc, channel *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption,
) (grpc.ClientStream, error) {
	i.client.Stream(method, nil)
	return open(ctx, stream, channel, method, options...)
}

// Status returns the status of the work behind a response, such as "processing", by its header.
func Status(header metadata.MD) string { return strings.Join(header.Get("idempotency-status"), "") }

// Replayed returns whether a response is that of an earlier attempt, by its header.
func Replayed(header metadata.MD) bool {
	return strings.Join(header.Get("idempotent-replayed"), "") == "true"
}
