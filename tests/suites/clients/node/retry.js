// An operation over grpc-js: one key, gRPC's own retries, and the verdict on the answer.
//
// To use it, copy this file and `verdicts.json`. `create` resolves with the response, or rejects with the error that ended the
// operation, or with `Unresolved`: it may have taken effect, and a call with the same key finds out.

import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";

import { BinaryReader } from "@bufbuild/protobuf/wire";
import { Metadata, status } from "@grpc/grpc-js";

const file = JSON.parse(readFileSync(new URL("../../../../clients/verdicts.json", import.meta.url)));

/** The options of a client that repeats the calls of a service, at the server's word. */
export function options(service) {
  const retryPolicy = {
    maxAttempts: 5,
    initialBackoff: "0.1s",
    maxBackoff: "5s",
    backoffMultiplier: 2,
    retryableStatusCodes: ["UNAVAILABLE", "ABORTED"],
  };
  return { "grpc.service_config": JSON.stringify({ methodConfig: [{ name: [{ service }], retryPolicy }] }) };
}

// The operation may have taken effect. Repeat the call with this key, later: a new key may do it twice. With the verdict `ended later`, it
// has ended with the cause if no earlier call can arrive any more.
export class Unresolved extends Error {
  constructor(key, verdict, cause) {
    super(`the outcome is not known (${verdict}); the key is ${key}`, { cause });
    Object.assign(this, { key, verdict });
  }
}

/** Makes a call of a procedure that takes keys. `timeout`, in milliseconds, is that of all attempts together. */
export function create(client, method, request, { key = randomUUID(), metadata = new Metadata(), timeout = 60_000 } = {}) {
  metadata.set("idempotency-key", key);
  return new Promise((resolve, reject) => {
    client[method](request, metadata, { deadline: Date.now() + timeout }, (error, response) => {
      if (error === null) return resolve(response);
      const said = verdict(error);
      reject(said === "ended" ? error : new Unresolved(key, said, error));
    });
  });
}

/** The verdict on an error: that after a lost attempt, since gRPC does not tell of those that it repeated. */
export function verdict(error) {
  const said = facts(error);
  return file.rows.find(({ only, after_lost, ...row }) => Object.keys(row).every((name) => row[name] === said[name])).after_lost;
}

/** The facts of an error that a row can ask for. */
function facts({ code, metadata }) {
  const [outcome] = metadata.get("idempotency-outcome");
  const [pushback = "0"] = metadata.get("grpc-retry-pushback-ms");
  const said = { code: status[code], outcome, pushback: /^\d+$/.test(pushback) ? undefined : "never" };
  for (const encoded of metadata.get("grpc-status-details-bin")) {
    for (const detail of fields(encoded)[3] ?? []) {
      const { 1: [type] = [], 2: [value] = [] } = fields(detail);
      const name = new TextDecoder().decode(type);
      if (name.endsWith("/google.rpc.RetryInfo")) said.retry_info = true;
      if (!name.endsWith("/google.rpc.ErrorInfo")) continue;
      const { 1: [reason] = [], 2: [domain] = [] } = fields(value);
      if (new TextDecoder().decode(domain) === file.domain) said.reason = new TextDecoder().decode(reason);
    }
  }
  return said;
}

/** The fields of a message that are texts or messages, by their numbers. */
function fields(message = new Uint8Array()) {
  const found = {};
  for (const reader = new BinaryReader(message); reader.pos < reader.len; ) {
    const [number, type] = reader.tag();
    if (type === 2) (found[number] ??= []).push(reader.bytes());
    else reader.skip(type);
  }
  return found;
}
