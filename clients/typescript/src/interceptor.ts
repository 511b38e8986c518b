import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";

import { Budget } from "./budget.js";
import { status } from "./delivery.js";
import { UnresolvedError } from "./errors.js";
import { KEY, newKey } from "./key.js";
import { Operation } from "./operation.js";
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
  const procedures = new Set(all.procedures);
  const budget = new Budget();
  const warned = new Set<string>();
  const warn = (text: string) => warned.has(text) || (warned.add(text), console.warn(text));
  return (next) => async (request) => {
    const procedure = procedureOf(request.method);
    const pending = request.contextValues.get(PENDING);
    const takesKey = hasOption(request.method) || procedures.has(procedure);
    if (pending !== undefined && (!takesKey || request.stream)) {
      throw new ConnectError(`a call of ${procedure} takes no key, and cannot be pending`, Code.FailedPrecondition);
    }
    if (takesKey && request.stream) {
      warn(`${procedure} streams: its calls have no key, and are not repeated`);
    }
    if (!takesKey || request.stream) {
      return next(request);
    }
    request.signal.throwIfAborted();
    const own = { key: request.header.get(KEY) ?? newKey(), isOld: false };
    const { key, isOld } = pending === undefined ? own : await pending.save(request);
    try {
      const response = await new Operation(next, request, key, all).run(budget, isOld);
      pending?.end(key);
      if (status(response.header) === undefined) {
        warn(`${procedure} has answered without idempotency-status: its server does not protect it, or CORS hides the header`);
      }
      return response;
    } catch (error) {
      if (UnresolvedError.of(error) === undefined) {
        pending?.end(key);
      }
      throw error;
    }
  };
}
