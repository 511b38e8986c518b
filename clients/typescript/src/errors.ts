/** An error of the client's own. Connect wraps it into a `ConnectError`; `of` finds it there. */
abstract class ClientError extends Error {
  override readonly name = this.constructor.name;

  /** Returns the error of this class among an error and its causes; `undefined` if there is none. */
  static of<T>(this: abstract new (...args: never[]) => T, error: unknown): T | undefined {
    for (let cause = error; cause instanceof Error; cause = cause.cause) if (cause instanceof this) return cause;
    return undefined;
  }
}

/**
 * The outcome of an operation is unknown: it may have taken effect. Calling again with the same key is safe; with a new one, it
 * may happen twice. Its `cause` is the last error, `attempts` the number of those that were sent.
 */
export class UnresolvedError extends ClientError {
  constructor(readonly key: string, readonly attempts: number, override readonly cause: unknown) {
    super(`it is not known what became of the operation with the key ${key}`);
  }
}

/** Another message, procedure or key is pending under the name of an operation. Nothing was sent. */
export class ChangedRequest extends ClientError {
  constructor(readonly operation: string) {
    super(`another request is pending as ${operation}: repeat it, give it up, or choose another name`);
  }
}

/** A pending operation is too old for its key to protect it. Nothing was sent. Look for its effect, then give it up. */
export class Expired extends ClientError {
  constructor(readonly operation: string, readonly key: string) {
    super(`${operation} is pending for too long to be repeated: look for its effect, then give it up`);
  }
}
