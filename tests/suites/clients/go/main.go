// The driver of the Go clients: connect-go and grpc-go; and the same with the interceptors of clients/go, which repeat calls.
//
//	driver ADDRESS DESCRIPTORS [SERVICE_CONFIG]
//
// reads one call per line from standard input, makes it, and writes one line with the reply that the client saw. Calls run
// concurrently; a reply has the id of its call. The driver does not know the expected replies.
//
// The service config, a file, is grpc-go's. Messages are dynamic: the descriptors come from the file, so that no generated code has to follow changes of the service.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// Call is one line of input.
type Call struct {
	ID        int             `json:"id"`
	Client    string          `json:"client"`
	Protocol  string          `json:"protocol"`
	Procedure string          `json:"procedure"`
	Message   json.RawMessage `json:"message"`
	Headers   [][2]string     `json:"headers"`
	// TimeoutMs is the call's own timeout; 0 for none.
	TimeoutMs int `json:"timeout_ms"`
}

// Reply is one line of output.
type Reply struct {
	ID int `json:"id"`
	// Code is a google.rpc.Code; 0 for success.
	Code    int         `json:"code"`
	Message string      `json:"message"`
	Details []Detail    `json:"details"`
	Headers [][2]string `json:"headers"`
	// Body is the response message of a successful call.
	Body json.RawMessage `json:"body,omitempty"`
	// Verdict, of a client that repeats calls, is "ended", or "unknown" if nobody knows what became of the operation.
	Verdict string `json:"verdict,omitempty"`
	// Attempts is the number of attempts of such a client; if the operation has ended, with the polls of a call that ran.
	Attempts int `json:"attempts,omitempty"`
	// Replayed says whether such a client has got the response of an earlier attempt.
	Replayed bool `json:"replayed,omitempty"`
	// Failure says why the call could not be made, or its answer could not be read.
	Failure string `json:"failure,omitempty"`
}

// Detail is one detail of an error, as the client decoded it.
type Detail struct {
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

// client makes one call over one protocol.
type client interface {
	call(ctx context.Context, method *method, headers [][2]string) (*Reply, error)
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) < 2 || len(arguments) > 3 {
		return fmt.Errorf("usage: driver ADDRESS DESCRIPTORS [SERVICE_CONFIG]")
	}
	address, descriptors := arguments[0], arguments[1]
	schema, err := readSchema(descriptors)
	if err != nil {
		return err
	}
	config := []byte("{}")
	if len(arguments) == 3 {
		if config, err = os.ReadFile(arguments[2]); err != nil {
			return err
		}
	}
	grpcClient, err := newGrpc(address, string(config))
	if err != nil {
		return err
	}
	idempotentGrpc, err := newIdempotentGrpc(address, string(config))
	if err != nil {
		return err
	}
	clients := map[string]client{
		"connect-go connect-json":  newConnect(address, connectJSON),
		"connect-go connect-proto": newConnect(address, connectProto),
		"connect-go grpc":          newConnect(address, connectGrpc),
		"connect-go grpc-web":      newConnect(address, connectGrpcWeb),
		"grpc-go grpc":             grpcClient,

		"idempotency-connect-go connect-json":  newIdempotentConnect(address, connectJSON),
		"idempotency-connect-go connect-proto": newIdempotentConnect(address, connectProto),
		"idempotency-connect-go grpc":          newIdempotentConnect(address, connectGrpc),
		"idempotency-connect-go grpc-web":      newIdempotentConnect(address, connectGrpcWeb),
		"idempotency-grpc-go grpc":             idempotentGrpc,
	}

	var running sync.WaitGroup
	var output sync.Mutex
	encoder := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var call Call
		if err := json.Unmarshal(lines.Bytes(), &call); err != nil {
			return err
		}
		running.Go(func() {
			reply, err := answer(clients, schema, &call)
			if err != nil {
				reply = &Reply{Failure: err.Error()}
			}
			reply.ID = call.ID
			output.Lock()
			defer output.Unlock()
			// Fails only after the test has ended.
			_ = encoder.Encode(reply)
		})
	}
	running.Wait()
	return lines.Err()
}

func answer(clients map[string]client, schema *schema, call *Call) (*Reply, error) {
	client, ok := clients[call.Client+" "+call.Protocol]
	if !ok {
		return nil, fmt.Errorf("%s does not speak %s", call.Client, call.Protocol)
	}
	method, err := schema.method(call.Procedure, call.Message)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	if call.TimeoutMs > 0 {
		limited, cancel := context.WithTimeout(ctx, time.Duration(call.TimeoutMs)*time.Millisecond)
		defer cancel()
		ctx = limited
	}
	return client.call(ctx, method, call.Headers)
}
