// Shows that a page which is reloaded before, during and after its call gets the first response, with the same key:
// `node reload.js CHROMIUM`. Needs the interceptor's `dist`, and no other server. Exits with 1 if something else happens.

import assert from "node:assert/strict";
import { createServer } from "node:http";

import { chromium } from "playwright-core";

import { pageWith, readModule } from "./site.js";

/** A server that runs each key once, and replays its response. It answers while `held` is settled. */
class Orders {
  keys = [];
  effects = 0;
  held = Promise.resolve();
  /** The answers of something before the server, to the next calls: after the effect. */
  pages = [];
  #outcomes = new Map();

  async answer(key, request, response) {
    this.keys.push(key);
    const outcome = this.#outcomes.get(key);
    if (outcome === undefined) {
      this.#outcomes.set(key, "running");
      const effect = String(++this.effects);
      await this.held;
      this.#outcomes.set(key, effect);
    }
    const found = this.#outcomes.get(key);
    const page = this.pages.shift();
    if (page !== undefined) {
      return page(response, request);
    }
    if (found === "running") {
      const value = Buffer.from("\n\x17IDEMPOTENCY_IN_PROGRESS\x12\x11tonic-idempotency").toString("base64").replace(/=+$/, "");
      const details = [{ type: "google.rpc.ErrorInfo", value }];
      return response.writeHead(409, { "content-type": "application/json" }).end(JSON.stringify({ code: "aborted", details }));
    }
    const replayed = outcome === undefined ? {} : { "idempotent-replayed": "true" };
    const headers = { "content-type": "application/json", "idempotency-status": "completed", ...replayed };
    return response.writeHead(200, headers).end(JSON.stringify(found));
  }
}

/** Runs in the page: makes the call, and returns its response. */
async function order([name, item]) {
  const { create, createFileRegistry } = await import("@bufbuild/protobuf");
  const { FileDescriptorSetSchema, FileDescriptorProtoSchema, StringValueSchema } = await import("@bufbuild/protobuf/wkt");
  const { createClient } = await import("@connectrpc/connect");
  const { createConnectTransport } = await import("@connectrpc/connect-web");
  const { UnresolvedError, attempts, idempotency, pending, replayed } = await import("tonic-idempotency-client");

  const type = ".google.protobuf.StringValue";
  const file = create(FileDescriptorProtoSchema, {
    name: "orders.proto",
    package: "test",
    syntax: "proto3",
    dependency: ["google/protobuf/wrappers.proto"],
    service: [{ name: "Orders", method: [{ name: "Create", inputType: type, outputType: type }] }],
  });
  const wrappers = StringValueSchema.file.proto;
  const service = createFileRegistry(create(FileDescriptorSetSchema, { file: [wrappers, file] })).getService("test.Orders");
  const interceptors = [idempotency({ procedures: ["/test.Orders/Create"], attemptTimeoutMs: 5000 })];
  const client = createClient(service, createConnectTransport({ baseUrl: location.origin, interceptors }));
  let headers = new Headers();
  const options = { contextValues: pending(localStorage, name), onHeader: (found) => (headers = found) };
  try {
    const { value } = await client.create({ value: item }, options);
    return { value, attempts: attempts(headers), replayed: replayed(headers), saved: localStorage.length };
  } catch (error) {
    const unresolved = UnresolvedError.of(error);
    return { error: String(error), unresolved: unresolved !== undefined, cause: String(unresolved?.cause), saved: localStorage.length };
  }
}

