package tests

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	rpc "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// The protocols.
const (
	overConnect = "connect"
	overGRPC    = "grpc"
	overGRPCWeb = "grpc-web"
)

// answer is an answer of a server, whatever the protocol.
type answer struct {
	code   code.Code
	reason string
	// retryAfter is the delay of a RetryInfo, if there is one.
	retryAfter *durationpb.Duration
	metadata   []field
	// isInTrailers says whether an error of gRPC has headers before its trailers.
	isInTrailers bool
	// hasNoMessage says whether a success has no message.
	hasNoMessage bool
}

// created is the success of the layer.
var created = answer{metadata: []field{{"idempotency-status", "completed"}}}

// replayed is its replay.
var replayed = answer{metadata: []field{{"idempotency-status", "completed"}, {"idempotent-replayed", "true"}}}

// kept is an error that ends an operation, whatever was before.
var kept = answer{code: code.Code_ALREADY_EXISTS, metadata: []field{{"idempotency-outcome", "kept"}}}

func refusal(code code.Code, reason string) answer { return answer{code: code, reason: reason} }

func mustMarshal(message proto.Message) []byte {
	bytes, err := proto.Marshal(message)
	if err != nil {
		panic(err)
	}
	return bytes
}

func (a answer) status() *rpc.Status {
	status := &rpc.Status{Code: int32(a.code), Message: "an error"}
	add := func(message proto.Message) {
		detail, err := anypb.New(message)
		if err != nil {
			panic(err)
		}
		status.Details = append(status.Details, detail)
	}
	if a.reason != "" {
		add(&errdetails.ErrorInfo{Reason: a.reason, Domain: "tonic-idempotency"})
	}
	if a.retryAfter != nil {
		add(&errdetails.RetryInfo{RetryDelay: a.retryAfter})
	}
	return status
}

func (a answer) message() []byte { return mustMarshal(wrapperspb.String("created")) }

// frame returns a message of gRPC, or the trailers of gRPC-Web.
func frame(flags byte, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(message))), message...)
}

// over returns the answer in a protocol.
func (a answer) over(protocol string) response {
	if protocol == overConnect {
		return a.overConnect()
	}
	contentType := field{"content-type", map[string]string{overGRPC: "application/grpc", overGRPCWeb: "application/grpc-web+proto"}[protocol]}
	status := []field{{"grpc-status", fmt.Sprint(int32(a.code))}}
	if a.code != 0 {
		details := base64.RawStdEncoding.EncodeToString(mustMarshal(a.status()))
		status = append(status, field{"grpc-message", "an error"}, field{"grpc-status-details-bin", details})
	}
	if a.code != 0 && !a.isInTrailers {
		return response{status: 200, header: append(append([]field{contentType}, a.metadata...), status...)}
	}
	response := response{status: 200, header: append([]field{contentType}, a.metadata...)}
	if a.code == 0 && !a.hasNoMessage {
		response.body = frame(0, a.message())
	}
	if protocol == overGRPC {
		response.trailer = status
		return response
	}
	var trailers strings.Builder
	for _, field := range status {
		fmt.Fprintf(&trailers, "%s: %s\r\n", field.name, field.value)
	}
	response.body = append(response.body, frame(0x80, []byte(trailers.String()))...)
	return response
}

// httpStatuses are those of the codes in the Connect protocol.
var httpStatuses = map[code.Code]int{
	code.Code_CANCELLED: 499, code.Code_UNKNOWN: 500, code.Code_INVALID_ARGUMENT: 400, code.Code_DEADLINE_EXCEEDED: 504,
	code.Code_NOT_FOUND: 404, code.Code_ALREADY_EXISTS: 409, code.Code_PERMISSION_DENIED: 403, code.Code_RESOURCE_EXHAUSTED: 429,
	code.Code_FAILED_PRECONDITION: 400, code.Code_ABORTED: 409, code.Code_OUT_OF_RANGE: 400, code.Code_UNIMPLEMENTED: 501,
	code.Code_INTERNAL: 500, code.Code_UNAVAILABLE: 503, code.Code_DATA_LOSS: 500, code.Code_UNAUTHENTICATED: 401,
}

func (a answer) overConnect() response {
	if a.code == 0 {
		header := append([]field{{"content-type", "application/proto"}}, a.metadata...)
		return response{status: http.StatusOK, header: header, body: a.message()}
	}
	type detail struct {
		Type  string `json:"type"`
		Value string `json:"value"`
	}
	details := []detail{}
	for _, it := range a.status().Details {
		name := it.TypeUrl[strings.LastIndex(it.TypeUrl, "/")+1:]
		details = append(details, detail{name, base64.RawStdEncoding.EncodeToString(it.Value)})
	}
	name := strings.ToLower(a.code.String())
	if a.code == code.Code_CANCELLED {
		name = "canceled"
	}
	body, err := json.Marshal(map[string]any{"code": name, "message": "an error", "details": details})
	if err != nil {
		panic(err)
	}
	return response{status: httpStatuses[a.code], header: append([]field{{"content-type", "application/json"}}, a.metadata...), body: body}
}

// page is an answer of a proxy: HTML, or the JSON of a gateway.
func page(status int, contentType, body string) response {
	return response{status: status, header: []field{{"content-type", contentType}}, body: []byte(body)}
}

func html(status int) response {
	return page(status, "text/html", "<html><body>"+http.StatusText(status)+"</body></html>")
}

func duration(it time.Duration) *durationpb.Duration { return durationpb.New(it) }
