import type { Clock, Timer } from '../../../clock/index.ts';
import type { HandoffCaller, HandoffDesk } from './handoffs.ts';

interface Held {
  /** Gives the blocks back to the engine. */
  readonly free: () => void;
  readonly expiry: Timer;
  caller: HandoffCaller | undefined;
}

interface Waiting {
  readonly caller: HandoffCaller;
  readonly expiry: Timer;
}

/**
 * Blocks of finished prefills, kept until a decode engine has fetched them. Bounded by the cache that they lie in.
 *
 * | State of a key | offer | asked | fetched, or the caller goes | release | time is up |
 * |---|---|---|---|---|---|
 * | unknown | held | refused, or waiting if it may | - | - | - |
 * | waiting | being fetched | refused | unknown | refused | refused |
 * | held | - | being fetched | - | freed | freed |
 * | being fetched | - | refused | freed | freed | freed |
 */
export class HeldBlocks implements HandoffDesk {
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #held = new Map<string, Held>();
  readonly #waiting = new Map<string, Waiting>();
  readonly #idle = new Set<() => void>();

  constructor(clock: Clock, timeoutMs: number) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  /** Prompts whose blocks are kept. */
  get count(): number {
    return this.#held.size;
  }

  /** Keeps the blocks of `key`; `free` is called once. */
  offer(key: string, free: () => void): void {
    this.release(key); // an id that came twice
    const expiry = this.#clock.after(this.#timeoutMs, () => this.release(key));
    const waiting = this.#waiting.get(key);
    this.#held.set(key, { free, expiry, caller: waiting?.caller });
    if (waiting === undefined) return;
    waiting.expiry.cancel();
    this.#waiting.delete(key);
    waiting.caller.ready();
  }

  asked(key: string, mayWait: boolean, caller: HandoffCaller): () => void {
    const held = this.#held.get(key);
    if (held !== undefined && held.caller === undefined) {
      held.caller = caller;
      caller.ready();
    } else if (held === undefined && mayWait && !this.#waiting.has(key)) {
      const expiry = this.#clock.after(this.#timeoutMs, () => this.refuse(key, 'no prefill came'));
      this.#waiting.set(key, { caller, expiry });
    } else {
      caller.refuse('no such blocks');
    }
    return () => this.#left(key, caller);
  }

  /** Nobody will fetch the blocks of `key`. Nothing when there are none. */
  release(key: string): void {
    const held = this.#held.get(key);
    if (held === undefined) return;
    held.expiry.cancel();
    this.#held.delete(key);
    held.free();
    if (this.#held.size > 0) return;
    for (const tell of this.#idle) tell();
    this.#idle.clear();
  }

  /** No blocks will come for whoever waits for `key`. */
  refuse(key: string, reason: string): void {
    const waiting = this.#waiting.get(key);
    if (waiting === undefined) return;
    waiting.expiry.cancel();
    this.#waiting.delete(key);
    waiting.caller.refuse(reason);
  }

  /** Resolves when nothing is kept any more, at the latest after `withinMs`; what is kept then is freed. */
  async settle(withinMs: number): Promise<void> {
    if (this.#held.size > 0) {
      await new Promise<void>((resolve) => {
        const limit = this.#clock.after(withinMs, resolve);
        this.#idle.add(() => {
          limit.cancel();
          resolve();
        });
      });
    }
    for (const key of [...this.#held.keys()]) this.release(key);
    for (const key of [...this.#waiting.keys()]) this.refuse(key, 'the engine has stopped');
  }

  #left(key: string, caller: HandoffCaller): void {
    if (this.#held.get(key)?.caller === caller) this.release(key);
    const waiting = this.#waiting.get(key);
    if (waiting?.caller !== caller) return;
    waiting.expiry.cancel();
    this.#waiting.delete(key);
  }
}
