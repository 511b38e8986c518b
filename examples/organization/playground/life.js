/**
 * The life of one user's key, as this page knows it from what it sent and what came back.
 *
 * `record` is `free`, `reserved`, `completed`, or `unknown` where an answer was lost; `work` is null, `processing`, `completed`
 * or `failed`.
 */
export class Life {
  constructor(user, key) {
    this.user = user;
    this.key = key;
    this.record = "free";
    this.work = null;
    /** Of the call that took the key. */
    this.first = null;
    this.resource = null;
    this.released = false;
    this.flying = 0;
    this.asked = 0;
    this.outcomes = [];
    /** How many projects ListProjects finds; null before it was asked. */
    this.projects = null;
  }

  /** Whether a call of this `procedure` with this `body` belongs to the key, or the key is free. */
  fits(procedure, body) {
    return !this.first || (this.first.procedure === procedure && this.first.body === body);
  }

  /** A call leaves. */
  sent(procedure, body) {
    this.flying += 1;
    this.first ??= { procedure, body };
    if (this.record === "free") {
      this.record = "reserved";
      this.released = false;
    }
  }

  /** An answer is here, or none will come. */
  received(outcome) {
    this.flying -= 1;
    this.outcomes.push(outcome.kind);
    switch (outcome.kind) {
      case "first":
      case "replayed":
        this.record = "completed";
        this.work = outcome.status;
        this.resource = outcome.resource;
        if (outcome.kind === "replayed") this.asked += 1;
        break;
      case "lost":
        if (this.record !== "completed") this.record = "unknown";
        break;
      case "failed":
      case "unprotected":
        this.release();
        break;
      default: // turned away: the record is as it was
    }
  }

  release() {
    if (this.flying > 0 || this.record !== "reserved") return;
    this.record = "free";
    this.first = null;
    this.released = true;
  }

  count(kind) {
    return this.outcomes.filter((outcome) => outcome === kind).length;
  }

  turnedAway() {
    return this.count("progress") + this.count("refused");
  }
}

/** The lives of this visit, each user's apart: a key of alice's says nothing of bob's. */
export class Lives {
  #lives = new Map();

  of(user, key) {
    const name = `${user} ${key}`;
    if (!this.#lives.has(name)) this.#lives.set(name, new Life(user, key));
    return this.#lives.get(name);
  }

  /** What other users' calls with this key created. */
  resourcesOfOthers(life) {
    return [...this.#lives.values()].filter((other) => other.key === life.key && other !== life).map(({ resource }) => resource);
  }
}
