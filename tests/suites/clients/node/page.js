// Runs in the page: calls with the libraries for browsers.

import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-web";

import { call } from "./call.js";
import { grpcWeb } from "./grpc-web.js";
import { idempotentCall } from "./idempotent-call.js";
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
  let idempotency;
  return async (line) => {
    if (line.client === "idempotency-connect-web") {
      idempotency ??= await idempotent(schema, baseUrl);
      return idempotency[line.protocol](line);
    }
    return clients[line.client][line.protocol](line);
  };
}

/** Returns the functions of the interceptor. It is built separately, and not there for those who do not test it. */
async function idempotent(schema, baseUrl) {
  const library = await import("tonic-idempotency-client");
  const options = { baseUrl, interceptors: [library.idempotency()] };
  const client = (transport) => (line) => idempotentCall(library, schema, transport, line, localStorage);
  return {
    "connect-json": client(createConnectTransport({ ...options, useBinaryFormat: false })),
    "connect-proto": client(createConnectTransport({ ...options, useBinaryFormat: true })),
    "grpc-web": client(createGrpcWebTransport(options)),
  };
}
