// The driver of connect-node: `node connect-node.js ADDRESS DESCRIPTORS`. It does not know the expected replies.

import { readFileSync } from "node:fs";

import { createConnectTransport, createGrpcTransport, createGrpcWebTransport } from "@connectrpc/connect-node";

import { call } from "./call.js";
import { answerLines } from "./lines.js";
import { Schema } from "./schema.js";

const [address, descriptors] = process.argv.slice(2);
const baseUrl = `http://${address}`;
const schema = new Schema(readFileSync(descriptors));
const transports = {
  "connect-json": createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: false }),
  "connect-proto": createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: true }),
  grpc: createGrpcTransport({ baseUrl }),
  "grpc-web": createGrpcWebTransport({ baseUrl, httpVersion: "1.1" }),
};

await answerLines(async (line) => {
  const transport = transports[line.protocol];
  if (transport === undefined) {
    throw new Error(`connect-node does not speak ${line.protocol}`);
  }
  return call(schema, transport, line);
});
// An idle HTTP/2 session would keep the process alive.
process.exit();
