// The warnings, which go to the console.

import assert from "node:assert/strict";
import { after, before, describe, mock, test } from "node:test";

import { Code, type Interceptor, createClient } from "@connectrpc/connect";

import { idempotency } from "../src/index.js";
import { error, lost, success } from "./support/reply.js";
import { type Reply, Server } from "./support/server.js";
import { Orders } from "./support/service.js";
import { KINDS } from "./support/transports.js";

let server: Server;
before(async () => (server = await Server.start()));
after(() => server.stop());

for (const kind of KINDS) {
  describe(kind.name, () => {
    const clientOf = (interceptor: Interceptor) => createClient(Orders, kind.transport(server, interceptor));

    test("a success without a status is warned of once", async () => {
      const warn = mock.method(console, "warn", () => {});
      server.reset(success("one", {}));
      const client = clientOf(idempotency());
      await client.create({});
      await client.create({});
      warn.mock.restore();
      assert.deepEqual(
        warn.mock.calls.map(({ arguments: [text] }) => String(text).split(":")[0]),
        ["/test.Orders/Create has answered without idempotency-status"],
      );
    });

    test("a stream passes without a key, and is warned of once", async () => {
      const warn = mock.method(console, "warn", () => {});
      server.reset(lost);
      const client = clientOf(idempotency());
      for (let call = 0; call < 2; call++) {
        await assert.rejects(async () => {
          for await (const _ of client.watch({})) {
            assert.fail("there is no message");
          }
        });
      }
      warn.mock.restore();
      assert.deepEqual(server.received().map(({ headers }) => headers.get("idempotency-key")), [null, null]);
      assert.equal(warn.mock.callCount(), 1);
      assert.match(String(warn.mock.calls[0]!.arguments[0]), /Watch streams/);
    });

    test("many polls leave no listeners behind that Node warns of", async () => {
      const warn = mock.method(process, "emitWarning", () => {});
      const running = error({ code: Code.Aborted, reason: "IDEMPOTENCY_IN_PROGRESS" });
      server.reset(...Array<Reply>(20).fill(running), success());
      await clientOf(idempotency({ backoffMs: [1, 2] })).create({});
      warn.mock.restore();
      assert.deepEqual(warn.mock.calls.map(({ arguments: [warning] }) => String(warning)), []);
    });
  });
}