const orders = new Orders();
const server = createServer(async (request, response) => {
  try {
    if (request.method === "POST") {
      await orders.answer(request.headers["idempotency-key"], request, response);
    } else if (request.url === "/") {
      response.setHeader("content-type", "text/html").end(pageWith("orders"));
    } else {
      response.setHeader("content-type", "text/javascript").end(await readModule(request.url));
    }
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const origin = `http://127.0.0.1:${server.address().port}`;
const browser = await chromium.launch({ executablePath: process.argv[2], args: ["--no-sandbox", "--disable-gpu"] });
const context = await browser.newContext();
const page = await context.newPage();
await page.goto(origin);

const CREATE = "**/test.Orders/Create";

/** Makes a call in the page, which is gone before it is answered. */
async function leave(name, gone) {
  void page.evaluate(order, [name, "one"]).catch(() => {});
  await gone;
  await page.reload();
}

/** Makes the call of a page that was reloaded, and checks that it gets the response of the only effect, with the same key. */
async function expectFirst(what, name, { replayed }) {
  const { effects, keys } = orders;
  const reply = await page.evaluate(order, [name, "one"]);
  assert.deepEqual([reply.value, reply.replayed, reply.saved], [String(orders.effects), replayed, 0], JSON.stringify(reply));
  assert.equal(new Set(orders.keys).size, 1, `${what}: ${keys}`);
  assert(orders.effects === Math.max(effects, 1));
  console.log(`${what}: effect ${reply.value}, ${orders.keys.length} requests, one key, replayed: ${reply.replayed}`);
  Object.assign(orders, { keys: [], effects: 0 });
}

// Its key is saved, and its request never leaves the browser.
let arrived = deferred();
await page.route(CREATE, () => arrived.resolve());
await leave("before", arrived.promise);
await page.unroute(CREATE);
await expectFirst("reloaded before the call", "before", { replayed: false });

// The server is at work. The page asks until it has ended.
const work = deferred();
orders.held = work.promise;
await leave("during", page.waitForRequest(CREATE).then(() => new Promise((done) => setTimeout(done, 200))));
void page.waitForRequest(CREATE).then(() => setTimeout(work.resolve, 300));
await expectFirst("reloaded during the call", "during", { replayed: true });

// The server has answered, and the page has not heard of it.
arrived = deferred();
await page.route(CREATE, async (route) => {
  await route.fetch();
  arrived.resolve();
});
await leave("after", arrived.promise);
await page.unroute(CREATE);
await expectFirst("reloaded after the call", "after", { replayed: true });

// A copied tab makes the same call beside the first.
const both = deferred();
orders.held = both.promise;
const copy = await context.newPage();
await copy.goto(origin);
const sent = [page, copy].map((tab) => tab.waitForRequest(CREATE));
const first = page.evaluate(order, ["copied", "one"]);
await sent[0];
const second = copy.evaluate(order, ["copied", "one"]);
await sent[1];
both.resolve();
const values = (await Promise.all([first, second])).map(({ value }) => value);
assert.deepEqual(values, ["1", "1"]);
assert.equal(new Set(orders.keys).size, 1);
console.log(`copied tab: effect 1 in both, ${orders.keys.length} requests, one key`);
Object.assign(orders, { keys: [], effects: 0 });

// Something between answers after the effect, in the words of Chromium's fetch.
const html = (status) => (response) => response.writeHead(status, { "content-type": "text/html" }).end("<html>no</html>");
const json = (status, body) => (response) => response.writeHead(status, { "content-type": "application/json" }).end(body);
for (const [what, answer] of Object.entries({
  "403 with a page": html(403),
  "404 with a page": html(404),
  "502 with a page": html(502),
  "200 with a page": html(200),
  "403 with JSON of a gateway": json(403, '{"message":"Forbidden"}'),
  "403 with half of a JSON": json(403, '{"mess'),
  "302 to a login": (response) => response.writeHead(302, { location: "/login" }).end(),
  "a broken connection": (response) => response.socket.destroy(),
  "half an answer": (response) => {
    response.writeHead(200, { "content-type": "application/json", "content-length": "100" }).write('"1');
    setTimeout(() => response.socket.destroy(), 20);
  },
})) {
  orders.pages = [answer];
  const reply = await page.evaluate(order, [what, "one"]);
  const again = reply.unresolved ? await page.evaluate(order, [what, "one"]) : reply;
  assert.deepEqual([again.value, again.replayed, again.saved], ["1", true, 0], JSON.stringify([reply, again]));
  assert.equal(new Set(orders.keys).size, 1);
  console.log(`${what}: ${reply.unresolved ? `unresolved by ${reply.cause}, and replayed when called again` : "replayed"}`);
  Object.assign(orders, { keys: [], effects: 0 });
}

await browser.close();
server.close();
server.closeAllConnections();

function deferred() {
  let resolve;
  const promise = new Promise((found) => (resolve = found));
  return { promise, resolve };
}
