/** The title and the meaning of each kind of outcome. */
export const KINDS = {
  running: { title: "Running", meaning: "The response has not arrived yet." },
  first: { title: "First", meaning: "The handler ran. Its response is now stored with the key." },
  replayed: { title: "Replayed", meaning: "The handler did not run. This is the stored response to the first call." },
  progress: { title: "In progress", meaning: "The first call with this key is still running. The handler did not run for this call." },
  refused: { title: "Refused", meaning: "The idempotency layer refused this call, which had no effect." },
  unprotected: { title: "Unprotected", meaning: "The handler ran, but no record was stored: a retry may run it again." },
  failed: { title: "Failed", meaning: "The call failed and had no effect. Its key is free for another attempt." },
  lost: { title: "Unclear", meaning: "It is not known whether the call took effect." },
};

/** The advice for each reason of a refusal. */
const ADVICE = {
  IDEMPOTENCY_IN_PROGRESS: "Send it again in a moment, with the same key.",
  IDEMPOTENCY_CONFLICT: "Send it again, with the same key.",
  IDEMPOTENCY_KEY_INVALID: "Send a UUID as the key.",
  IDEMPOTENCY_KEY_REQUIRED: "Send a key.",
  IDEMPOTENCY_KEY_REUSED: "Take a new key for another operation.",
  IDEMPOTENCY_OUTCOME_UNKNOWN: "Find out whether the first call took effect before you take a new key.",
  IDEMPOTENCY_RESPONSE_NOT_STORED: "The first call took effect. Look for the resource that it created.",
  IDEMPOTENCY_SHUTTING_DOWN: "The server is shutting down. Send it again when the server is back, with the same key.",
  IDEMPOTENCY_STORE_UNAVAILABLE: "The database is unavailable. Send it again in a moment, with the same key.",
};

/** The advice for each Connect code of an error that is not the layer's. */
const ADVICE_BY_CODE = {
  unauthenticated: "The sample was restarted, so the token is no longer valid. Reload the page.",
  invalid_argument: "Correct the message.",
  unimplemented: "The server does not implement the procedure.",
};

const RETRY = "Send it again with the same key: if it took effect, you get its response; if not, it runs now.";

/** The codes of errors after which a call may still have taken effect. */
const UNCLEAR = new Set(["canceled", "deadline_exceeded", "unavailable", "unknown"]);

/** Returns the outcome of an exchange: its kind in `KINDS`, and the texts to show. */
export function outcomeOf(exchange) {
  const { failure, response } = exchange;
  if (!response) return failure === null ? { kind: "running", ...KINDS.running } : lost(exchange);
  if (response.status === 200 && response.json) return succeeded(response);
  return refused(response);
}

function lost({ failure, request }) {
  const asked = "sample-lose-answer" in request.headers ? "The answer was lost on purpose." : "Is the sample still running?";
  return { kind: "lost", ...KINDS.lost, detail: failure, advice: `${asked} ${RETRY}` };
}

function succeeded({ headers, json }) {
  const status = headers["idempotency-status"] ?? null;
  const replayed = headers["idempotent-replayed"] === "true";
  const kind = replayed ? "replayed" : status ? "first" : "unprotected";
  const resource = json.projectId ?? json.clusterId ?? null;
  return { kind, ...KINDS[kind], status, resource, advice: "" };
}

function refused({ status, reason: phrase, json }) {
  const code = json?.code ?? null;
  const info = json?.details?.find(({ type }) => type === "google.rpc.ErrorInfo")?.debug ?? {};
  const reason = info.domain === "tonic-idempotency" ? info.reason : null;
  const kind = kindOf(code, reason);
  return {
    kind,
    ...KINDS[kind],
    code,
    reason,
    mismatch: info.metadata?.mismatch ?? null,
    detail: json?.message ?? `the server answered ${[status, phrase].join(" ").trim()} without an error message`,
    advice: ADVICE[reason] ?? ADVICE_BY_CODE[code] ?? (kind === "lost" ? RETRY : "See the sample’s log in its terminal."),
  };
}

function kindOf(code, reason) {
  if (reason) return reason === "IDEMPOTENCY_IN_PROGRESS" ? "progress" : "refused";
  // A response that is not a Connect error comes from an intermediary, such as a proxy.
  return code === null || UNCLEAR.has(code) ? "lost" : "failed";
}
