// Each row of clients/verdicts.json, given by a server in each library and protocol.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, test } from "node:test";

import { type Client, Code, createClient, createContextValues } from "@connectrpc/connect";
import { codeFromString } from "@connectrpc/connect/protocol-connect";

import { type Settings, UnresolvedError, idempotency } from "../src/index.js";
import { error, half, incomplete, lost, page, success, withoutMessage } from "./support/reply.js";
import { Server, type Reply } from "./support/server.js";
import { Orders } from "./support/service.js";
import { KINDS as ALL, type Kind, OF_CALL, perCall } from "./support/transports.js";

interface Row {
  reason?: string;
  code?: string;
  outcome?: string;
  retry_info?: true;
  pushback?: "never";
  message?: boolean;
  no_status?: string;
  only: string;
  after_lost: string;
}

type Column = "only" | "after_lost";
const COLUMNS: Column[] = ["only", "after_lost"];

const { domain, rows } = JSON.parse(readFileSync(new URL("../../../verdicts.json", import.meta.url), "utf8")) as {
  domain: string;
  rows: Row[];
};

/** connect-web reads errors in the same way for binary messages as for JSON. */
const KINDS = ALL.filter(({ name }) => name !== "connect-web, Connect");

/** Rows that cannot occur in a protocol, or differ there, with the reason. */
function exception({ protocol }: Kind, row: Row): string | undefined {
  if (protocol !== "connect") {
    return undefined;
  }
  if (row.no_status === "incomplete") {
    return "an answer of Connect has no status of gRPC that could be missing";
  }
  if (row.message === false) {
    return "a body without a byte is a message without a field";
  }
  return undefined;
}

/** Connect's libraries make the same error of JSON without a code, as gateways send it with HTTP 401, 403 and 501. */
const DOUBTFUL = ["PERMISSION_DENIED", "UNAUTHENTICATED", "UNIMPLEMENTED"];

function expected({ protocol }: Kind, row: Row, column: Column): string {
  const isDoubtful = protocol === "connect" && DOUBTFUL.includes(row.code ?? "") && row.outcome === undefined;
  return row[isDoubtful ? "after_lost" : column];
}

/** The answers that have the facts of a row. */
function repliesOf(row: Row, { halves }: Kind): Reply[] {
  switch (row.no_status) {
    case "broken":
      return [
        ...[8, 2, 7, 12].map((code): Reply => ({ lose }) => lose(code)),
        ...(halves ? [half] : []),
      ];
    case "incomplete":
      return [incomplete];
    case "page":
      return [
        ...[200, 400, 401, 403, 404, 408, 500, 520].map((status) => page(status)),
        ...[401, 403, 404].map((status) => page(status, "application/json", '"no"')),
        page(403, "text/plain", "", { "idempotency-outcome": "kept" }),
      ];
    case undefined:
      break;
    default:
      return [page(Number(row.no_status)), page(Number(row.no_status), "application/json", '"no"')];
  }
  if (row.code === "OK") {
    return [row.message ? success() : withoutMessage];
  }
  // A reason counts more than a code that would have another verdict.
  const code = row.code === undefined ? (row.only === "ended" ? Code.Unavailable : Code.NotFound) : codeOf(row.code);
  const outcome = row.outcome === undefined ? {} : { "idempotency-outcome": row.outcome };
  const facts = { code, domain, ...(row.reason && { reason: row.reason }), ...(row.retry_info && { retryAfterMs: 1 }) };
  if (row.pushback === undefined) {
    return [error({ ...facts, headers: outcome }), error({ ...facts, trailers: outcome })];
  }
  const [first, second] = ["-1", "soon"].map((never) => ({ "grpc-retry-pushback-ms": never }));
  return [error({ ...facts, headers: { ...outcome, ...first } }), error({ ...facts, headers: outcome, trailers: second ?? {} })];
}

function codeOf(name: string): Code {
  const code = codeFromString(name === "CANCELLED" ? "canceled" : (name.toLowerCase() as "canceled"));
  assert(code !== undefined, name);
  return code;
}

