import { type Clock, type Random, systemClock, systemRandom } from '../clock/index.ts';
import type { FleetSettings } from '../config/index.ts';
import { StoreError } from './table/table-errors.ts';
import type { Discovery, ReportProblem } from './types.ts';

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

/** What a store is opened with. */
export interface StoreOptions extends DiscoveryBaseOptions {
  /** Whether the process lives on between its requests; one that is frozen writes nothing that is for all. @default true */
  readonly isLasting?: boolean;
  /**
   * Whether watches show the processes of those models alone that `shownModels` was asked for, and processes without a model: one that
   * starts for a single request need not know a fleet of thousands. Only where it does not last. @default false
   */
  readonly showsAskedModels?: boolean;
}

/** Opens a store as the settings of a process say. Throws one line for an operator where something is missing. */
export type OpenStore = (settings: FleetSettings, options: StoreOptions) => Discovery | Promise<Discovery>;

/** The options with every default filled in. */
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

/** Failure of a discovery operation. The message is one line for an operator: what failed, where, what to do. */
export class DiscoveryError extends StoreError<DiscoveryErrorCode> {
  override readonly name = 'DiscoveryError';
}

/** Where a reading of the fleet came from: the view, the leases in place of a view that is too old, or the leases for the view. */
export type ReadingSource = 'view' | 'leases' | 'gathered';

/** Told how a process reads the fleet, where a store keeps a view of it. */
export interface ViewObserver {
  /** A reading was made; the view that it shows was written `ageMs` ago. */
  read(source: ReadingSource, ageMs: number): void;
  /** This process has begun to gather the view for all, or does so no more: then with the reason. */
  gathering(isGathering: boolean, reason?: string): void;
}
