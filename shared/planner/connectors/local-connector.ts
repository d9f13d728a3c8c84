import type { Targets } from '../types.ts';
import type { Connector, Handed, Observed } from './types.ts';

/** Workers of this machine that may become more or fewer. */
export interface ScalableWorkers {
  readonly ready: number;
  readonly starting: number;
  /** Seconds from a start to a worker that serves, of the last starts: the 90th percentile; undefined before the first. */
  readonly startSeconds: number | undefined;
  /** Starts what is missing; what is too many takes nothing new and ends with its last request. */
  scaleTo(count: number): void;
}

/** Processes of this machine: one pool, which counts as decode. */
export class LocalConnector implements Connector {
  readonly name = 'local';
  readonly #workers: ScalableWorkers;
  #target: number | undefined;

  constructor(workers: ScalableWorkers) {
    this.#workers = workers;
  }

  async observe(signal: AbortSignal): Promise<Observed> {
    signal.throwIfAborted();
    const { ready, starting, startSeconds } = this.#workers;
    return { counted: { decode: { ready, starting }, prefill: { ready: 0, starting: 0 } }, startSeconds };
  }

  async scale({ decode }: Targets, signal: AbortSignal): Promise<Handed> {
    signal.throwIfAborted();
    if (decode === undefined) return 'accepted';
    this.#target = decode;
    const { ready, starting } = this.#workers;
    if (ready + starting !== decode) this.#workers.scaleTo(decode);
    return 'accepted';
  }

  async isSettled(signal: AbortSignal): Promise<boolean> {
    signal.throwIfAborted();
    return this.#target === undefined || (this.#workers.ready === this.#target && this.#workers.starting === 0);
  }

  async close(): Promise<void> {}
}
