// Runs in the page: calls with the libraries for browsers.

import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-web";

import { call } from "./call.js";
import { grpcWeb } from "./grpc-web.js";
import { Schema } from "./schema.js";

/** Returns a function that makes a call with one of the libraries, over one of its protocols. */
export async function caller(baseUrl) {
  const descriptors = await (await fetch("/descriptors")).arrayBuffer();
  const schema = new Schema(new Uint8Array(descriptors));
  const connect = (transport) => (line) => call(schema, transport, line);
  const clients = {
    "connect-web": {
      "connect-json": connect(createConnectTransport({ baseUrl, useBinaryFormat: false })),
      "connect-proto": connect(createConnectTransport({ baseUrl, useBinaryFormat: true })),
      "grpc-web": connect(createGrpcWebTransport({ baseUrl })),
    },
    "grpc-web": {
      "grpc-web": grpcWeb(schema, baseUrl, "binary"),
      "grpc-web-text": grpcWeb(schema, baseUrl, "text"),
    },
  };
  return (line) => clients[line.client][line.protocol](line);
}
