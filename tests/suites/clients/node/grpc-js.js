// The driver of grpc-js: `node grpc-js.js ADDRESS DESCRIPTORS`. It calls as `retry.js` does, and says its verdict.

import { readFileSync } from "node:fs";

import { fromBinary, fromJson, toBinary, toJson } from "@bufbuild/protobuf";
import { Metadata, credentials, makeClientConstructor } from "@grpc/grpc-js";

import { answerLines } from "./lines.js";
import { Unresolved, create, options } from "./retry.js";
import { Schema } from "./schema.js";

const [address, descriptors] = process.argv.slice(2);
const schema = new Schema(readFileSync(descriptors));
const SERVICE = "organization.v1.ProjectService";
const method = schema.method(`${SERVICE}/CreateProject`);
const Client = makeClientConstructor({
  createProject: {
    path: `/${SERVICE}/CreateProject`,
    requestStream: false,
    responseStream: false,
    requestSerialize: (request) => Buffer.from(toBinary(method.input, request)),
    responseDeserialize: (response) => fromBinary(method.output, response),
  },
});
const client = new Client(address, credentials.createInsecure(), options(SERVICE));

await answerLines(async ({ message, headers, timeout_ms: timeout }) => {
  const metadata = Metadata.fromHttp2Headers(Object.fromEntries(headers));
  const [key] = metadata.get("idempotency-key");
  try {
    const response = await create(client, "createProject", fromJson(method.input, message), { key, metadata, timeout });
    return { code: 0, message: "", details: [], headers: [], body: toJson(method.output, response), verdict: "ended" };
  } catch (error) {
    const [verdict, cause] = error instanceof Unresolved ? [error.verdict, error.cause] : ["ended", error];
    return { code: cause.code, message: cause.details, details: [], headers: [], verdict };
  }
});
client.close();
