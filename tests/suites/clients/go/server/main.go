// A small server with the interceptor of the founding design, on the table of the sample: it creates projects, too.
//
//	server DESCRIPTORS DATABASE ROLE ADDRESS
//
// answers CreateProject. The caller is the subject of the bearer token, which is not verified here.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"tonic-idempotency/clients/descriptors"
)

const procedure = "/organization.v1.ProjectService/CreateProject"

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: server DESCRIPTORS DATABASE ROLE ADDRESS")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(descriptors, database, role, address string) error {
	method, err := readMethod(descriptors)
	if err != nil {
		return err
	}
	pool, err := connectAs(database, role)
	if err != nil {
		return err
	}
	defer pool.Close()
	keys := &interceptor{store: &store{pool}, output: method.Output()}
	projects := &projects{store: keys.store, output: method.Output()}
	mux := http.NewServeMux()
	mux.Handle(procedure, connect.NewUnaryHandler(procedure, projects.create,
		connect.WithSchema(method),
		connect.WithRequestInitializer(func(_ connect.Spec, message any) error {
			if dynamic, ok := message.(*dynamicpb.Message); ok {
				*dynamic = *dynamicpb.NewMessage(method.Input())
			}
			return nil
		}),
		connect.WithInterceptors(connect.UnaryInterceptorFunc(keys.wrap)),
	))
	server := &http.Server{Addr: address, Handler: mux, Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	return server.ListenAndServe()
}

// readMethod finds CreateProject in a file of descriptors.
func readMethod(path string) (protoreflect.MethodDescriptor, error) {
	files, err := descriptors.Read(path)
	if err != nil {
		return nil, err
	}
	found, err := files.FindDescriptorByName("organization.v1.ProjectService.CreateProject")
	if err != nil {
		return nil, err
	}
	return found.(protoreflect.MethodDescriptor), nil
}

func connectAs(database, role string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(database)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 16
	config.AfterConnect = func(ctx context.Context, connection *pgx.Conn) error {
		_, err := connection.Exec(ctx, "SET ROLE "+pgx.Identifier{role}.Sanitize())
		return err
	}
	return pgxpool.NewWithConfig(context.Background(), config)
}
