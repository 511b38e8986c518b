// Command gen compiles the .proto files of the vectors and writes their Go code. It does not need protoc: protocompile
// parses, and protoc-gen-go (as pinned in go.mod) generates. The descriptors of the files in editions are in the repository, as
// protoc wrote them. Run it with "go generate" in the directory above.
package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	protoDir   = "../proto"
	goModule   = "tonic-idempotency/vectors"
	goPackage  = goModule + "/vectorspb"
	pluginTool = "protoc-gen-go"
	// editions is the descriptor set of editionFiles.
	editions = "../editions.binpb"
)

var (
	protoFiles = []string{"vectors/v1/json.proto", "vectors/v1/legacy.proto", "vectors/v1/vectors.proto"}
	// Each is a Go package of its own, as its messages have names that other files have, too.
	editionFiles = []string{
		"vectors/v1/edition2023.proto", "vectors/v1/edition2023_implicit.proto", "vectors/v1/edition2023_legacy.proto",
		"vectors/v1/edition2024.proto", "vectors/v1/edition_options.proto",
	}
)

func main() {
	log.SetFlags(0)
	request, err := compile()
	if err != nil {
		log.Fatal(err)
	}
	response, err := runPlugin(request)
	if err != nil {
		log.Fatal(err)
	}
	for _, file := range response.GetFile() {
		target := filepath.FromSlash(file.GetName())
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(target, []byte(file.GetContent()), 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// compile builds the request that protoc would send to a plugin: the files and all their imports, imports first.
func compile() (*pluginpb.CodeGeneratorRequest, error) {
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{protoDir}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), protoFiles...)
	if err != nil {
		return nil, err
	}

	parameter := "module=" + goModule
	for _, name := range protoFiles {
		parameter += fmt.Sprintf(",M%s=%s", name, goPackage)
	}
	for _, name := range editionFiles {
		parameter += fmt.Sprintf(",M%s=%s/%s", name, goPackage, strings.TrimSuffix(path.Base(name), ".proto"))
	}
	request := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: slices.Concat(protoFiles, editionFiles),
		Parameter:      &parameter,
	}

	seen := make(map[string]bool)
	var add func(file protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		for i := range file.Imports().Len() {
			add(file.Imports().Get(i).FileDescriptor)
		}
		request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(file))
	}
	for _, file := range files {
		add(file)
	}
	encoded, err := os.ReadFile(editions)
	if err != nil {
		return nil, err
	}
	set := new(descriptorpb.FileDescriptorSet)
	if err := proto.Unmarshal(encoded, set); err != nil {
		return nil, fmt.Errorf("%s: %w", editions, err)
	}
	for _, file := range set.GetFile() {
		if !seen[file.GetName()] {
			seen[file.GetName()] = true
			request.ProtoFile = append(request.ProtoFile, file)
		}
	}
	return request, nil
}

// runPlugin speaks the plugin protocol: a request on standard input, a response on standard output.
func runPlugin(request *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	input, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	command := exec.Command("go", "tool", pluginTool)
	command.Stdin = bytes.NewReader(input)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pluginTool, err)
	}
	response := new(pluginpb.CodeGeneratorResponse)
	if err := proto.Unmarshal(output, response); err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, fmt.Errorf("%s: %s", pluginTool, response.GetError())
	}
	return response, nil
}
