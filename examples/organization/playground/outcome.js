/** What each kind of outcome is called, and what it means to whoever made the call. */
export const KINDS = {
  first: { title: "First", meaning: "The handler ran. Its response is now kept with the key." },
  replayed: { title: "Replayed", meaning: "The handler did not run. This is the first call’s response, from the record." },
  progress: { title: "In progress", meaning: "The first call with this key still runs. Nothing was done for this one." },
  refused: { title: "Refused", meaning: "The key and this call do not go together. Nothing was done." },
  unprotected: { title: "Unprotected", meaning: "The handler ran, and no record was kept: a retry may create twice." },
  failed: { title: "Failed", meaning: "The call failed, and left nothing behind. Its key is free for another attempt." },
  lost: { title: "Unclear", meaning: "Nobody knows from this whether the call took effect." },
};

/** What to do next, by the reason of a refusal. */
const ADVICE = {
  IDEMPOTENCY_IN_PROGRESS: "Send it again in a moment, with the same key.",
  IDEMPOTENCY_CONFLICT: "Send it again, with the same key.",
  IDEMPOTENCY_KEY_INVALID: "Send a UUID.",
  IDEMPOTENCY_KEY_REQUIRED: "Send a key.",
  IDEMPOTENCY_KEY_REUSED: "Take a new key for another operation.",
  IDEMPOTENCY_OUTCOME_UNKNOWN: "Find out whether it took effect before you take a new key.",
  IDEMPOTENCY_RESPONSE_NOT_STORED: "It took effect; look for what it created.",
  IDEMPOTENCY_SHUTTING_DOWN: "The server stops. Send it again once it is back, with the same key.",
  IDEMPOTENCY_STORE_UNAVAILABLE: "The database is away. Send it again in a moment, with the same key.",
};

/** What to do next, by Connect's code of an error that is none of the layer's. */
const ADVICE_BY_CODE = {
  unauthenticated: "The token is not this process’s: the sample was restarted. Reload the page.",
  invalid_argument: "Correct the message.",
  unimplemented: "This server does not know the procedure.",
};

const RETRY = "Send it again with the same key: if it took effect, its response comes back; if not, it runs now.";

/** Codes that a call may end with although it took effect. */
const UNCLEAR = new Set(["canceled", "deadline_exceeded", "unavailable", "unknown"]);

/** What became of an exchange: a `kind` of `KINDS`, and what is to be said of it. */
export function outcomeOf(exchange) {
  const { response } = exchange;
  if (!response) return lost(exchange);
  if (response.status === 200 && response.json) return succeeded(response);
  return refused(response);
}

function lost({ failure }) {
  return { kind: "lost", ...KINDS.lost, detail: failure, advice: `Does the sample still run? ${RETRY}` };
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
    detail: json?.message ?? `the server answered ${[status, phrase].join(" ").trim()} without saying why`,
    advice: ADVICE[reason] ?? ADVICE_BY_CODE[code] ?? (kind === "lost" ? RETRY : "The sample’s log, on its terminal, says more."),
  };
}

function kindOf(code, reason) {
  if (reason) return reason === "IDEMPOTENCY_IN_PROGRESS" ? "progress" : "refused";
  // What is no error of Connect’s comes from something in between.
  return code === null || UNCLEAR.has(code) ? "lost" : "failed";
}
