package main

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/dynamicpb"
)

// connectProtocol is a protocol of connect-go.
type connectProtocol struct {
	// http2 enables HTTP/2 without TLS, which gRPC needs; the others use HTTP/1.1.
	http2   bool
	options []connect.ClientOption
}

var (
	connectGrpc    = connectProtocol{http2: true, options: []connect.ClientOption{connect.WithGRPC()}}
	connectGrpcWeb = connectProtocol{options: []connect.ClientOption{connect.WithGRPCWeb()}}
	connectJSON    = connectProtocol{options: []connect.ClientOption{connect.WithProtoJSON()}}
	connectProto   = connectProtocol{}
)

// connectClient calls with connect-go.
type connectClient struct {
	base    string
	http    *http.Client
	options []connect.ClientOption
}

func newConnect(address string, protocol connectProtocol) *connectClient {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!protocol.http2)
	transport.Protocols.SetUnencryptedHTTP2(protocol.http2)
	return &connectClient{"http://" + address, &http.Client{Transport: transport}, protocol.options}
}

func (c *connectClient) call(ctx context.Context, method *method, headers [][2]string) (*Reply, error) {
	initialize := func(_ connect.Spec, message any) error {
		if dynamic, ok := message.(*dynamicpb.Message); ok {
			*dynamic = *method.newResponse()
		}
		return nil
	}
	options := append([]connect.ClientOption{
		connect.WithSchema(method.descriptor),
		connect.WithResponseInitializer(initialize),
	}, c.options...)
	client := connect.NewClient[dynamicpb.Message, dynamicpb.Message](c.http, c.base+method.path, options...)

	request := connect.NewRequest(method.request)
	for _, header := range headers {
		request.Header().Add(header[0], header[1])
	}
	response, failed := client.CallUnary(ctx, request)
	if failed == nil {
		body, err := protojson.Marshal(response.Msg)
		return &Reply{Details: []Detail{}, Headers: pairs(response.Header()), Body: body}, err
	}
	var refused *connect.Error
	if !errors.As(failed, &refused) {
		return nil, failed
	}
	reply := &Reply{
		Code:    int(refused.Code()),
		Message: refused.Message(),
		Details: []Detail{},
		Headers: pairs(refused.Meta()),
	}
	for _, encoded := range refused.Details() {
		message, err := encoded.Value()
		if err != nil {
			return nil, err
		}
		detail, err := detail(message)
		if err != nil {
			return nil, err
		}
		reply.Details = append(reply.Details, detail)
	}
	return reply, nil
}

// pairs returns headers or metadata with their names in lower case.
func pairs(headers map[string][]string) [][2]string {
	pairs := [][2]string{}
	for name, values := range headers {
		for _, value := range values {
			pairs = append(pairs, [2]string{strings.ToLower(name), value})
		}
	}
	return pairs
}
