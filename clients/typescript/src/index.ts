export { attempts, replayed, status } from "./delivery.js";
export { ChangedRequest, Expired, UnresolvedError } from "./errors.js";
export { idempotency } from "./interceptor.js";
export { giveUp, pending } from "./pending.js";
export type { Settings } from "./settings.js";
