// Answers of a server in each protocol, as the request's content type asks.

import { create, toBinary, toJsonString } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import { base64Encode } from "@bufbuild/protobuf/wire";
import { Code } from "@connectrpc/connect";
import { codeToHttpStatus, codeToString } from "@connectrpc/connect/protocol-connect";
import { encodeEnvelope } from "@connectrpc/connect/protocol";

import { ErrorInfoSchema, OrderSchema, RetryInfoSchema, StatusSchema } from "./service.js";
import type { Exchange, Reply } from "./server.js";

export interface ErrorFacts {
  readonly code: Code;
  readonly reason?: string;
  readonly domain?: string;
  readonly message?: string;
  /** The delay of `RetryInfo`, in milliseconds. */
  readonly retryAfterMs?: number;
  /** Headers, such as `idempotency-outcome`. */
  readonly headers?: Record<string, string>;
  /** Trailers, such as `grpc-retry-pushback-ms`. */
  readonly trailers?: Record<string, string>;
}

/** A success, with these headers. */
export function success(item = "first", headers: Record<string, string> = { "idempotency-status": "completed" }): Reply {
  return (exchange) => {
    const type = typeOf(exchange);
    const order = create(OrderSchema, { item });
    const bytes = toBinary(OrderSchema, order);
    const head = { "content-type": type, ...headers };
    if (type.startsWith("application/grpc-web")) {
      exchange.respond(200, head, Buffer.concat([encodeEnvelope(0, bytes), trailerFrame({ "grpc-status": "0" })]));
    } else if (type.startsWith("application/grpc")) {
      exchange.respond(200, head, encodeEnvelope(0, bytes), { "grpc-status": "0" });
    } else {
      exchange.respond(200, head, type.endsWith("json") ? toJsonString(OrderSchema, order) : bytes);
    }
  };
}

/** A replay of the first success. */
export const replay = success("first", { "idempotency-status": "completed", "idempotent-replayed": "true" });

/** A server's own error. */
export function error({ code, reason, domain = "tonic-idempotency", message = "no", retryAfterMs, headers = {}, trailers = {} }: ErrorFacts): Reply {
  const details = [
    ...(reason === undefined ? [] : [anyPack(ErrorInfoSchema, create(ErrorInfoSchema, { reason, domain } as object))]),
    ...(retryAfterMs === undefined ? [] : [anyPack(RetryInfoSchema, retryInfo(retryAfterMs))]),
  ];
  return (exchange) => {
    const type = typeOf(exchange);
    if (!type.startsWith("application/grpc")) {
      const body = {
        code: codeToString(code),
        message,
        details: details.map(({ typeUrl, value }) => ({ type: typeUrl.split("/")[1], value: base64Encode(value, "std_raw") })),
      };
      const inHeaders = Object.fromEntries(Object.entries(trailers).map(([name, value]) => [`trailer-${name}`, value]));
      exchange.respond(codeToHttpStatus(code), { "content-type": "application/json", ...headers, ...inHeaders }, JSON.stringify(body));
      return;
    }
    const status = toBinary(StatusSchema, create(StatusSchema, { code, message, details } as object));
    const all = {
      ...{ "grpc-status": String(code), "grpc-message": message, ...trailers },
      ...(details.length === 0 ? {} : { "grpc-status-details-bin": base64Encode(status, "std_raw") }),
    };
    if (type.startsWith("application/grpc-web")) {
      exchange.respond(200, { "content-type": type, ...headers }, trailerFrame(all));
    } else {
      exchange.respond(200, { "content-type": type, ...headers }, "", all);
    }
  };
}

/** An answer of something that is no server of the protocol. */
export function page(status: number, type = "text/html", body = "<html>no</html>", headers: Record<string, string> = {}): Reply {
  return ({ respond }) => respond(status, { "content-type": type, ...headers }, body);
}

/** An answer of gRPC, or gRPC-Web, without a status. */
export const incomplete: Reply = (exchange) => exchange.respond(200, { "content-type": typeOf(exchange) }, encodeEnvelope(0, new Uint8Array()), {});

/** A success of gRPC, or gRPC-Web, without a message. */
export const withoutMessage: Reply = (exchange) => {
  const type = typeOf(exchange);
  const isWeb = type.startsWith("application/grpc-web");
  exchange.respond(200, { "content-type": type }, isWeb ? trailerFrame({ "grpc-status": "0" }) : "", isWeb ? undefined : { "grpc-status": "0" });
};

export const lost: Reply = ({ lose }) => lose();

/** The first half of an answer. */
export const half: Reply = (exchange) => exchange.loseHalf({ "content-type": typeOf(exchange) });

/** No answer at all. */
export const silence: Reply = () => {};

function typeOf({ headers }: Exchange): string {
  return headers.get("content-type") ?? "";
}

function retryInfo(ms: number) {
  const retryDelay = { seconds: BigInt(Math.floor(ms / 1000)), nanos: (ms % 1000) * 1e6 };
  return create(RetryInfoSchema, { retryDelay } as object);
}

function trailerFrame(trailers: Record<string, string>): Uint8Array {
  const text = Object.entries(trailers).map(([name, value]) => `${name}: ${value}\r\n`);
  return encodeEnvelope(0x80, new TextEncoder().encode(text.join("")));
}
