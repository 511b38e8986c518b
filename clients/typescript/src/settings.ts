/** How operations are repeated. Times are in milliseconds. */
export interface Settings {
  /**
   * Full names of procedures that take keys besides those with the option `(idempotency.v1.procedure)`, such as
   * `/orders.v1.OrderService/CreateOrder`. Defaults to none.
   */
  readonly procedures?: readonly string[];
  /** The time of one attempt. A handler that takes longer goes on; the next attempt finds it in progress. Defaults to 10 s. */
  readonly attemptTimeoutMs?: number;
  /** The time of all attempts. The `timeoutMs` of a call, and the transport's default, win. Defaults to 1 min. */
  readonly operationTimeoutMs?: number;
  /** The attempts of one operation; asking for a call that runs is none. Defaults to 10. */
  readonly maxAttempts?: number;
  /** The pauses are a random part of a time that doubles from the first to the second. Defaults to 50 ms and 5 s. */
  readonly backoffMs?: readonly [number, number];
}

const TIMES = { attemptTimeoutMs: 10_000, operationTimeoutMs: 60_000, backoffMs: [50, 5_000] } as const;
export const DEFAULTS: Required<Settings> = { procedures: [], maxAttempts: 10, ...TIMES };
