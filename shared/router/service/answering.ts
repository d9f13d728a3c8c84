import type { Clock } from '../../clock/index.ts';
import type { LeaseHolder } from '../state/index.ts';

export interface AnsweringOptions {
  readonly clock: Clock;
  /** How long a new holder of the lease listens before it answers: two report intervals of the workers. @default 2000 */
  readonly settleMs?: number;
  /** It answers no longer. */
  onStoodDown(): void;
}

const SETTLE_MS = 2000;

/**
 * Whether this process answers for the resident router: it holds the lease, and has held it for two report intervals, by
 * which time every worker has told what the holder before had sent there.
 */
export class Answering {
  readonly #options: AnsweringOptions;
  #lease: Pick<LeaseHolder, 'fence'> | undefined;
  #heldSinceMs: number | undefined;

  constructor(options: AnsweringOptions) {
    this.#options = options;
  }

  /** The lease whose `acquired` and `lost` this is told of. */
  follow(lease: Pick<LeaseHolder, 'fence'>): void {
    this.#lease = lease;
  }

  acquired(): void {
    this.#heldSinceMs = this.#options.clock.nowMs();
  }

  lost(): void {
    this.#heldSinceMs = undefined;
    this.#options.onStoodDown();
  }

  get isAnswering(): boolean {
    if (this.#lease?.fence === undefined || this.#heldSinceMs === undefined) return false; // `fence` may call `lost`
    return this.#options.clock.nowMs() - this.#heldSinceMs >= (this.#options.settleMs ?? SETTLE_MS);
  }
}
