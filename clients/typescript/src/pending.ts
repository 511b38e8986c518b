import { toBinary } from "@bufbuild/protobuf";
import { type ContextValues, type UnaryRequest, createContextKey, createContextValues } from "@connectrpc/connect";

import { ChangedRequest, Expired } from "./errors.js";
import { KEY, hex, newKey } from "./key.js";
import { procedureOf } from "./procedure.js";

/** An hour less than servers keep a record by default. */
const MAX_AGE_MS = 23 * 3_600_000;

/** The record of a pending operation: the key, the time of the first attempt (ms of the epoch), and a hash of the request. */
type Saved = { readonly key: string; readonly at: number; readonly sha256: string };

/** The part of Web Storage that is needed. */
type WebStorage = { getItem(at: string): string | null; setItem(at: string, it: string): void; removeItem(at: string): void };

export const PENDING = createContextKey<PendingOperation | undefined>(undefined);

/**
 * Returns the values for a call that keeps its key, its time and the SHA-256 of its message in `storage`, such as `localStorage`,
 * until the operation has ended. A page that was reloaded, or a copied tab, makes the call again with the same key:
 *
 *     await orders.createOrder(order, { contextValues: pending(localStorage, "checkout-17") });
 *
 * `name` is the application's name of the operation. The call fails before anything is sent with {@link ChangedRequest} if another
 * message is pending under this name, and with {@link Expired} if the operation is older than 23 hours. Needs `crypto.subtle`: HTTPS,
 * or localhost. `values` are the call's other values.
 */
export function pending(storage: WebStorage, name: string, values = createContextValues()): ContextValues {
  return values.set(PENDING, new PendingOperation(storage, name));
}

/** Forgets a pending operation. The next call with this name is a new operation. */
export function giveUp(storage: WebStorage, name: string): void {
  storage.removeItem(placeOf(name));
}

/** An operation under a name of the application. */
export class PendingOperation {
  constructor(private readonly storage: WebStorage, private readonly name: string) {}

  /** Saves a key for the request, unless there is one. Returns the key, and whether it may have been sent before. */
  async save(request: UnaryRequest): Promise<{ key: string; isOld: boolean }> {
    const sha256 = await digest(request);
    request.signal.throwIfAborted();
    const own = request.header.get(KEY);
    const saved = this.#read();
    if (saved === null) {
      const key = own ?? newKey();
      this.storage.setItem(placeOf(this.name), JSON.stringify({ key, at: Date.now(), sha256 } satisfies Saved));
      return { key, isOld: false };
    }
    if (Date.now() - saved.at > MAX_AGE_MS) throw new Expired(this.name, saved.key);
    if (saved.sha256 !== sha256 || (own ?? saved.key) !== saved.key) throw new ChangedRequest(this.name);
    return { key: saved.key, isOld: true };
  }

  /** Removes the operation with this key. Another tab may have ended it, and begun the next one. */
  end(key: string): void {
    if (this.#read()?.key === key) giveUp(this.storage, this.name);
  }

  #read(): Saved | null {
    return JSON.parse(this.storage.getItem(placeOf(this.name)) ?? "null");
  }
}

const placeOf = (name: string) => `tonic-idempotency:${name}`;

/** Returns the SHA-256 of the procedure's name, a zero byte, and the message in its binary form. */
async function digest({ method, message }: UnaryRequest): Promise<string> {
  const all = await new Blob([`${procedureOf(method)}\0`, toBinary(method.input, message)]).arrayBuffer();
  return hex(new Uint8Array(await crypto.subtle.digest("SHA-256", all)));
}
