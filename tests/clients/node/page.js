// In the page: calls with connect-web.

import { createConnectTransport, createGrpcWebTransport } from "@connectrpc/connect-web";

import { call } from "./call.js";
import { Schema } from "./schema.js";

/** What makes a call, over one of the protocols of connect-web. */
export async function caller(baseUrl) {
  const descriptors = await (await fetch("/descriptors")).arrayBuffer();
  const schema = new Schema(new Uint8Array(descriptors));
  const transports = {
    "connect-json": createConnectTransport({ baseUrl, useBinaryFormat: false }),
    "connect-proto": createConnectTransport({ baseUrl, useBinaryFormat: true }),
    "grpc-web": createGrpcWebTransport({ baseUrl }),
  };
  return (line) => call(schema, transports[line.protocol], line);
}
