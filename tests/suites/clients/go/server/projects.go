package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// projects has the handler.
type projects struct {
	store  *store
	output protoreflect.MessageDescriptor
}

func (p *projects) create(
	ctx context.Context, request *connect.Request[dynamicpb.Message],
) (*connect.Response[dynamicpb.Message], error) {
	user, err := subject(request.Header())
	if err != nil {
		return nil, connect.NewError(connect.CodeUnauthenticated, err)
	}
	text, err := protojson.Marshal(request.Msg)
	if err != nil {
		return nil, err
	}
	var message struct {
		ClusterID, Name string
		Alias           *string
		Labels          map[string]string
	}
	if err := json.Unmarshal(text, &message); err != nil {
		return nil, err
	}
	var id string
	// The same header as the sample's.
	delay, _ := strconv.Atoi(request.Header().Get("sample-handler-delay-ms"))
	time.Sleep(time.Duration(delay) * time.Millisecond)
	err = p.store.asUser(ctx, user, func(transaction pgx.Tx) error {
		return transaction.QueryRow(ctx,
			"INSERT INTO tenant.projects (cluster_id, name, alias, labels) VALUES ($1, $2, $3, $4) RETURNING id::text",
			message.ClusterID, message.Name, message.Alias, message.Labels,
		).Scan(&id)
	})
	if err != nil {
		return nil, err
	}
	response := dynamicpb.NewMessage(p.output)
	response.Set(p.output.Fields().ByName("project_id"), protoreflect.ValueOfString(id))
	return connect.NewResponse(response), nil
}

// subject returns the user of a bearer token.
func subject(header http.Header) (string, error) {
	parts := strings.Split(strings.TrimPrefix(header.Get("Authorization"), "Bearer "), ".")
	if len(parts) != 3 {
		return "", errors.New("no bearer token")
	}
	decoded, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", err
	}
	var claims struct{ Sub string }
	err = json.Unmarshal(decoded, &claims)
	return claims.Sub, err
}
