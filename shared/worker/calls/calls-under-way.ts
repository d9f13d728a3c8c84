import type { ServeError } from '../../errors/index.ts';
import { requestKeyOf } from '../../protocol/generation/index.ts';
import type { ServedCall } from './served-call.ts';

/** The requests that a worker is serving. Bounded by the plane's streams per connection. */
export class CallsUnderWay {
  readonly #calls = new Set<ServedCall>();
  #waiters: (() => void)[] = [];

  get count(): number {
    return this.#calls.size;
  }

  add(call: ServedCall): void {
    this.#calls.add(call);
  }

  remove(call: ServedCall): void {
    this.#calls.delete(call);
    if (this.#calls.size > 0) return;
    for (const waiter of this.#waiters.splice(0)) waiter();
  }

  /** Resolves when none is left. */
  over(): Promise<void> {
    if (this.#calls.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#waiters.push(resolve));
  }

  /** Fails those that `isChosen`, the latest first, so that none that waits runs for a moment; returns how many. */
  breakOff(error: ServeError, isChosen: (call: ServedCall) => boolean = () => true): number {
    const chosen = [...this.#calls].filter(isChosen).reverse();
    for (const call of chosen) call.breakOff(error);
    return chosen.length;
  }

  /** Ends those that a client knows by `id`, every prompt and leg of its request; returns how many. */
  cancel(id: string): number {
    const key = requestKeyOf(id);
    if (key === undefined) return 0;
    const asked = [...this.#calls].filter((call) => call.isKnownAs(key));
    for (const call of asked) call.cancel();
    return asked.length;
  }
}
