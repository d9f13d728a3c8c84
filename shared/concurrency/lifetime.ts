/** A resource that must be closed when it is no longer used. */
interface Closable {
  close(): unknown;
}

/**
 * Owns what a composition opens, and closes it in reverse order. The shape is that of `AsyncDisposableStack`, with
 * `close`.
 *
 * @example
 * const composed = await Lifetime.compose(async (lifetime) => {
 *   const store = await lifetime.use(openStore(settings));
 *   const timer = lifetime.use(clock.every(1000, look), (timer) => timer.cancel());
 *   return { store, close: () => lifetime.close() };
 * });
 */
export class Lifetime {
  readonly #closings: (() => unknown)[] = []; // bounded by the steps of a composition
  #closed: Promise<void> | undefined;

  /**
   * Runs a composition. If it fails, closes everything that it had opened, and rejects with its failure. A failure of
   * such a closing is dropped: it mostly follows from the first failure, which is the one to mend. If the composition
   * succeeds, its result must offer a way to close the lifetime.
   */
  static async compose<T>(compose: (lifetime: Lifetime) => Promise<T>): Promise<T> {
    const lifetime = new Lifetime();
    try {
      return await compose(lifetime);
    } catch (failure) {
      await lifetime.close().catch(() => {});
      throw failure;
    }
  }

  /** Runs `work`, and closes whatever it has opened when it ends, well or not. Rejects as `compose` and `close` do. */
  static run<T>(work: (lifetime: Lifetime) => Promise<T>): Promise<T> {
    return Lifetime.compose(async (lifetime) => {
      const result = await work(lifetime);
      await lifetime.close();
      return result;
    });
  }

  /**
   * Takes over a value, or the value of a promise, and returns it. `undefined` has nothing to close.
   * @param close closes the value; may return a promise. @default its own `close()`
   * @throws Error if the lifetime is closed already; the value is then closed at once
   */
  use<T>(opened: T, ...close: Closing<Awaited<T>>): T;
  use(opened: unknown, close = (value: unknown): unknown => (value as Closable).close()): unknown {
    if (opened instanceof Promise) return opened.then((value: unknown) => this.use(value, close));
    if (opened !== undefined) this.defer(() => close(opened));
    return opened;
  }

  /**
   * Calls `close` when the lifetime ends, before everything that was taken over earlier.
   * @throws Error if the lifetime is closed already; `close` is then called at once
   */
  defer(close: () => unknown): void {
    if (this.#closed !== undefined) {
      void closeAll([close]).catch(() => {}); // the error below says more: code has opened a value after the end
      throw new Error('opened after its lifetime had ended');
    }
    this.#closings.push(close);
  }

  /**
   * Closes everything in reverse order, each once, one after the other; a failure does not stop the rest. Later calls
   * return the same promise. Rejects with the failure, or with an AggregateError of several.
   */
  close(): Promise<void> {
    this.#closed ??= closeAll(this.#closings.reverse());
    return this.#closed;
  }
}

/** A value without a `close()` of its own comes with the function that closes it. */
type Closing<T> = [T] extends [Closable | undefined]
  ? [close?: (value: NonNullable<T>) => unknown]
  : [close: (value: NonNullable<T>) => unknown];

async function closeAll(closings: readonly (() => unknown)[]): Promise<void> {
  const failures: unknown[] = [];
  for (const close of closings) {
    try {
      await close();
    } catch (failure) {
      failures.push(failure);
    }
  }
  if (failures.length === 1) throw failures[0];
  if (failures.length > 1) throw new AggregateError(failures, `${failures.length} things could not be closed`);
}
