import { Code, ConnectError, type Interceptor, type UnaryRequest, type UnaryResponse } from "@connectrpc/connect";

import { LATE, answerOf } from "./answer.js";
import { Attempts } from "./attempts.js";
import type { Budget } from "./budget.js";
import { note } from "./delivery.js";
import { UnresolvedError } from "./errors.js";
import { KEY } from "./key.js";
import type { Settings } from "./settings.js";

/** The headers of Connect and gRPC with the time that a call has. The transports write milliseconds. */
const TIMEOUTS = ["connect-timeout-ms", "grpc-timeout"];
/** The time by which an operation ends before its transport, which would put its own error in the place of the operation's. */
const AHEAD_MS = 10;

/** A call of the application. All its attempts have the same key and message. */
export class Operation {
  /** The header with the time that the caller has set. */
  readonly #timeout: string | undefined;

  constructor(
    private readonly next: ReturnType<Interceptor>,
    private readonly request: UnaryRequest,
    private readonly key: string,
    private readonly settings: Required<Settings>,
  ) {
    this.#timeout = TIMEOUTS.find((name) => request.header.has(name));
  }

  /**
   * Makes attempts until one has the answer of the operation. `isOld`: it may have been sent before. Throws an error that ends it,
   * or an {@link UnresolvedError}.
   */
  async run(budget: Budget, isOld: boolean): Promise<UnaryResponse> {
    const { header, signal } = this.request;
    const set = Number.parseInt(header.get(this.#timeout ?? KEY) ?? "", 10);
    const timeoutMs = this.#timeout && set > 0 ? Math.max(set - AHEAD_MS, set / 2) : this.settings.operationTimeoutMs;
    const attempts = new Attempts(this.settings, budget, timeoutMs);
    if (isOld) {
      // An earlier page, or another tab, may have an attempt under way.
      attempts.giveUp();
    }
    for (;;) {
      const { made } = attempts;
      try {
        const response = await this.#send(attempts.left());
        budget.deposit();
        note(response.header, made);
        return response;
      } catch (error) {
        this.#throwIfCancelled(made);
        const pause = attempts.next(answerOf(error, header.get("content-type") ?? ""));
        if (pause === "ended") {
          note(error, made);
          throw error;
        }
        if (pause !== "unknown") {
          await sleep(pause, signal);
          this.#throwIfCancelled(made);
        }
        if (pause === "unknown" || attempts.left() === 0) {
          throw new UnresolvedError(this.key, made, error);
        }
      }
    }
  }

  /** Makes one attempt. Throws {@link LATE} when its time is over. */
  async #send(left: number): Promise<UnaryResponse> {
    const header = new Headers(this.request.header);
    header.set(KEY, this.key);
    if (this.#timeout !== undefined) {
      // The server hears how much is left for the operation. It does not hear of an attempt's time, after which it goes on.
      header.set(this.#timeout, `${Math.ceil(left)}${this.#timeout === "grpc-timeout" ? "m" : ""}`);
    }
    const attempt = new AbortController();
    const timer = setTimeout(() => attempt.abort(LATE), Math.min(this.settings.attemptTimeoutMs, left));
    // Node has it since 20.3, Chromium since 116, Firefox since 124, Safari since 17.4.
    const signal = AbortSignal.any([attempt.signal, this.request.signal]);
    // connect-node does not notice that a stream of HTTP/2 is reset with NO_ERROR, and listens no more.
    const aborted = new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    try {
      return (await Promise.race([this.next({ ...this.request, header, signal }), aborted])) as UnaryResponse;
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
  #throwIfCancelled(made: number): void {
    const { signal } = this.request;
    if (signal.aborted) {
      const { code, rawMessage } = ConnectError.from(signal.reason, Code.Canceled);
      const unresolved = new UnresolvedError(this.key, made, signal.reason);
      const reason = new ConnectError(rawMessage, code, undefined, undefined, unresolved);
      Object.defineProperty(signal, "reason", { value: reason });
      throw reason;
    }
  }
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(end, ms);
    function end() {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    }
    signal.addEventListener("abort", end);
  });
}