describe("each row of verdicts.json", () => {
  let server: Server;
  before(async () => (server = await Server.start()));
  after(() => server.stop());
  const clients = new Map<Kind, Client<typeof Orders>>();
  // All calls together would use up the budget of one interceptor.
  before(() => KINDS.forEach((kind) => clients.set(kind, createClient(Orders, kind.transport(server, perCall)))));

  /** Makes a call that gets this answer, after a lost one if that is the column, and another one for all further attempts. */
  async function call(kind: Kind, column: Column, reply: Reply, further: Reply, settings: Settings) {
    const key = crypto.randomUUID();
    server.replies.set(key, [...(column === "only" ? [] : [lost]), reply, further]);
    const interceptor = idempotency({ backoffMs: [1, 2], ...settings });
    const options = { headers: { "idempotency-key": key }, contextValues: createContextValues().set(OF_CALL, interceptor) };
    const end = await clients.get(kind)!.create({ item: "one" }, options).then(
      ({ item }) => item,
      (error: unknown) => (UnresolvedError.of(error) === undefined ? "failed" : "unresolved"),
    );
    const received = server.received(key);
    return { end, further: received.length - (column === "only" ? 1 : 2), received };
  }

  /** Makes a call that shows whether the client has this verdict, and returns a text that is empty if it has. */
  async function check(kind: Kind, column: Column, reply: Reply, verdict: string): Promise<string> {
    // There is one further attempt, and one more after a poll, which is no attempt.
    const maxAttempts = column === "only" ? 2 : 3;
    // There is no time to wait until a lost attempt cannot arrive any more, except for an unknown outcome, which nothing follows.
    const times = verdict === "unknown" ? {} : { attemptTimeoutMs: 60_000, operationTimeoutMs: 30_000 };
    const { end, further } = await call(kind, column, reply, error({ code: Code.Unavailable }), { maxAttempts, ...times });
    const wanted = {
      ended: ["first 0", "failed 0"],
      unknown: ["unresolved 0"],
      retry: ["unresolved 1"],
      running: ["unresolved 2"],
      "ended later": ["unresolved 0"],
    }[verdict];
    return wanted?.includes(`${end} ${further}`) ? "" : `${end} ${further} and not ${wanted}`;
  }

  for (const kind of KINDS) {
    test(kind.name, async () => {
      const failures: string[] = [];
      for (const row of rows.filter((row) => exception(kind, row) === undefined)) {
        const cases = COLUMNS.flatMap((column) => {
          const replies = repliesOf(row, kind).slice(0, column === "only" || row.no_status ? undefined : 1);
          return replies.map((reply, index) => ({ column, reply, index }));
        });
        await Promise.all(
          cases.map(async ({ column, reply, index }) => {
            const found = await check(kind, column, reply, expected(kind, row, column));
            if (found !== "") {
              failures.push(`${JSON.stringify(row)}, answer ${index}, ${column}: ${found}`);
            }
          }),
        );
      }
      assert.deepEqual(failures, []);
    });
  }

  test("an operation that has ended later is asked for when its lost attempt cannot arrive any more", async () => {
    const later = rows.filter((row) => row.after_lost === "ended later");
    assert(later.length > 0);
    await Promise.all(
      KINDS.flatMap((kind) =>
        later.map(async (row) => {
          const settings = { attemptTimeoutMs: 2_500 };
          const { end, further, received } = await call(kind, "after_lost", repliesOf(row, kind)[0]!, success("later"), settings);
          assert.deepEqual([end, further], ["later", 1], `${kind.name}: ${JSON.stringify(row)}`);
          assert(received[2]!.at - received[0]!.at >= settings.attemptTimeoutMs);
        }),
      ),
    );
  });

  test("the rows that differ or cannot occur are few", () => {
    for (const kind of KINDS) {
      const away = rows.filter((row) => exception(kind, row) !== undefined);
      assert.equal(away.length, kind.protocol === "connect" ? 2 : 0);
      const other = rows.filter((row) => expected(kind, row, "only") !== row.only);
      assert.equal(other.length, kind.protocol === "connect" ? 3 : 0);
    }
  });
});

