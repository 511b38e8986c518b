// Operations that survive a reload of their page.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { afterEach, beforeEach, describe, test } from "node:test";

import { create, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError, type ContextValues, createClient, createContextKey, createContextValues } from "@connectrpc/connect";

import { ChangedRequest, Expired, UnresolvedError, giveUp, idempotency, pending, replayed } from "../src/index.js";
import { error, lost, page, replay, silence, success } from "./support/reply.js";
import { type Reply, Server } from "./support/server.js";
import { OrderSchema, Orders } from "./support/service.js";
import { KINDS } from "./support/transports.js";

const PLACE = "tonic-idempotency:checkout-17";
const HOUR_MS = 3_600_000;

/** A storage as browsers have it. */
class Memory implements Storage {
  readonly #values = new Map<string, string>();
  [name: string]: unknown;

  get length() {
    return this.#values.size;
  }
  key(index: number) {
    return [...this.#values.keys()][index] ?? null;
  }
  getItem(key: string) {
    return this.#values.get(key) ?? null;
  }
  setItem(key: string, value: string) {
    this.#values.set(key, value);
  }
  removeItem(key: string) {
    this.#values.delete(key);
  }
  clear() {
    this.#values.clear();
  }
}

let server: Server;
let storage: Memory;
beforeEach(async () => {
  server = await Server.start();
  storage = new Memory();
});
afterEach(() => server.stop());

describe("a pending operation", () => {
  const kind = KINDS.find(({ name }) => name === "connect-web, Connect with JSON")!;

  /** A page that has just been loaded. */
  const load = () => createClient(Orders, kind.transport(server, idempotency({ backoffMs: [1, 2], maxAttempts: 2 })));

  async function call(item = "secret", values: ContextValues = pending(storage, "checkout-17"), headers: HeadersInit = {}) {
    let found = new Headers();
    const onHeader = (headers: Headers) => (found = headers);
    const order = await load().create({ item }, { contextValues: values, headers, onHeader });
    return { item: order.item, headers: found };
  }

  const fails = (...args: Parameters<typeof call>) =>
    call(...args).then(
      () => assert.fail("it has succeeded"),
      (error: unknown) => error,
    );
  const keys = () => server.received().map(({ headers }) => headers.get("idempotency-key"));
  const saved = () => JSON.parse(storage.getItem(PLACE) ?? "null") as { key: string; at: number; sha256: string } | null;
  const age = (ms: number) => storage.setItem(PLACE, JSON.stringify({ ...saved(), at: Date.now() - ms }));

  test("is saved before its first byte goes out, without its message, and removed when it has ended", async () => {
    const found: ReturnType<typeof saved>[] = [];
    server.reset((exchange) => {
      found.push(saved());
      success()(exchange);
    });
    const began = Date.now();
    await call();
    const { key, at, sha256 } = found[0] ?? assert.fail("nothing was saved");
    assert.equal(key, keys()[0]);
    assert(at >= began && at <= Date.now());
    const bytes = toBinary(OrderSchema, create(OrderSchema, { item: "secret" }));
    assert.equal(sha256, createHash("sha256").update("/test.Orders/Create\0").update(bytes).digest("hex"));
    assert.deepEqual(Object.keys(found[0]!).sort(), ["at", "key", "sha256"]);
    assert.equal(storage.length, 0);
    server.reset(success());
    await call();
    assert.notEqual(keys()[0], key);
  });

  test("has the same key after a reload during the call, and gets the first response", async () => {
    // The page is gone: nobody hears of its answer.
    const gone = new Promise<void>((arrived) => server.reset(() => arrived(), replay));
    void call().catch(() => {});
    await gone;
    const { item, headers } = await call();
    assert.equal(item, "first");
    assert(replayed(headers));
    assert.equal(keys()[0], keys()[1]);
    assert.equal(storage.length, 0);
  });

  test("stays while its outcome is unknown, and ends with an error that ends it", async () => {
    server.reset(page(403));
    assert(UnresolvedError.of(await fails()) instanceof UnresolvedError);
    assert.equal(saved()?.key, keys()[0]);
    // An earlier attempt may have run: an error before the layer looks at the key does not end it.
    server.reset(error({ code: Code.InvalidArgument, reason: "IDEMPOTENCY_KEY_INVALID" }));
    assert.equal(UnresolvedError.of(await fails())?.key, saved()?.key);
    server.reset(error({ code: Code.NotFound, headers: { "idempotency-outcome": "kept" } }));
    assert.equal(UnresolvedError.of(await fails()), undefined);
    assert.equal(storage.length, 0);
  });

  test("is waited for when its key is free, as the attempt of the earlier page may arrive", async () => {
    server.reset(page(403));
    await fails();
    server.reset(error({ code: Code.NotFound, headers: { "idempotency-outcome": "freed" } }));
    const options = { contextValues: pending(storage, "checkout-17"), timeoutMs: 500 };
    const thrown = await load().create({ item: "secret" }, options).catch((error: unknown) => error);
    assert(UnresolvedError.of(thrown) instanceof UnresolvedError);
    assert.equal(server.received().length, 1);
  });

  test("with another message, procedure or key is not sent", async () => {
    server.reset(lost);
    await fails();
    const { key } = saved()!;
    server.reset(success());
    assert.equal(ChangedRequest.of(await fails("other"))?.operation, "checkout-17");
    const own = await fails("secret", undefined, { "idempotency-key": "other" });
    assert(ChangedRequest.of(own) instanceof ChangedRequest);
    const client = createClient(Orders, kind.transport(server, idempotency({ procedures: ["/test.Orders/Delete"] })));
    const other = await client.delete({ item: "secret" }, { contextValues: pending(storage, "checkout-17") }).catch((error) => error);
    assert(ChangedRequest.of(other) instanceof ChangedRequest);
    assert.equal(server.received().length, 0);
    await call("secret", undefined, { "idempotency-key": key });
    assert.deepEqual(keys(), [key]);
  });

  test("of 23 hours is expired, until it is given up", async () => {
    server.reset(lost);
    await fails();
    const { key } = saved()!;
    age(23 * HOUR_MS + 1_000);
    server.reset(success());
    for (let time = 0; time < 2; time++) {
      assert.equal(Expired.of(await fails())?.key, key);
    }
    assert.equal(server.received().length, 0);
    assert.equal(saved()?.key, key);
    giveUp(storage, "checkout-17");
    await call();
    assert.notEqual(keys()[0], key);
  });

  test("of less than 23 hours is sent", async () => {
    server.reset(lost);
    await fails();
    age(23 * HOUR_MS - 10_000);
    server.reset(replay);
    assert.equal((await call()).item, "first");
  });

  test("in two tabs has one key, and the one that ends first does not remove the other's next operation", async () => {
    const answers: (() => void)[] = [];
    const wait: Reply = (exchange) => answers.push(() => replay(exchange));
    const both = new Promise<void>((arrived) => server.reset(wait, (exchange) => (wait(exchange), arrived())));
    const [one, two] = [call(), call()];
    await both;
    assert.equal(keys()[0], keys()[1]);
    answers[0]!();
    await Promise.race([one, two]);
    assert.equal(storage.length, 0);
    server.reset(lost);
    await fails("the next one");
    const next = saved()!.key;
    answers[1]!();
    await Promise.all([one, two]);
    assert.equal(saved()?.key, next);
  });

  test("is not sent if it cannot be saved", async () => {
    storage.setItem = () => {
      throw new Error("the quota is used up");
    };
    const thrown = await fails();
    assert.match(String(thrown), /quota/);
    assert.equal(UnresolvedError.of(thrown), undefined);
    assert.equal(server.received().length, 0);
  });

  test("that was cancelled before is neither saved nor sent", async () => {
    const controller = new AbortController();
    const options = { contextValues: pending(storage, "checkout-17"), signal: controller.signal };
    const sent = load().create({ item: "secret" }, options);
    controller.abort();
    await assert.rejects(sent, { code: Code.Canceled });
    assert.equal(storage.length, 0);
    assert.equal(server.received().length, 0);
  });

  test("of a procedure without keys is refused", async () => {
    const sent = load().delete({}, { contextValues: pending(storage, "checkout-17") });
    await assert.rejects(sent, (error) => error instanceof ConnectError && error.code === Code.FailedPrecondition);
    assert.equal(server.received().length, 0);
  });

  test("keeps the call's other values", () => {
    const language = createContextKey("none");
    const values = pending(storage, "checkout-17", createContextValues().set(language, "en"));
    assert.equal(values.get(language), "en");
  });

  test("that is cancelled stays", async () => {
    const controller = new AbortController();
    server.reset((exchange) => (silence(exchange), controller.abort()));
    const options = { contextValues: pending(storage, "checkout-17"), signal: controller.signal };
    const thrown = await load().create({ item: "secret" }, options).catch((error: unknown) => error);
    assert.equal(UnresolvedError.of(thrown)?.key, saved()?.key);
  });
});
