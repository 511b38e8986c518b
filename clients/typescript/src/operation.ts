import { Code, ConnectError, type Interceptor, type UnaryRequest, type UnaryResponse } from "@connectrpc/connect";

import { LATE, answerOf } from "./answer.js";
import type { Attempts } from "./attempts.js";
import { note } from "./delivery.js";
import { UnresolvedError } from "./errors.js";
import { KEY } from "./key.js";

/** The headers with the time of a call, and their unit, as the transports write them: milliseconds. */
const TIMEOUTS = [["connect-timeout-ms", ""], ["grpc-timeout", "m"]] as const;

/** A call of the application. All its attempts have the same key and message. */
export interface Operation {
  readonly attempts: Attempts;
  readonly key: string;
  readonly next: ReturnType<Interceptor>;
  readonly request: UnaryRequest;
  /** Called when an answer has ended it. */
  ended(): void;
}

/** Returns the time that the caller, or the transport, has set for a call, in milliseconds; `NaN` without one. */
export function timeoutOf({ header }: UnaryRequest): number {
  return Number.parseInt(TIMEOUTS.map(([name]) => header.get(name)).find((value) => value !== null) ?? "", 10);
}

/** Makes attempts until one has the answer of the operation. Throws an error that ends it, or an {@link UnresolvedError}. */
export async function run(operation: Operation): Promise<UnaryResponse> {
  const { attempts, key, request } = operation;
  for (;;) {
    const { made } = attempts;
    const { response, error } = await send(operation).then(succeeded, failed);
    if (response !== undefined) {
      attempts.answered();
      operation.ended();
      note(response.header, made);
      return response;
    }
    throwIfCancelled(operation, made);
    const pause = attempts.next(answerOf(error, request.header.get("content-type") ?? ""));
    if (pause === "ended") {
      operation.ended();
      note(error, made);
      throw error;
    }
    if (pause !== "unknown") {
      await sleep(pause, request.signal);
      throwIfCancelled(operation, made);
    }
    if (pause === "unknown" || attempts.left() === 0) {
      throw new UnresolvedError(key, made, error);
    }
  }
}

const succeeded = (response: UnaryResponse) => ({ response, error: undefined });
const failed = (error: unknown) => ({ response: undefined, error });

/** Makes one attempt. Throws {@link LATE} when its time is over. */
async function send({ attempts, key, next, request }: Operation): Promise<UnaryResponse> {
  const header = new Headers(request.header);
  header.set(KEY, key);
  // The server hears how much is left for the operation. It does not hear of an attempt's time, after which it goes on.
  for (const [name, unit] of TIMEOUTS.filter(([name]) => header.has(name))) {
    header.set(name, `${Math.ceil(attempts.left())}${unit}`);
  }
  const attempt = new AbortController();
  const timer = setTimeout(() => attempt.abort(LATE), attempts.timeoutMs());
  // Node has it since 20.3, Chromium since 116, Firefox since 124, Safari since 17.4.
  const signal = AbortSignal.any([attempt.signal, request.signal]);
  // connect-node does not notice that a stream of HTTP/2 is reset with NO_ERROR, and listens no more.
  const aborted = new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  try {
    return (await Promise.race([next({ ...request, header, signal }), aborted])) as UnaryResponse;
  } catch (error) {
    throw attempt.signal.aborted ? LATE : error;
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Throws the error of a cancelled call. Its transport throws the signal's reason instead, and drops the cause of an `AbortError`:
 * the signal, which is of this call only, gets the error as its reason.
 */
function throwIfCancelled({ key, request: { signal } }: Operation, made: number): void {
  if (signal.aborted) {
    const { code, rawMessage } = ConnectError.from(signal.reason, Code.Canceled);
    const unresolved = new UnresolvedError(key, made, signal.reason);
    const reason = new ConnectError(rawMessage, code, undefined, undefined, unresolved);
    throw Object.defineProperty(signal, "reason", { value: reason }).reason;
  }
}

/** Waits for this time, or until the signal is aborted. */
async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  const listening = new AbortController();
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { signal: listening.signal });
  });
  listening.abort();
}
