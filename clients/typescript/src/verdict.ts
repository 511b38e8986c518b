import { Code } from "@connectrpc/connect";

import type { Answer } from "./answer.js";

/** The meaning of an answer for its operation. */
export type Verdict = "ended" | "ended later" | "retry" | "running" | "unknown";

/** The verdicts for the only attempt, and after one that was lost or given up. */
type Row = readonly [only: Verdict, afterLost: Verdict];

const ENDED: Row = ["ended", "ended"];
const FREE_KEY: Row = ["ended", "ended later"];
const NOT_LOOKED_AT: Row = ["ended", "unknown"];
const RETRY: Row = ["retry", "retry"];
const UNKNOWN: Row = ["unknown", "unknown"];

/** The reasons of the layer's refusals, without `IDEMPOTENCY_`. */
const REASONS: readonly (readonly [Row, string])[] = [
  [ENDED, "KEY_REUSED RESPONSE_NOT_STORED"],
  [FREE_KEY, "NOT_COMMITTED"],
  [NOT_LOOKED_AT, "CALLER_INVALID KEY_EXPIRED KEY_INVALID KEY_REQUIRED KEY_UNSUPPORTED NO_SCOPE NO_USER"],
  [NOT_LOOKED_AT, "REQUEST_MALFORMED REQUEST_TOO_LARGE STORE_FAILED TOO_MANY_RECORDS"],
  [RETRY, "CONFLICT HANDLER_TIMEOUT OVERLOADED REQUEST_TIMEOUT SHUTTING_DOWN STORE_UNAVAILABLE"],
  [["running", "running"], "IN_PROGRESS"],
  [UNKNOWN, "OUTCOME_UNKNOWN"],
];
/** The layer's refusals by their reasons. */
export const REFUSALS: ReadonlyMap<string | undefined, Row> = new Map(
  REASONS.flatMap(([row, reasons]) => reasons.split(" ").map((reason) => [`IDEMPOTENCY_${reason}`, row] as const)),
);

/** Codes of errors that pass. */
const OF_A_MOMENT = [Code.Canceled, Code.DeadlineExceeded, Code.Unavailable];
/** Codes of errors that may come after an effect. */
const UNCLEAR = [Code.Aborted, Code.Internal, Code.ResourceExhausted, Code.Unknown];

/** Returns the verdict on an answer that is no response. `clients/verdicts.json` has the same table; a test compares them. */
export function verdictOf(answer: Answer, afterLost: boolean): Verdict {
  const verdict = rowOf(answer)[afterLost || answer.isDoubtful ? 1 : 0];
  return answer.saysNever && (verdict === "retry" || verdict === "running") ? "unknown" : verdict;
}

function rowOf({ code, reason, outcome, retryInfo, isLost }: Answer): Row {
  const refusal = REFUSALS.get(reason);
  if (code === undefined) return isLost ? RETRY : UNKNOWN;
  if (refusal !== undefined) return refusal;
  if (outcome === "kept") return ENDED;
  if (OF_A_MOMENT.includes(code) || (code === Code.ResourceExhausted && retryInfo !== undefined)) return RETRY;
  if (outcome === "freed") return FREE_KEY;
  return UNCLEAR.includes(code) ? UNKNOWN : NOT_LOOKED_AT;
}
