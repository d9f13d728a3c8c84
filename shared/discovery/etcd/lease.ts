import type { Clock } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import { ASK, type EtcdClient, type OpenStream, STREAM } from './etcd-client.ts';
import { EtcdFailure } from './etcd-errors.ts';

interface Renewal {
  resolve(isAlive: boolean): void;
  reject(failure: Error): void;
}

const ANSWERS_PER_TTL = 8;
const ANSWER_MS_MIN = 500;
const ANSWER_MS_MAX = 2000;

/**
 * The lease of a process, under an id of its own: after a loss it is granted again under the same id. A renewal is one
 * message on a stream that stays open.
 */
export class EtcdLease {
  readonly id: bigint;
  readonly #client: EtcdClient;
  readonly #clock: Clock;
  /** Longest wait for one member. */
  readonly #answerMs: number;
  readonly #ttlSecs: bigint;
  #stream: OpenStream<{ ID: bigint }> | undefined;
  #renewal: Renewal | undefined;
  #isGranted = false;

  /** @param id hexadecimal, of at most 63 bits */
  constructor(client: EtcdClient, clock: Clock, id: string, ttlMs: number) {
    this.id = BigInt(`0x${id}`);
    this.#client = client;
    this.#clock = clock;
    this.#answerMs = Math.max(ANSWER_MS_MIN, Math.min(ANSWER_MS_MAX, ttlMs / ANSWERS_PER_TTL));
    this.#ttlSecs = BigInt(Math.ceil(ttlMs / 1000)); // etcd counts seconds, and raises what is below its least
  }

  /** Whether it was granted, as far as this process knows. */
  get isGranted(): boolean {
    return this.#isGranted;
  }

  /** Makes sure that etcd has the lease. */
  async grant(signal: AbortSignal): Promise<void> {
    try {
      await this.#client.ask(ASK.grant, { TTL: this.#ttlSecs, ID: this.id }, signal);
    } catch (thrown) {
      // the answer to an earlier question was lost
      if (!(thrown instanceof EtcdFailure && thrown.isLeaseHeld)) throw thrown;
    }
    this.#isGranted = true;
  }

  /**
   * Renews it. Resolves with false if etcd has no such lease any more. Asks each member once, each for a part of the
   * time to live. One at a time.
   */
  async renew(signal: AbortSignal): Promise<boolean> {
    for (let attempts = 1; ; attempts++) {
      try {
        const limit = { clock: this.#clock, timeoutMs: this.#answerMs, signal, lateMessage: 'no answer to a renewal' };
        this.#isGranted = await withDeadline(limit, (ending) => this.#ask(ending));
        return this.#isGranted;
      } catch (thrown) {
        this.#stream?.abandon(); // a late answer on it could be taken for that of a later renewal
        this.#stream = undefined;
        signal.throwIfAborted();
        if (attempts >= this.#client.endpoints.length) throw thrown;
      } finally {
        this.#renewal = undefined;
      }
    }
  }

  /** Notes that etcd has no such lease any more. */
  lost(): void {
    this.#isGranted = false;
  }

  /** Ends the lease and with it everything under it. */
  async revoke(signal: AbortSignal): Promise<void> {
    this.close();
    if (!this.#isGranted) return;
    this.#isGranted = false;
    try {
      await this.#client.ask(ASK.revoke, { ID: this.id }, signal);
    } catch (thrown) {
      if (!(thrown instanceof EtcdFailure && thrown.isLeaseGone)) throw thrown;
    }
  }

  close(): void {
    this.#stream?.cancel();
    this.#stream = undefined;
  }

  async #ask(signal: AbortSignal): Promise<boolean> {
    this.#stream ??= await this.#client.open(
      STREAM.keepAlive,
      ({ ID, TTL }) => {
        if (ID === this.id) this.#renewal?.resolve(TTL > 0n);
      },
      (failure) => {
        this.#stream = undefined;
        this.#renewal?.reject(failure);
      },
      signal,
    );
    return new Promise((resolve, reject) => {
      this.#renewal = { resolve, reject };
      this.#stream?.send({ ID: this.id });
    });
  }
}
