package tests

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	idempotency "tonic-idempotency/go"
	"tonic-idempotency/go/connectidempotency"
)

// The procedures of the tests. The first has the option, as the program knows it, and the second as it does not.
const (
	createOrder  = "/tests.v1.OrderService/CreateOrder"
	cancelOrder  = "/tests.v1.OrderService/CancelOrder"
	getOrder     = "/tests.v1.OrderService/GetOrder"
	watchOrders  = "/tests.v1.OrderService/WatchOrders"
	undescribed  = "/unknown.v1.Service/Procedure"
	callersOwn   = "5e2f4c39-8d0c-4f0f-8f0e-6b8d33a0b0ce"
	messageOfAll = "an order"
)

// result is the result of a call.
type result struct {
	err      error
	code     codes.Code
	message  string
	status   string
	replayed bool
	took     time.Duration
}

// unresolved returns the error of an unknown outcome, if it is one.
func (r result) unresolved() *idempotency.UnresolvedError {
	var unresolved *idempotency.UnresolvedError
	errors.As(r.err, &unresolved)
	return unresolved
}

// caller is a client library with one protocol, and with the interceptor.
type caller struct {
	name     string
	protocol string
	// dial returns a function that calls a procedure of this server. The key may be empty.
	dial func(t testing.TB, server *rawServer, settings idempotency.Settings) call
}

type call func(ctx context.Context, procedure, key string) result

var callers = []caller{
	{"grpc-go", overGRPC, func(t testing.TB, server *rawServer, settings idempotency.Settings) call {
		return dialGRPC(t, server, settings)
	}},
	{"connect-go", overConnect, dialConnect(overConnect)},
	{"connect-go", overGRPC, dialConnect(overGRPC, connect.WithGRPC())},
	{"connect-go", overGRPCWeb, dialConnect(overGRPCWeb, connect.WithGRPCWeb())},
}

// onEach runs a test with each caller, all at the same time.
func onEach(t *testing.T, test func(t *testing.T, caller caller)) {
	t.Parallel()
	for _, caller := range callers {
		t.Run(caller.name+" over "+caller.protocol, func(t *testing.T) {
			t.Parallel()
			test(t, caller)
		})
	}
}

// newChannel returns a channel of grpc-go to a server, with the interceptor.
func newChannel(t testing.TB, server *rawServer, settings idempotency.Settings, options ...grpc.DialOption) *grpc.ClientConn {
	interceptor := idempotency.NewInterceptor(settings)
	options = append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(interceptor.Unary),
		grpc.WithStreamInterceptor(interceptor.Stream),
	}, options...)
	channel, err := grpc.NewClient("unix:"+server.socket, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { channel.Close() })
	return channel
}

func dialGRPC(t testing.TB, server *rawServer, settings idempotency.Settings, options ...grpc.DialOption) call {
	channel := newChannel(t, server, settings, options...)
	return func(ctx context.Context, procedure, key string) result {
		if key != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", key)
		}
		var header metadata.MD
		var reply wrapperspb.StringValue
		began := time.Now()
		err := channel.Invoke(ctx, procedure, wrapperspb.String(messageOfAll), &reply, grpc.Header(&header))
		return result{
			err, status.Code(err), reply.Value, idempotency.Status(header), idempotency.Replayed(header), time.Since(began),
		}
	}
}

func dialConnect(protocol string, options ...connect.ClientOption) func(testing.TB, *rawServer, idempotency.Settings) call {
	return func(t testing.TB, server *rawServer, settings idempotency.Settings) call {
		client := newHTTPClient(t, server, protocol)
		interceptor := connectidempotency.NewInterceptor(settings)
		return func(ctx context.Context, procedure, key string) result {
			client := newConnectClient(client, interceptor, procedure, options...)
			request := connect.NewRequest(wrapperspb.String(messageOfAll))
			if key != "" {
				request.Header().Set("Idempotency-Key", key)
			}
			began := time.Now()
			response, err := client.CallUnary(ctx, request)
			if err != nil {
				return result{err: err, code: codes.Code(connect.CodeOf(err)), took: time.Since(began)}
			}
			header := response.Header()
			return result{
				nil, codes.OK, response.Msg.Value, connectidempotency.Status(header), connectidempotency.Replayed(header), time.Since(began),
			}
		}
	}
}

type connectClient = connect.Client[wrapperspb.StringValue, wrapperspb.StringValue]

func newConnectClient(client *http.Client, interceptor connect.Interceptor, procedure string, options ...connect.ClientOption) *connectClient {
	options = append(options[:len(options):len(options)], connect.WithInterceptors(interceptor))
	return connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](client, "http://server"+procedure, options...)
}

// newHTTPClient returns a client of a server, of HTTP/2 for gRPC, and else of HTTP/1.1.
func newHTTPClient(t testing.TB, server *rawServer, protocol string) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", server.socket)
	}
	transport := &http.Transport{Protocols: new(http.Protocols), DialContext: dial}
	transport.Protocols.SetHTTP1(protocol != overGRPC)
	transport.Protocols.SetUnencryptedHTTP2(protocol == overGRPC)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// quick are settings for a test that does not look at pauses.
var quick = idempotency.Settings{
	AttemptTimeout: 5 * time.Second,
	Backoff:        [2]time.Duration{time.Millisecond, 2 * time.Millisecond},
}
