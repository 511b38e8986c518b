import type { Answer } from "./answer.js";
import type { Budget } from "./budget.js";
import type { Settings } from "./settings.js";
import { verdictOf } from "./verdict.js";

/** The longest delay that a server's word is taken for. */
const LONGEST_MS = 3_600_000;

/** The attempts of one operation. */
export class Attempts {
  /** The number of attempts, including the one under way. */
  made = 1;
  #polls = 0;
  /** When the last attempt was given up that may be under way. */
  #givenUp: number;
  #sent = 0;
  #delay: number;
  /** The end by either clock: a laptop that slept sends nothing late. */
  readonly #ends: readonly [number, number];

  /** `isOld`: the operation may have been sent before, and an attempt of another page or tab may be under way. */
  constructor(private readonly settings: Required<Settings>, private readonly budget: Budget, timeoutMs: number, isOld: boolean) {
    this.#delay = settings.backoffMs[0];
    this.#ends = [performance.now() + timeoutMs, Date.now() + timeoutMs];
    this.#givenUp = isOld ? performance.now() : -Infinity;
  }

  /** The time until the operation's end, in milliseconds; at most as long as a timer can be. */
  left(): number {
    return Math.max(0, Math.min(this.#ends[0] - performance.now(), this.#ends[1] - Date.now(), 0x7fff_ffff));
  }

  /** Begins an attempt, and returns its time, in milliseconds. */
  begin(): number {
    this.#sent = performance.now();
    return Math.min(this.settings.attemptTimeoutMs, this.left());
  }

  /** Returns the pause before the next attempt, in milliseconds; "ended" or "unknown" if there is none. */
  next(answer: Answer): number | "ended" | "unknown" {
    const { attemptTimeoutMs, backoffMs, maxAttempts } = this.settings;
    // A server that is slow, or cut off, takes no longer than another attempt to begin with one, or to drop it.
    const over = this.#givenUp + attemptTimeoutMs;
    const verdict = verdictOf(answer, this.made + this.#polls > 1 || this.#givenUp > -Infinity);
    if (verdict === "ended" || verdict === "unknown" || (verdict === "ended later" && this.#sent >= over)) {
      this.budget.deposit();
      return verdict === "unknown" ? verdict : "ended";
    }
    const isPoll = verdict === "running";
    // What has arrived by now may have waited for this attempt.
    const asked = verdict === "ended later" ? Math.max(over - performance.now(), answer.delayMs ?? 0) : answer.delayMs;
    // A random part of a time that doubles, or up to a tenth besides: clients that fail together do not come back together.
    const jitter = Math.random() * this.#delay;
    this.#delay = Math.min(this.#delay * 2, backoffMs[1]);
    const delay = asked === undefined ? jitter : Math.min(asked, LONGEST_MS) + Math.min(jitter, asked / 10);
    const pause = Math.max(delay, isPoll ? backoffMs[0] : 0);
    // An attempt that begins with less than 10 ms would only replace the last answer by "not in time".
    const isInTime = pause + 10 < this.left() && (isPoll || this.made < maxAttempts);
    // An attempt that takes the place of a late one takes nothing from the budget.
    if (!isInTime || !(isPoll || answer.isLate || this.budget.withdraw())) return "unknown";
    isPoll ? this.#polls++ : this.made++;
    if (answer.mayBeUnderWay) this.#givenUp = performance.now();
    return pause;
  }
}
