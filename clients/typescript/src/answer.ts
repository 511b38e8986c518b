import { Code, ConnectError } from "@connectrpc/connect";

import { reasonIn, retryInfoIn } from "./details.js";
import { REFUSALS } from "./verdict.js";

/** An answer that is no response: the facts that its verdict depends on. */
export interface Answer {
  /** The code of a server's status; `undefined` if there is none, and the library made the error up. */
  readonly code?: Code;
  /** Whether nothing tells that it was a server that said the code. */
  readonly isDoubtful?: boolean;
  /** Without a code: whether nothing, half an answer of gRPC, or HTTP 429, 502, 503 or 504 came back. */
  readonly isLost?: boolean;
  /** Whether the attempt's time was over. */
  readonly isLate?: boolean;
  readonly reason?: string | undefined;
  readonly outcome?: string | undefined;
  /** The delay of a `google.rpc.RetryInfo`, and the one that the server asks for with it or its pushback, in milliseconds. */
  readonly retryInfo?: number | undefined;
  readonly delayMs?: number | undefined;
  /** Whether the server asks never to try again. */
  readonly saysNever?: boolean;
  /** Whether the attempt may still arrive at its server, or run there. */
  readonly mayBeUnderWay: boolean;
}

/** The error of an attempt whose time is over. */
export const LATE = new ConnectError("the server has not answered in time", Code.DeadlineExceeded);

/** The codes that the libraries make of HTTP statuses other than 429, 502, 503 and 504. */
const OF_HTTP = [Code.Internal, Code.PermissionDenied, Code.Unauthenticated, Code.Unimplemented, Code.Unknown];
/** The codes that they make of a connection that breaks, of HTTP 429, 502, 503 and 504, and of the end of a time. */
const BROKEN = [Code.Aborted, Code.Canceled, Code.DeadlineExceeded, Code.Unavailable];
/** The codes of Node's errors without a connection, over which nothing can have been sent. fetch does not tell in browsers. */
const UNCONNECTED = ["EAI_AGAIN", "ECONNREFUSED", "ENOTFOUND"];

/** Returns the facts of an attempt's error. `contentType` is that of its request. */
export function answerOf(error: unknown, contentType: string): Answer {
  const protocol = /^application\/(grpc-web|grpc)?/.exec(contentType)?.[1] ?? "connect";
  if (!(error instanceof ConnectError) || !isOfServer(error, protocol)) {
    const mayBeUnderWay = !UNCONNECTED.includes(String(systemCode(error)));
    return { isLost: isLost(error, protocol), isLate: error === LATE, mayBeUnderWay };
  }
  const { code, details, metadata } = error;
  // Metadata has trailers first. The layer's outcome is in the headers, and a server's wish counts in the trailers first.
  const outcome = valuesOf(metadata, "idempotency-outcome").findLast((value) => /^(freed|kept)$/.test(value));
  const pushback = valuesOf(metadata, "grpc-retry-pushback-ms")[0];
  const saysNever = pushback !== undefined && !/^\d{1,19}$/.test(pushback);
  const [reason, retryInfo] = [reasonIn(error), retryInfoIn(error)];
  const delayMs = pushback === undefined || saysNever ? retryInfo : Number(pushback);
  const hasWord = outcome !== undefined || REFUSALS.has(reason);
  // JSON without a `code`, which gateways send, becomes an error of Connect that nothing tells from a server's.
  const isDoubtful = !hasWord && protocol === "connect" && details.length === 0 && OF_HTTP.includes(code);
  return { code, isDoubtful, reason, outcome, retryInfo, delayMs, saysNever, mayBeUnderWay: !hasWord };
}

/**
 * Whether a server said an error's code. The transports turn any other HTTP answer into an error like a server's. They differ:
 *
 * - Only a server's own error has details.
 * - Of HTTP 403, say, a transport makes "HTTP 403". (gRPC-Web makes the text of `grpc-message`, if there is one.)
 * - Only a server's own error of gRPC and gRPC-Web has its `grpc-status` in the metadata, and of Connect, the content type of JSON.
 * - Errors of a connection, and of a response that cannot be read, have no metadata.
 */
function isOfServer({ code, details, metadata, rawMessage }: ConnectError, protocol: string): boolean {
  const isOfHttp = /^HTTP \d+$/.test(rawMessage) && (OF_HTTP.includes(code) || code === Code.Unavailable);
  if (details.length > 0 || isOfHttp) return details.length > 0;
  return protocol === "connect"
    ? /^application\/json\b/i.test(metadata.get("content-type") ?? "") && !/^unsupported content type /.test(rawMessage)
    : Number.parseInt(metadata.get("grpc-status") ?? "", 10) === code;
}

/** Whether no answer came back, one of gRPC without a status, or HTTP 429, 502, 503 or 504. */
function isLost(error: unknown, protocol: string): boolean {
  // fetch throws these two without an answer, and connect-web passes them on.
  if (!(error instanceof ConnectError)) return error instanceof TypeError || (error as Error | null)?.name === "AbortError";
  const { code, rawMessage } = error;
  return (
    BROKEN.includes(code) ||
    typeof systemCode(error) === "string" ||
    /^http\/2 (connection|stream) closed |missing status$/.test(rawMessage) ||
    // With `grpc-status: 0` in the headers, it is a success without a message, and `Unimplemented`.
    (/missing trailer$/.test(rawMessage) && code === Code.Unknown) ||
    // In gRPC-Web, whose transports do not look at the content type, it may be a page.
    (/incomplete envelope$/.test(rawMessage) && protocol === "grpc")
  );
}

/** The code of Node's error that is the cause. */
function systemCode(error: unknown): unknown {
  return error instanceof Error ? (error.cause as { code?: unknown } | undefined)?.code : undefined;
}

function valuesOf(metadata: Headers, name: string): string[] {
  return metadata.get(name)?.split(",").map((value) => value.trim()) ?? [];
}
