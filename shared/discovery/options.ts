import { type Clock, type Random, systemClock, systemRandom } from '../clock/index.ts';
import type { FleetSettings } from '../config/index.ts';
import { StoreError } from './table/table-errors.ts';
import type { Discovery, ReportProblem } from './types.ts';

/** Kind of a failure: `unavailable` may pass, the others will not pass by themselves. */
type DiscoveryErrorCode = 'unavailable' | 'misconfigured' | 'record_too_large' | 'closed';

/** Options of every back end. */
export interface DiscoveryBaseOptions {
  /** Time that records outlive the last renewal of their process's lease. @default 10_000 */
  readonly ttlMs?: number;
  /** @default systemClock */
  readonly clock?: Clock;
  /** @default systemRandom */
  readonly random?: Random;
  /**
   * Called with trouble in background work: failed renewals, unreadable entries, listeners that throw. @default a
   * process warning
   */
  readonly onProblem?: ReportProblem;
  /** Called with the way in which the fleet is read, by stores that keep a view of it. @default no observer */
  readonly observer?: ViewObserver;
}

/** Options for opening a store. */
export interface StoreOptions extends DiscoveryBaseOptions {
  /**
   * Whether the process lives on between its requests; a process that is frozen writes nothing that serves all.
   * @default true
   */
  readonly isLasting?: boolean;
  /**
   * Whether watches show only the processes of models that `shownModels` was asked for, and processes without a model.
   * A process that starts for a single request need not know a fleet of thousands. Only for processes that do not last.
   * @default false
   */
  readonly showsAskedModels?: boolean;
}

/** Opens a store by the settings of a process. Throws one line for an operator if something is missing. */
export type OpenStore = (settings: FleetSettings, options: StoreOptions) => Discovery | Promise<Discovery>;

/** Fills in the defaults of the options. */
export interface DiscoveryBase extends Required<Omit<DiscoveryBaseOptions, 'onProblem'>> {
  readonly report: ReportProblem;
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

/** A failure of a discovery operation. The message is one line for an operator: what failed, where, what to do. */
export class DiscoveryError extends StoreError<DiscoveryErrorCode> {
  override readonly name = 'DiscoveryError';
}

/**
 * Source of a reading of the fleet: the view, the leases in place of a view that is too old, or the leases for the
 * view.
 */
export type ReadingSource = 'view' | 'leases' | 'gathered';

/** Observer of how a process reads the fleet, for stores that keep a view of it. */
export interface ViewObserver {
  /** Called for each reading; the view that it shows was written `ageMs` ago. */
  read(source: ReadingSource, ageMs: number): void;
  /** Called when this process has begun to gather the view for all, or has stopped, then with the reason. */
  gathering(isGathering: boolean, reason?: string): void;
}
