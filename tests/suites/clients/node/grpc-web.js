// Runs in the page: calls with Google's gRPC-Web client, without its generated code.

import { fromBinary, fromJson, toBinary, toJson } from "@bufbuild/protobuf";
import { GrpcWebClientBase, MethodDescriptor, MethodType } from "grpc-web";

/** Returns a function that makes a call with its messages in `format`: `binary`, or `text`, which is base64. */
export function grpcWeb(schema, baseUrl, format) {
  const client = new GrpcWebClientBase({ format });
  return ({ procedure, message, headers }) =>
    new Promise((resolve) => {
      const method = schema.method(procedure);
      const descriptor = new MethodDescriptor(
        `/${procedure}`,
        MethodType.UNARY,
        Object,
        Object,
        (request) => toBinary(method.input, request),
        (response) => fromBinary(method.output, response),
      );
      const request = fromJson(method.input, message);
      let received = {};
      const answered = (error, response) =>
        resolve(
          error
            ? {
                code: error.code,
                message: error.message,
                details: schema.details(error.metadata["grpc-status-details-bin"]),
                headers: Object.entries(error.metadata),
              }
            : {
                code: 0,
                message: "",
                details: [],
                headers: Object.entries(received),
                body: toJson(method.output, response),
              },
        );
      client
        .rpcCall(`${baseUrl}/${procedure}`, request, Object.fromEntries(headers), descriptor, answered)
        .on("metadata", (metadata) => (received = metadata));
    });
}
