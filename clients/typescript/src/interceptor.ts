import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";

import { Attempts } from "./attempts.js";
import { Budget } from "./budget.js";
import { note, status } from "./delivery.js";
import { KEY, newKey } from "./key.js";
import { run, timeoutOf } from "./operation.js";
import { PENDING } from "./pending.js";
import { hasOption, procedureOf } from "./procedure.js";
import { DEFAULTS, type Settings } from "./settings.js";

/**
 * Returns an interceptor that gives each operation a key, and repeats its call with the same key and message until an answer ends it.
 * An error that ends the operation is thrown as it is; with any other, an {@link UnresolvedError} is among the causes.
 *
 * Put it before interceptors that add credentials, and give the same one to all transports: they share its budget. Have no other
 * retries below it.
 */
export function idempotency(settings: Settings = {}): Interceptor {
  const all = { ...DEFAULTS, ...settings };
  const budget = new Budget();
  const warned = new Set<string>();
  const warn = (text: string) => warned.has(text) || (warned.add(text), console.warn(text));
  return (next) => async (request) => {
    const procedure = procedureOf(request.method);
    const pending = request.contextValues.get(PENDING);
    const takesKey = hasOption(request.method) || all.procedures.includes(procedure);
    if (!takesKey || request.stream) {
      if (pending !== undefined) {
        throw new ConnectError(`a call of ${procedure} takes no key, and cannot be pending`, Code.FailedPrecondition);
      }
      takesKey && warn(`${procedure} streams: its calls have no key, and are not repeated`);
      return next(request);
    }
    request.signal.throwIfAborted();
    const own = { key: request.header.get(KEY) ?? newKey(), isOld: false };
    const { key, isOld } = pending === undefined ? own : await pending.save(request);
    const set = timeoutOf(request);
    // It ends before its transport does, which would put an error of its own in the place of the operation's.
    const timeoutMs = set > 0 ? Math.max(set - 10, set / 2) : all.operationTimeoutMs;
    const attempts = new Attempts(all, budget, timeoutMs, isOld);
    const ended = (result: unknown) => (pending?.end(key), note(result, attempts.made));
    const response = await run({ attempts, key, next, request, ended });
    budget.deposit();
    ended(response.header);
    if (status(response.header) === undefined) {
      warn(`${procedure} has answered without idempotency-status: its server does not protect it, or CORS hides the header`);
    }
    return response;
  };
}
