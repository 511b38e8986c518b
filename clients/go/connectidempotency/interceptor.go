// Package connectidempotency gives each operation of a connect-go client one idempotency key, and repeats its call if that may help.
package connectidempotency

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"

	"tonic-idempotency/go/internal/operation"
)

// Settings are those of an interceptor.
type Settings = operation.Settings

// UnresolvedError is the error of a call whose outcome is unknown. connect.CodeOf finds the code of its cause.
type UnresolvedError = operation.UnresolvedError

// NewInterceptor returns an interceptor, whose calls share a budget for further attempts. A key in a request's header wins over a new one.
// The result is a response, the error that ended the operation, or an UnresolvedError. Streams pass, with one warning for each procedure
// that takes keys.
func NewInterceptor(settings Settings) connect.Interceptor {
	return interceptor{operation.NewClient(settings)}
}

type interceptor struct{ client *operation.Client }

func (i interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		spec := request.Spec()
		if !spec.IsClient || !i.client.TakesKey(spec.Procedure, spec.Schema) {
			return next(ctx, request)
		}
		header := request.Header().Clone() // The caller may use the request again, for another operation.
		if len(header.Values("idempotency-key")) == 0 {
			header.Set("idempotency-key", operation.NewKey())
		}
		var response connect.AnyResponse
		err := i.client.Run(ctx, spec.Procedure, header.Get("idempotency-key"), func(ctx context.Context) operation.Answer {
			var sent atomic.Int32
			ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Add(1) }})
			var err error
			response, err = next(ctx, attempt{request, header.Clone()})
			answer := answerOf(response, err, request.Peer().Protocol)
			answer.IsRepeated = sent.Load() > 1 // By net/http, as there is a key.
			return answer
		})
		return response, err
	}
}

func (i interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		i.client.Stream(spec.Procedure, spec.Schema)
		return next(ctx, spec)
	}
}

func (i interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// attempt is a request with a header of its own: the transport may still read that of an attempt which was given up.
type attempt struct {
	connect.AnyRequest
	header http.Header
}

func (a attempt) Header() http.Header { return a.header }

func answerOf(response connect.AnyResponse, err error, protocol string) operation.Answer {
	if err == nil {
		return operation.Answer{Metadata: response.Header().Values}
	}
	var refused *connect.Error
	if !errors.As(err, &refused) {
		refused = connect.NewError(connect.CodeUnknown, err)
	}
	answer := operation.Answer{Err: err, Code: codes.Code(refused.Code()), Metadata: refused.Meta().Values, IsOwn: connect.IsWireError(err)}
	for _, detail := range refused.Details() {
		answer.Details = append(answer.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + detail.Type(), Value: detail.Bytes()})
	}
	// Of a proxy's page in JSON, connect-go makes an error that looks like one of the server.
	ofPages := []connect.Code{connect.CodePermissionDenied, connect.CodeUnauthenticated, connect.CodeUnimplemented}
	if protocol == connect.ProtocolConnect && slices.Contains(ofPages, refused.Code()) {
		answer.IsOwn = false
	}
	var broken *net.OpError
	answer.IsUnsent = errors.As(err, &broken) && broken.Op == "dial"
	answer.IsLost = broken != nil || errors.Is(err, io.ErrUnexpectedEOF) || strings.HasSuffix(refused.Message(), "; received from peer")
	return answer
}

// Status returns the status of the work behind a response, such as "processing", by its header.
func Status(header http.Header) string { return header.Get("idempotency-status") }

// Replayed returns whether a response is that of an earlier attempt, by its header.
func Replayed(header http.Header) bool { return header.Get("idempotent-replayed") == "true" }
