// The behaviour that the table of verdicts does not tell.

import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, test } from "node:test";

import { type CallOptions, Code, ConnectError, type Interceptor, createClient } from "@connectrpc/connect";

import { type Settings, UnresolvedError, attempts, idempotency, replayed, status } from "../src/index.js";
import { error, lost, page, replay, silence, success } from "./support/reply.js";
import { type Reply, Server } from "./support/server.js";
import { Orders } from "./support/service.js";
import { KINDS, type Kind } from "./support/transports.js";

const UUID_7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const FAST: Settings = { backoffMs: [1, 2] };

const refused = (reason: string, retryAfterMs?: number, pushback?: string): Reply =>
  error({
    ...{ code: Code.Unavailable, reason, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) },
    trailers: pushback === undefined ? {} : { "grpc-retry-pushback-ms": pushback },
  });

// Side by side, as they wait more than they work.
describe("an operation", { concurrency: KINDS.length }, () => {
  for (const kind of KINDS) {
    describe(kind.name, { concurrency: 1 }, () => tests(kind));
  }
});

function tests(kind: Kind) {
  let server: Server;
  // A server for each test: an attempt that was given up in one may arrive late.
  beforeEach(async () => (server = await Server.start()));
  afterEach(() => server.stop());

  const clientOf = (...interceptors: Interceptor[]) => createClient(Orders, kind.transport(server, ...interceptors));

  async function call(settings: Settings, options: CallOptions = {}) {
    let headers = new Headers();
    const client = clientOf(idempotency({ ...FAST, ...settings }));
    const order = await client.create({ item: "one" }, { ...options, onHeader: (found) => (headers = found) });
    return { item: order.item, headers };
  }

  async function unresolved(settings: Settings, options: CallOptions = {}): Promise<UnresolvedError & { error: ConnectError }> {
    const thrown = await call(settings, options).then(
      () => assert.fail("it has ended"),
      (error: unknown) => error,
    );
    const found = UnresolvedError.of(thrown);
    assert(found !== undefined, String(thrown));
    assert(thrown instanceof ConnectError);
    return Object.assign(found, { error: thrown });
  }

  const keys = () => server.received().map(({ headers }) => headers.get("idempotency-key"));

  test("a lost answer is asked for with the same key and message, and another operation has another key", async () => {
    server.reset(success(), lost, lost, replay);
    const first = await call({});
    assert.deepEqual([first.item, attempts(first.headers), replayed(first.headers)], ["first", 1, false]);
    const second = await call({});
    assert.equal(second.item, "first");
    assert.equal(status(second.headers), "completed");
    assert(replayed(second.headers));
    assert.equal(attempts(second.headers), 3);
    const [other, ...same] = keys();
    assert.equal(new Set(same).size, 1);
    assert.match(other!, UUID_7);
    assert.match(same[0]!, UUID_7);
    assert.notEqual(other, same[0]);
    const bodies = server.received().map(({ body }) => Buffer.from(body).toString("hex"));
    assert.equal(new Set(bodies).size, 1);
  });

  test("a key of the caller wins", async () => {
    server.reset(lost, replay);
    await call({}, { headers: { "idempotency-key": "order-17" } });
    assert.deepEqual(keys(), ["order-17", "order-17"]);
  });

  test("an attempt has a time of its own", async () => {
    server.reset(silence, replay);
    const { headers } = await call({ attemptTimeoutMs: 400 });
    assert(attempts(headers) >= 2);
  });

  test("an error that ends the operation is thrown as it is", async () => {
    server.reset(error({ code: Code.NotFound, message: "no shop", headers: { "idempotency-outcome": "kept" } }));
    const thrown = await call({}).catch((error: unknown) => error);
    assert(thrown instanceof ConnectError);
    assert.deepEqual([thrown.code, thrown.rawMessage, thrown.cause], [Code.NotFound, "no shop", undefined]);
    assert.equal(UnresolvedError.of(thrown), undefined);
    assert.equal(attempts(thrown), 1);
  });

  test("the time of the caller ends the operation, and each attempt tells how much is left", async () => {
    server.reset(silence);
    const began = performance.now();
    const { attempts, key, cause } = await unresolved({ attemptTimeoutMs: 200 }, { timeoutMs: 900 });
    assert(performance.now() - began < 5_000);
    assert(attempts >= 2, String(attempts));
    assert.equal(key, keys()[0]);
    assert(cause instanceof ConnectError);
    assert.equal(cause.code, Code.DeadlineExceeded);
    const name = kind.protocol === "connect" ? "connect-timeout-ms" : "grpc-timeout";
    const told = server.received().map(({ headers }) => Number.parseInt(headers.get(name)!, 10));
    assert(told[0]! <= 900 && told[0]! > 450, String(told));
    assert(told[1]! <= 700, String(told));
  });

  test("without a time of the caller, the server hears of none, and the settings end the operation", async () => {
    server.reset(silence);
    await unresolved({ attemptTimeoutMs: 400, operationTimeoutMs: 900 });
    const { headers } = server.received()[0]!;
    assert(!headers.has("grpc-timeout") && !headers.has("connect-timeout-ms"));
  });

  test("a cancelled call is unresolved once it was sent", async () => {
    const controller = new AbortController();
    server.reset(() => controller.abort());
    const found = await unresolved({}, { signal: controller.signal });
    assert.equal(found.error.code, Code.Canceled);
    assert.deepEqual([found.attempts, found.key], [1, keys()[0]]);
  });

  test("a call that is cancelled in a pause is unresolved", async () => {
    const controller = new AbortController();
    server.reset((exchange) => {
      refused("IDEMPOTENCY_OVERLOADED", 20_000)(exchange);
      setTimeout(() => controller.abort(new Error("the page is left")), 100);
    });
    const found = await unresolved({}, { signal: controller.signal });
    assert.equal(found.error.code, Code.Canceled);
    assert.equal(found.error.rawMessage, "the page is left");
    assert.equal(server.received().length, 1);
  });

  test("calls that are cancelled together have their own keys", async () => {
    const controller = new AbortController();
    const reason = new ConnectError("the page is left", Code.Aborted);
    server.reset(silence, () => controller.abort(reason));
    const found = await Promise.all([1, 2].map(() => unresolved({}, { signal: controller.signal })));
    assert.deepEqual(new Set(found.map(({ key }) => key)), new Set(keys()));
    assert.equal(new Set(keys()).size, 2);
    assert.deepEqual(found.map(({ error }) => error.code), [Code.Aborted, Code.Aborted]);
    assert.equal(reason.cause, undefined);
  });

  test("a call that was cancelled before is not sent", async () => {
    const thrown = await call({}, { signal: AbortSignal.abort() }).catch((error: unknown) => error);
    assert(thrown instanceof ConnectError);
    assert.equal(UnresolvedError.of(thrown), undefined);
    assert.equal(server.received().length, 0);
  });

  test("a page of a proxy after the effect never ends the operation", async () => {
    for (const reply of [
      ...[401, 403, 404].map((status) => page(status)),
      ...[401, 403, 404].map((status) => page(status, "application/json", '{"message":"Forbidden"}')),
      page(403, "application/json", "{"),
      page(200, "text/html", ""),
    ]) {
      server.reset(reply, replay);
      const found = await call({}).then(
        // Without a content type that tells, an empty page is half an answer of gRPC-Web.
        ({ headers }) => ({ attempts: attempts(headers), key: keys()[0] }),
        (error: unknown) => UnresolvedError.of(error) ?? assert.fail(String(error)),
      );
      assert(found.attempts >= 1);
      assert.equal(found.key, keys()[0]);
    }
    server.reset(page(502), page(503), page(504), page(429), replay);
    const { headers, item } = await call({});
    assert.deepEqual([item, attempts(headers), replayed(headers)], ["first", 5, true]);
  });

  test("the server's delay is obeyed, and its pushback wins", async () => {
    server.reset(refused("IDEMPOTENCY_OVERLOADED", 120), refused("IDEMPOTENCY_SHUTTING_DOWN", 5_000, "60"), replay);
    await call({});
    const [first, second, third] = server.received().map(({ at }) => at);
    assert(second! - first! >= 119, `${second! - first!}`);
    assert(third! - second! >= 59 && third! - second! < 4_000, `${third! - second!}`);
  });

  test("asking for a call that runs is no attempt, and waits for 50 ms", async () => {
    server.reset(...Array<Reply>(3).fill(refused("IDEMPOTENCY_IN_PROGRESS")), replay);
    const { headers } = await call({ maxAttempts: 1, backoffMs: [50, 51] });
    assert.equal(attempts(headers), 1);
    const times = server.received().map(({ at }) => at);
    assert(times[3]! - times[0]! >= 148, String(times));
  });

  test("an operation has at most this many attempts", async () => {
    server.reset(error({ code: Code.Unavailable }));
    const found = await unresolved({ maxAttempts: 3 });
    assert.equal(found.attempts, 3);
    assert.equal((found.cause as ConnectError).code, Code.Unavailable);
    assert.equal(server.received().length, 3);
  });

  test("a freed failure ends the operation when no lost attempt can arrive any more", async () => {
    const freed = error({ code: Code.NotFound, headers: { "idempotency-outcome": "freed" } });
    server.reset(lost, refused("IDEMPOTENCY_OVERLOADED", 700), freed);
    const thrown = await call({ attemptTimeoutMs: 600 }).catch((error: unknown) => error);
    assert(thrown instanceof ConnectError);
    assert.deepEqual([thrown.code, UnresolvedError.of(thrown), attempts(thrown)], [Code.NotFound, undefined, 3]);
  });

  test("only procedures with the option, and those that are named, have a key", async () => {
    server.reset(success());
    await clientOf(idempotency()).delete({});
    await clientOf(idempotency({ procedures: ["/test.Orders/Delete"] })).delete({});
    assert.equal(keys()[0], null);
    assert.match(keys()[1]!, UUID_7);
    server.reset(lost);
    const thrown = await clientOf(idempotency()).delete({}).catch((error: unknown) => error);
    assert.equal(UnresolvedError.of(thrown), undefined);
    assert.equal(server.received().length, 1);
  });

  test("credentials of an inner interceptor are those of each attempt", async () => {
    server.reset(lost, replay);
    let token = 0;
    const inner: Interceptor = (next) => (request) => {
      request.header.set("authorization", `token ${++token}`);
      return next(request);
    };
    await clientOf(idempotency(FAST), inner).create({});
    const sent = server.received().map(({ headers }) => headers.get("authorization"));
    assert.deepEqual(sent, ["token 1", "token 2"]);
  });

  test("an inner interceptor that throws at once leaves nothing behind", async () => {
    const broken: Interceptor = () => () => {
      throw new ConnectError("no credentials", Code.Unauthenticated);
    };
    const thrown = await clientOf(idempotency(FAST), broken).create({}).catch((error: unknown) => error);
    // It may have been sent.
    assert(UnresolvedError.of(thrown) instanceof UnresolvedError);
  });

  test("a time in another unit is left to the caller", async () => {
    server.reset(replay);
    const name = kind.protocol === "connect" ? "connect-timeout-ms" : "grpc-timeout";
    const value = kind.protocol === "connect" ? "soon" : "5S";
    await call({}, { headers: { [name]: value } });
    assert.equal(server.received()[0]!.headers.get(name), value);
  });

  // The README says to have no retries below the interceptor.
  test("retries below the interceptor hide a lost attempt, after which a failure would not have ended the operation", async () => {
    const retries: Interceptor = (next) => (request) => next(request).catch(() => next(request));
    const denied = error({ code: Code.NotFound });
    server.reset(lost, denied);
    const seen = await call(FAST).catch((error: unknown) => UnresolvedError.of(error));
    assert(seen instanceof UnresolvedError);
    server.reset(lost, denied);
    const hidden = await clientOf(idempotency(FAST), retries).create({}).catch((error: unknown) => error);
    assert(hidden instanceof ConnectError && UnresolvedError.of(hidden) === undefined);
    // They do no harm to answers that the layer keeps.
    server.reset(lost, replay);
    assert.equal((await clientOf(idempotency(FAST), retries).create({})).item, "first");
    assert.equal(new Set(keys()).size, 1);
  });
}

test("all calls together have a budget, from which late attempts take nothing", async (context) => {
  const kind = KINDS.find(({ name }) => name === "connect-node, gRPC")!;
  const server = await Server.start();
  context.after(() => server.stop());
  server.reset(error({ code: Code.Unavailable }));
  const interceptor = idempotency({ ...FAST, maxAttempts: 2, attemptTimeoutMs: 2_000 });
  const client = createClient(Orders, kind.transport(server, interceptor));
  const calls = (number: number) => Promise.allSettled(Array.from({ length: number }, () => client.create({})));
  await calls(130);
  assert.equal(server.received().length, 130 + 100);
  server.reset(silence, replay);
  assert.equal((await client.create({})).item, "first");
  // Five answered calls pay for one attempt.
  server.reset(error({ code: Code.NotFound }));
  await calls(4);
  server.reset(lost, replay);
  assert.equal((await calls(1))[0]!.status, "fulfilled");
  server.reset(lost, replay);
  assert.equal((await calls(1))[0]!.status, "rejected");
});
