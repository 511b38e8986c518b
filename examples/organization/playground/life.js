/**
 * The life of one user's key, as far as this page knows it from its requests and responses.
 *
 * `record` is `free`, `reserved`, `completed`, or, if a response was lost, `unknown`. `work` is null, `processing`, `completed`
 * or `failed`.
 */
export class Life {
  constructor(user, key) {
    this.user = user;
    this.key = key;
    this.record = "free";
    this.work = null;
    /** The procedure and the body of the call that took the key. */
    this.first = null;
    this.resource = null;
    this.released = false;
    this.flying = 0;
    this.asked = 0;
    this.outcomes = [];
    /** The number of projects that ListProjects finds; null before its first call. */
    this.projects = null;
  }

  /** Returns whether the key is free, or belongs to a call of this `procedure` with this `body`. */
  fits(procedure, body) {
    return !this.first || (this.first.procedure === procedure && this.first.body === body);
  }

  /** Records that a call was sent. */
  sent(procedure, body) {
    this.flying += 1;
    this.first ??= { procedure, body };
    if (this.record === "free") {
      this.record = "reserved";
      this.released = false;
    }
  }

  /** Records the outcome of a call. */
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
      default: // turned away: the record does not change
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

/** The lives of all keys since the page was loaded, separate for each user: the same key of alice and bob has two lives. */
export class Lives {
  #lives = new Map();

  of(user, key) {
    const name = `${user} ${key}`;
    if (!this.#lives.has(name)) this.#lives.set(name, new Life(user, key));
    return this.#lives.get(name);
  }

  /** Returns the resources that other users' calls with this key created. */
  resourcesOfOthers(life) {
    return [...this.#lives.values()].filter((other) => other.key === life.key && other !== life).map(({ resource }) => resource);
  }
}
