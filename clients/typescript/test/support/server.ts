// A raw server of HTTP/1.1 and HTTP/2 that gives just the answers that a test wants.

import http from "node:http";
import http2 from "node:http2";
import type { AddressInfo, Socket } from "node:net";

/** A request that has come in whole. */
export interface Received {
  readonly path: string;
  readonly headers: Headers;
  readonly body: Uint8Array;
  /** The time, in milliseconds. */
  readonly at: number;
}

/** A request and the ways to answer it. */
export interface Exchange extends Received {
  respond(status: number, headers: Record<string, string>, body?: Uint8Array | string, trailers?: Record<string, string>): void;
  /** Breaks the connection, or resets the stream of HTTP/2 with this code: it shares its connection with other calls. */
  lose(code?: number): void;
  /** Breaks the connection in the middle of an answer. */
  loseHalf(headers: Record<string, string>): void;
}

export type Reply = (exchange: Exchange) => void;

export class Server {
  /** The replies to the calls with a key, in their order. The last one is for all further calls. */
  readonly replies = new Map<string, Reply[]>();
  /** The replies to calls with other keys, or without one. */
  others: Reply[] = [];
  readonly #byKey = new Map<string, Received[]>();
  #received: Received[] = [];

  private constructor(
    readonly http1: string,
    readonly http2: string,
    private readonly close: () => void,
  ) {}

  static async start(): Promise<Server> {
    let server: Server;
    const one = http.createServer((request, response) => {
      collect(request).then((body) => {
        const headers = new Headers(request.headers as Record<string, string>);
        server.#reply({
          ...{ path: request.url ?? "", headers, body, at: performance.now() },
          respond: (status, headers, body = "", trailers = {}) => {
            // Trailers of gRPC do not cross HTTP/1.1: gRPC-Web has them in its body.
            response.writeHead(status, { ...headers, ...trailers }).end(body);
          },
          lose: () => request.socket.destroy(),
          loseHalf: (headers) => {
            response.writeHead(200, { ...headers, "content-length": "100" }).write("half");
            setTimeout(() => request.socket.destroy(), 5);
          },
        });
      });
    });
    const two = http2.createServer();
    const sockets = new Set<Socket>();
    two.on("connection", (socket: Socket) => sockets.add(socket));
    two.on("stream", (stream, found) => {
      stream.on("error", () => {});
      collect(stream).then((body) => {
        const headers = new Headers();
        for (const [name, value] of Object.entries(found).filter(([name]) => !name.startsWith(":"))) {
          headers.set(name, String(value));
        }
        server.#reply({
          ...{ path: String(found[":path"]), headers, body, at: performance.now() },
          respond: (status, headers, body = "", trailers) => {
            stream.respond({ ":status": status, ...headers }, { waitForTrailers: trailers !== undefined });
            stream.on("wantTrailers", () => stream.sendTrailers(trailers ?? {}));
            stream.end(body);
          },
          lose: (code = http2.constants.NGHTTP2_CANCEL) => stream.close(code),
          loseHalf: (headers) => {
            stream.respond({ ":status": 200, ...headers });
            stream.write("half");
            setTimeout(() => stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR), 5);
          },
        });
      });
    });
    const addresses = await Promise.all(
      [one, two].map(async (listener) => {
        await new Promise<void>((listening) => listener.listen(0, "127.0.0.1", listening));
        return `http://127.0.0.1:${(listener.address() as AddressInfo).port}`;
      }),
    );
    const close = () => {
      one.close();
      one.closeAllConnections();
      two.close();
      sockets.forEach((socket) => socket.destroy());
    };
    server = new Server(addresses[0]!, addresses[1]!, close);
    return server;
  }

  /** The calls with this key; without one, all calls, in their order. */
  received(key?: string): Received[] {
    return key === undefined ? this.#received : (this.#byKey.get(key) ?? []);
  }

  reset(...others: Reply[]): void {
    this.#received = [];
    this.others = others;
  }

  stop(): void {
    this.close();
  }

  #reply(exchange: Exchange): void {
    this.#received.push(exchange);
    const key = exchange.headers.get("idempotency-key") ?? "";
    this.#byKey.set(key, [...(this.#byKey.get(key) ?? []), exchange]);
    const replies = this.replies.get(key) ?? this.others;
    const reply = replies.length > 1 ? replies.shift() : replies[0];
    if (reply === undefined) {
      throw new Error(`there is no answer for ${exchange.path}`);
    }
    reply(exchange);
  }
}

async function collect(body: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  try {
    for await (const chunk of body) {
      chunks.push(chunk);
    }
  } catch {
    // The caller has gone.
  }
  return Buffer.concat(chunks);
}
