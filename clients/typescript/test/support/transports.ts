// Each library and protocol that an interceptor works in.

import { type Interceptor, type Transport, createContextKey } from "@connectrpc/connect";
import * as node from "@connectrpc/connect-node";
import * as web from "@connectrpc/connect-web";

import type { Server } from "./server.js";

export interface Kind {
  readonly name: string;
  readonly protocol: "connect" | "grpc" | "grpc-web";
  /** Whether the library sees that an answer is only half: connect-node takes a reset stream of HTTP/2 for the end of a body. */
  readonly halves: boolean;
  transport(server: Server, ...interceptors: Interceptor[]): Transport;
}

/** connect-web calls with Node's fetch here. */
export const KINDS: Kind[] = [
  {
    name: "connect-node, Connect with JSON over HTTP/1.1",
    protocol: "connect",
    halves: true,
    transport: ({ http1 }, ...interceptors) =>
      node.createConnectTransport({ baseUrl: http1, httpVersion: "1.1", useBinaryFormat: false, interceptors }),
  },
  {
    name: "connect-node, Connect over HTTP/2",
    protocol: "connect",
    halves: false,
    transport: ({ http2 }, ...interceptors) => node.createConnectTransport({ baseUrl: http2, httpVersion: "2", interceptors }),
  },
  {
    name: "connect-node, gRPC",
    protocol: "grpc",
    halves: true,
    transport: ({ http2 }, ...interceptors) => node.createGrpcTransport({ baseUrl: http2, interceptors }),
  },
  {
    name: "connect-node, gRPC-Web",
    protocol: "grpc-web",
    halves: true,
    transport: ({ http1 }, ...interceptors) => node.createGrpcWebTransport({ baseUrl: http1, httpVersion: "1.1", interceptors }),
  },
  {
    name: "connect-web, Connect with JSON",
    protocol: "connect",
    halves: true,
    transport: ({ http1 }, ...interceptors) => web.createConnectTransport({ baseUrl: http1, interceptors }),
  },
  {
    name: "connect-web, Connect",
    protocol: "connect",
    halves: true,
    transport: ({ http1 }, ...interceptors) => web.createConnectTransport({ baseUrl: http1, useBinaryFormat: true, interceptors }),
  },
  {
    name: "connect-web, gRPC-Web",
    protocol: "grpc-web",
    halves: true,
    transport: ({ http1 }, ...interceptors) => web.createGrpcWebTransport({ baseUrl: http1, interceptors }),
  },
];

/** The interceptor of one call. */
export const OF_CALL = createContextKey<Interceptor>((next) => next);

/** The interceptor of a transport whose calls have their own interceptors. */
export const perCall: Interceptor = (next) => (request) => request.contextValues.get(OF_CALL)(next)(request);
