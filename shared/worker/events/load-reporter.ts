import type { Clock, Timer } from '../../clock/index.ts';
import type { EngineLoad } from '../../engines/index.ts';
import type { EventPublisher } from '../../planes/event/index.ts';
import { toActiveLoad } from './event-records.ts';
import type { ReservedRequests } from './reserved-requests.ts';

/** A rank's load has changed much when its used blocks moved by this share of all of them ... */
const BLOCK_SHARE = 0.05;
/** ... or its tokens still to prefill by this many. */
const PREFILL_TOKENS = 8192;

export interface LoadReporterOptions {
  readonly publisher: EventPublisher;
  /** In decimal. */
  readonly workerId: string;
  readonly clock: Clock;
  /** Longest time between two reports. */
  readonly reportIntervalMs: number;
  /** How often the load is looked at, for a large change to be reported at once. */
  readonly lookIntervalMs: number;
  read(): readonly EngineLoad[];
  /** Id of the rank's last KV event; undefined where none are published. */
  lastEventId(dpRank: number): number | undefined;
  /** Requests that have come and gone since it was asked last; they go with the next load that is reported. */
  readonly requests?: Pick<ReservedRequests, 'take'>;
  /** Also told of every load that is reported. */
  onReport(load: EngineLoad): void;
}

/** Reports the engine's load: at fixed intervals, and soon after a large change. */
export class LoadReporter {
  readonly #options: LoadReporterOptions;
  readonly #timer: Timer;
  readonly #lastOfRank = new Map<number, EngineLoad>();
  #lastReportMs: number;

  constructor(options: LoadReporterOptions) {
    this.#options = options;
    this.#lastReportMs = options.clock.nowMs();
    this.#report(options.read());
    this.#timer = options.clock.every(options.lookIntervalMs, () => this.#look());
  }

  stop(): void {
    this.#timer.cancel();
  }

  #look(): void {
    const { clock, reportIntervalMs, read } = this.#options;
    const loads = read();
    if (clock.nowMs() - this.#lastReportMs >= reportIntervalMs) {
      this.#lastReportMs = clock.nowMs();
      this.#report(loads);
    } else {
      this.#report(loads.filter((load) => isLargeChange(this.#lastOfRank.get(load.dpRank), load)));
    }
  }

  #report(loads: readonly EngineLoad[]): void {
    const { publisher, workerId, lastEventId, onReport } = this.#options;
    let requests = loads.length === 0 ? undefined : this.#options.requests?.take();
    for (const load of loads) {
      this.#lastOfRank.set(load.dpRank, load);
      publisher.publish(toActiveLoad(workerId, load, lastEventId(load.dpRank), requests));
      requests = undefined; // said once, whatever its rank
      onReport(load);
    }
  }
}

function isLargeChange(last: EngineLoad | undefined, load: EngineLoad): boolean {
  if (last === undefined) return true;
  return (
    Math.abs(load.usedKvBlocks - last.usedKvBlocks) > load.totalKvBlocks * BLOCK_SHARE ||
    Math.abs(load.activePrefillTokens - last.activePrefillTokens) > PREFILL_TOKENS
  );
}
