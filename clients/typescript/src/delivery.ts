const STATUSES = ["processing", "completed", "failed"] as const;
const made = new WeakMap<object, number>();

/** Notes the number of attempts that led to a response's headers, or to an error, and returns these. */
export function note(result: unknown, attempts: number): unknown {
  if (typeof result === "object" && result !== null) made.set(result, attempts);
  return result;
}

/** Returns the number of attempts that led to these headers of a response, or to this error; 1 for a call without a key. */
export function attempts(result: object): number {
  return made.get(result) ?? 1;
}

/** Returns the `idempotency-status`; `undefined` if there is none: the server does not protect the call, or CORS hides it. */
export function status(headers: Headers): (typeof STATUSES)[number] | undefined {
  return STATUSES.find((status) => status === headers.get("idempotency-status"));
}

/** Whether the server has replayed the answer of an earlier attempt. Takes the headers of a response, or an error's metadata. */
export function replayed(headers: Headers): boolean {
  return headers.get("idempotent-replayed") === "true";
}
