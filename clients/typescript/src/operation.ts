import { Code, ConnectError, type Interceptor, type UnaryRequest, type UnaryResponse } from "@connectrpc/connect";

import { LATE, answerOf } from "./answer.js";
import type { Attempts } from "./attempts.js";
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
  /** Notes that an error has ended it, and returns the error. */
  ended(error: unknown): unknown;
}

/** Returns the time that the caller, or the transport, has set for a call, in milliseconds; `NaN` without one. */
export function timeoutOf({ header }: UnaryRequest): number {
  return Number(TIMEOUTS.map(([name]) => header.get(name)).find((value) => value !== null)?.replace(/m$/, "") ?? NaN);
}

/** Makes attempts until one has the response of the operation. Throws an error that ends it, or an {@link UnresolvedError}. */
export async function run(operation: Operation): Promise<UnaryResponse> {
  const { attempts, ended, key, request } = operation;
  for (;;) {
    const { made } = attempts;
    try {
      return await send(operation);
    } catch (error) {
      throwIfCancelled(operation, made);
      const pause = attempts.next(answerOf(error, request.header.get("content-type") ?? ""));
      if (pause === "ended") throw ended(error);
      if (pause !== "unknown") await sleep(pause, request.signal);
      throwIfCancelled(operation, made);
      if (pause === "unknown" || attempts.left() === 0) throw new UnresolvedError(key, made, error);
    }
  }
}

/** Makes one attempt. Throws {@link LATE} when its time is over. */
async function send({ attempts, key, next, request }: Operation): Promise<UnaryResponse> {
  const header = new Headers(request.header);
  header.set(KEY, key);
  // The server hears how much is left for the operation. It does not hear of an attempt's time, after which it goes on.
  const timeout = TIMEOUTS.find(([name]) => timeoutOf(request) > 0 && header.has(name));
  if (timeout !== undefined) header.set(timeout[0], `${Math.ceil(attempts.left())}${timeout[1]}`);
  const attempt = new AbortController();
  const { signal } = attempt;
  const timer = setTimeout(() => attempt.abort(LATE), attempts.begin());
  // Not AbortSignal.any: Node 20 keeps each of its signals for ever that had a listener.
  const cancel = () => attempt.abort(request.signal.reason);
  request.signal.addEventListener("abort", cancel);
  // connect-node does not notice that a stream of HTTP/2 is reset with NO_ERROR, and listens no more.
  const aborted = new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  try {
    // An inner interceptor may throw at once.
    return (await Promise.race([(async () => next({ ...request, header, signal }))(), aborted])) as UnaryResponse;
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  } finally {
    clearTimeout(timer);
    request.signal.removeEventListener("abort", cancel);
  }
}

/**
 * Throws the error of a cancelled call. Its transport throws the signal's reason instead, and drops the cause of an `AbortError`:
 * the signal, which is of this call only, gets the error as its reason. So is the transport's error for a time that is over, which
 * earlier versions throw whatever the signal's reason is.
 */
function throwIfCancelled({ key, request: { signal } }: Operation, made: number): void {
  if (!signal.aborted) return;
  const from = ConnectError.from(signal.reason, Code.Canceled);
  const copy = new ConnectError(from.rawMessage, from.code, undefined, undefined, from.cause);
  const [error, cause] = from.code === Code.DeadlineExceeded ? [from, copy] : [copy, from];
  error.cause = new UnresolvedError(key, made, cause);
  throw Object.defineProperty(signal, "reason", { value: error }).reason;
}

/** Waits for this time, or until the signal is aborted. */
async function sleep(ms: number, signal: AbortSignal): Promise<void> {
  const over = new AbortController();
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { signal: over.signal });
  });
  over.abort();
}
