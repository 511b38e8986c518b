// The order of attempts, without a server.

import assert from "node:assert/strict";
import { describe, test } from "node:test";

import { create, toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";

import { type Answer, LATE, answerOf } from "../src/answer.js";
import { Attempts } from "../src/attempts.js";
import { Budget } from "../src/budget.js";
import { newKey } from "../src/key.js";
import { DEFAULTS } from "../src/settings.js";
import { RetryInfoSchema } from "./support/service.js";

const HOUR_MS = 3_600_000;
const UNAVAILABLE: Answer = { code: Code.Unavailable, mayBeUnderWay: false };

const attempts = (timeoutMs: number) => new Attempts(DEFAULTS, new Budget(), timeoutMs, false);

/** The answer of gRPC with this `RetryInfo` and pushback. */
function answer(code: Code, seconds: bigint, nanos = 0, pushback?: string): Answer {
  const headers = { "grpc-status": String(code), ...(pushback === undefined ? {} : { "grpc-retry-pushback-ms": pushback }) };
  const error = new ConnectError("", code, headers);
  const value = toBinary(RetryInfoSchema, create(RetryInfoSchema, { retryDelay: { seconds, nanos } } as object));
  error.details.push({ type: "google.rpc.RetryInfo", value });
  return answerOf(error, "application/grpc+proto");
}

test("an attempt that another may have waited for does not end its operation", (context) => {
  context.mock.timers.enable({ apis: ["Date"] });
  let now = 0;
  context.mock.method(performance, "now", () => now);
  const operation = attempts(60_000);
  const freed: Answer = { code: Code.NotFound, outcome: "freed", mayBeUnderWay: false };
  assert.equal(operation.begin(), 10_000);
  now = 10_000;
  assert.equal(typeof operation.next({ isLost: true, isLate: true, mayBeUnderWay: true }), "number");
  operation.begin();
  // The first one has arrived meanwhile, and waits. It could not arrive any more now.
  now = 20_001;
  assert.equal(operation.next(freed), 0);
  operation.begin();
  assert.equal(operation.next(freed), "ended");
});

describe("pauses", () => {
  test("are a random part of a time that doubles from 50 ms up to 5 s", () => {
    const rounds = Array.from({ length: 200 }, () => {
      const operation = attempts(24 * HOUR_MS);
      return Array.from({ length: 9 }, () => operation.next(UNAVAILABLE) as number);
    });
    for (let round = 0; round < 9; round++) {
      const longest = Math.min(50 * 2 ** round, 5_000);
      const found = rounds.map((pauses) => pauses[round]!);
      assert(found.every((pause) => pause >= 0 && pause <= longest), String(round));
      assert(found.some((pause) => pause < longest / 4) && found.some((pause) => pause > (longest * 3) / 4), String(round));
    }
  });

  test("last as long as the server says, and up to a tenth more; at most an hour", () => {
    for (const [seconds, pushback, least] of [
      [2n, undefined, 2_000],
      [2n, "1000", 1_000],
      [1n << 40n, undefined, HOUR_MS],
      [1n, "9999999999999", HOUR_MS],
      [1n, "0", 0],
    ] as const) {
      const pause = attempts(24 * HOUR_MS).next(answer(Code.Unavailable, seconds, 0, pushback));
      assert(typeof pause === "number" && pause >= least && pause <= least * 1.1, `${seconds} ${pushback}: ${pause}`);
    }
  });

  test("that would outlast the operation are none", () => {
    assert.equal(attempts(1_000).next(answer(Code.Unavailable, 2n)), "unknown");
    assert.equal(attempts(1_000).next(answer(Code.Unavailable, 0n, 995_000_000)), "unknown");
  });

  test("are asked for with numbers only", () => {
    for (const pushback of ["-1", "soon", "", "1.5", "99999999999999999999999"]) {
      assert.equal(attempts(HOUR_MS).next(answer(Code.Unavailable, 0n, 0, pushback)), "unknown", pushback);
    }
    // A delay that is no time does not make this error pass.
    for (const [seconds, nanos] of [[-1n, 0], [0n, -1], [-(1n << 62n), -5]] as const) {
      assert.equal(attempts(HOUR_MS).next(answer(Code.ResourceExhausted, seconds, nanos)), "unknown", `${seconds} ${nanos}`);
    }
    assert.equal(typeof attempts(HOUR_MS).next(answer(Code.ResourceExhausted, 0n, 1)), "number");
  });

  test("after a late attempt take nothing from the budget", () => {
    const budget = new Budget();
    while (budget.withdraw());
    assert.equal(new Attempts(DEFAULTS, budget, HOUR_MS, false).next(UNAVAILABLE), "unknown");
    const late = new Attempts(DEFAULTS, budget, HOUR_MS, false).next(answerOf(LATE, "application/json"));
    assert.equal(typeof late, "number");
  });
});

test("details that are no messages are ignored", () => {
  const error = new ConnectError("", Code.NotFound, { "grpc-status": "5" });
  for (const type of ["google.rpc.ErrorInfo", "google.rpc.RetryInfo"]) {
    error.details.push({ type, value: Uint8Array.of(0xff, 0xff, 0xff) });
  }
  const { code, reason, delayMs } = answerOf(error, "application/grpc");
  assert.deepEqual([code, reason, delayMs], [Code.NotFound, undefined, undefined]);
});

test("keys have their time first, and differ", () => {
  const began = Date.now();
  const keys = Array.from({ length: 1_000 }, newKey);
  assert.equal(new Set(keys).size, keys.length);
  for (const key of keys) {
    const time = Number.parseInt(key.replace("-", "").slice(0, 12), 16);
    assert(time >= began && time <= Date.now());
  }
});
