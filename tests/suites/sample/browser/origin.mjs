// A page of another origin calls and reads the status of its key, over Connect and over gRPC-Web.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";

export default async function ({ open, url }) {
  const server = createServer((_, response) => response.writeHead(200, { "content-type": "text/html" }).end('<link rel="icon" href="data:,">'));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  try {
    const answer = await fetch(new URL("/playground/users.json", url));
    assert.equal(answer.headers.get("access-control-allow-origin"), null, "the page's users are readable by its own origin only");
    assert.equal(answer.headers.get("cross-origin-resource-policy"), "same-origin");
    assert.equal(answer.headers.get("cache-control"), "no-store");
    const users = await answer.json();
    const page = await open({}, `http://127.0.0.1:${server.address().port}/`);
    const [first, replay, grpcWeb] = await page.evaluate(calls, { url, users });
    assert.deepEqual(first, { status: 200, work: "processing", replayed: null });
    assert.deepEqual({ ...replay, work: null }, { status: 200, work: null, replayed: "true" });
    assert.match(replay.work, /^(processing|completed)$/, "the work may have ended when the replay comes");
    assert.deepEqual(grpcWeb, { status: 200, code: "3", details: "IDEMPOTENCY_KEY_REUSED" });
  } finally {
    server.close();
  }
}

/** Runs in the page. */
async function calls({ url, users }) {
  const key = crypto.randomUUID(); // 127.0.0.1 is a secure context, like HTTPS
  const path = new URL("/organization.v1.ProjectService/CreateProject", url);
  const common = { authorization: `Bearer ${users.tokens.alice}`, "idempotency-key": key };
  const connect = async () => {
    const headers = { ...common, "content-type": "application/json", "connect-protocol-version": "1" };
    const body = JSON.stringify({ clusterId: users.cluster_id, name: "elsewhere" });
    const response = await fetch(path, { method: "POST", headers, body });
    const header = (name) => response.headers.get(name);
    return { status: response.status, work: header("idempotency-status"), replayed: header("idempotent-replayed") };
  };
  const grpcWeb = async () => {
    const headers = { ...common, "content-type": "application/grpc-web+proto", "x-grpc-web": "1" };
    const response = await fetch(path, { method: "POST", headers, body: new Uint8Array(5) });
    const details = atob(response.headers.get("grpc-status-details-bin").replaceAll("-", "+").replaceAll("_", "/"));
    return { status: response.status, code: response.headers.get("grpc-status"), details: details.match(/IDEMPOTENCY_[A-Z_]+/)?.[0] };
  };
  return [await connect(), await connect(), await grpcWeb()];
}
