const WINDOW_MS = 10_000;
/** A further attempt costs as much as this number of calls brings. */
const COST = 5;

/**
 * Limits the further attempts of all calls together, so that they do not make an outage worse: a fifth of the calls that were
 * answered in the last 10 s, and 10 per second.
 */
export class Budget {
  /** The sum of what calls have brought and attempts have cost, for each second of the window. */
  #seconds: { at: number; sum: number }[] = [];

  /** Notes that a call was answered. */
  deposit(): void {
    this.#add(1);
  }

  /** Takes a further attempt. Returns whether there was one. */
  withdraw(): boolean {
    return this.#add(0) >= COST && this.#add(-COST) >= 0;
  }

  /** Returns the balance. */
  #add(amount: number): number {
    const at = Math.floor(performance.now() / 1000);
    this.#seconds = this.#seconds.filter((second) => second.at > at - WINDOW_MS / 1000);
    if (this.#seconds.at(-1)?.at !== at) this.#seconds.push({ at, sum: 0 });
    this.#seconds.at(-1)!.sum += amount;
    // Ten further attempts per second, whatever calls have brought.
    return this.#seconds.reduce((balance, { sum }) => balance + sum, (COST * 10 * WINDOW_MS) / 1000);
  }
}
