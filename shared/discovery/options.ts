import { type Clock, type Random, systemClock, systemRandom } from '../clock/index.ts';
import type { ViewObserver } from './view-observer.ts';
import type { ReportProblem } from './watch-teller.ts';

/** What went wrong: `unavailable` may pass, the others will not by themselves. */
type DiscoveryErrorCode = 'unavailable' | 'misconfigured' | 'record_too_large' | 'closed';

/** What every back end takes. */
export interface DiscoveryBaseOptions {
  /** How long records outlive the last renewal of their process's lease. @default 10_000 */
  readonly ttlMs?: number;
  /** @default systemClock */
  readonly clock?: Clock;
  /** @default systemRandom */
  readonly random?: Random;
  /** Hears of trouble in background work: failed renewals, unreadable entries, listeners that throw. @default a process warning */
  readonly onProblem?: ReportProblem;
  /** Told how the fleet is read, by stores that keep a view of it. @default nobody is */
  readonly observer?: ViewObserver;
}

/** The options with every default filled in. */
export interface DiscoveryBase {
  readonly ttlMs: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly report: ReportProblem;
  readonly observer: ViewObserver;
}

const TTL_MS = 10_000;

export function withDefaults(options: DiscoveryBaseOptions): DiscoveryBase {
  return {
    ttlMs: options.ttlMs ?? TTL_MS,
    clock: options.clock ?? systemClock,
    random: options.random ?? systemRandom,
    report: options.onProblem ?? ((problem) => process.emitWarning(problem)),
    observer: options.observer ?? { read() {}, gathering() {} },
  };
}

/** Failure of a discovery operation. The message is one line for an operator: what failed, where, what to do. */
export class DiscoveryError extends Error {
  override readonly name = 'DiscoveryError';
  readonly code: DiscoveryErrorCode;

  constructor(code: DiscoveryErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}
