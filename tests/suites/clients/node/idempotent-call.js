// One call with the interceptor of clients/typescript, over a transport that has it.

import { ConnectError } from "@connectrpc/connect";

import { call } from "./call.js";

/**
 * Makes a call, and returns its reply with `verdict` ("ended"; "unknown"; "unsent", if its pending operation refuses it), the number
 * of `attempts`, and whether the answer was `replayed`. `line` may have the time of the operation as `timeout_ms`, and a name as
 * `pending`, under which `storage` keeps its key. `library` is the interceptor's package.
 */
export function idempotentCall(library, schema, transport, line, storage) {
  const options = {
    ...(line.timeout_ms === undefined ? {} : { timeoutMs: line.timeout_ms }),
    ...(line.pending === undefined ? {} : { contextValues: library.pending(storage, line.pending) }),
  };
  return call(schema, transport, line, options, ({ headers, error }) => {
    if (error === undefined) {
      return { verdict: "ended", attempts: library.attempts(headers), replayed: library.replayed(headers) };
    }
    const unresolved = library.UnresolvedError.of(error);
    if (unresolved !== undefined) {
      return { verdict: "unknown", attempts: unresolved.attempts, replayed: false };
    }
    if (library.ChangedRequest.of(error) !== undefined || library.Expired.of(error) !== undefined) {
      return { verdict: "unsent", attempts: 0, replayed: false };
    }
    const replayed = library.replayed(ConnectError.from(error).metadata);
    return { verdict: "ended", attempts: library.attempts(error), replayed };
  });
}
