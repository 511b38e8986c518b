// The driver of the interceptor in Node: `node idempotency.js ADDRESS DESCRIPTORS`. It does not know the expected replies.
//
// Its client is `idempotency-connect-node`. A line may have the time of the operation as `timeout_ms`.

import { readFileSync } from "node:fs";

import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";

import * as library from "../../../../clients/typescript/dist/index.js";
import { idempotentCall } from "./idempotent-call.js";
import { answerLines } from "./lines.js";
import { Schema } from "./schema.js";

const [address, descriptors] = process.argv.slice(2);
const baseUrl = `http://${address}`;
const schema = new Schema(readFileSync(descriptors));
// An attempt is short: the networks of these tests hang.
const interceptors = [library.idempotency({ attemptTimeoutMs: 1000 })];
const transports = {
  "connect-json": createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: false, interceptors }),
  "connect-proto": createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: true, interceptors }),
  grpc: createGrpcTransport({ baseUrl, interceptors }),
  "grpc-web": createGrpcWebTransport({ baseUrl, httpVersion: "1.1", interceptors }),
};

await answerLines(async (line) => {
  const transport = transports[line.protocol];
  if (transport === undefined) {
    throw new Error(`idempotency-connect-node does not speak ${line.protocol}`);
  }
  return idempotentCall(library, schema, transport, line);
});
// An idle HTTP/2 session would keep the process alive.
process.exit();
