// A process that is busy, or sleeps, until all times are over.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { Code, ConnectError, createClient } from "@connectrpc/connect";

import { UnresolvedError, idempotency } from "../src/index.js";
import { Server } from "./support/server.js";
import { Orders } from "./support/service.js";
import { KINDS } from "./support/transports.js";

let server: Server;
beforeEach(async () => (server = await Server.start()));
afterEach(() => server.stop());

for (const kind of KINDS.filter(({ name }) => ["connect-node, gRPC", "connect-web, Connect with JSON"].includes(name))) {
  test(`${kind.name}: an operation is unresolved when its transport ends it, too`, async () => {
    const began = performance.now();
    server.reset(() => {
      while (performance.now() < began + 1_050);
    });
    const client = createClient(Orders, kind.transport(server, idempotency()));
    const thrown = await client.create({}, { timeoutMs: 1_000 }).catch((error: unknown) => error);
    assert(thrown instanceof ConnectError);
    assert.equal(UnresolvedError.of(thrown)?.key, server.received()[0]!.headers.get("idempotency-key"));
    assert([Code.DeadlineExceeded, Code.Unknown].includes(thrown.code));
  });
}
