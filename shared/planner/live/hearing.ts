import type { Clock } from '../../clock/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import type { PlannerMetrics } from './planner-metrics.ts';

interface HearingOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics?: Pick<PlannerMetrics, 'unheard'> | undefined;
  /** Discovery is of this process only: no other process can ever be heard. */
  readonly isAlone: boolean;
  /** Place where it listens, for readers of the log. */
  readonly where: Readonly<Record<string, string>>;
}

/** Serving workers report every five seconds: a present worker is heard sooner than this. */
const FIRST_MS = 30_000;
/** Longer than any interval that can be set for the reports of workers. */
const SILENT_MS = 90_000;
/** Models that the log names, and characters of each: peers choose these names. */
const OTHERS_MAX = 8;
const NAME_CHARS_MAX = 120;

const ALONE =
  'no worker or frontend can be heard: --discovery-backend mem is of this process only; allowed: file (this machine) or dynamodb (many)';

/**
 * Tells people whether a planner hears any worker or frontend. A planner that hears none changes nothing, and neither
 * does one whose fleet needs no change. It warns at every tick (a logger that counts repeats shows one line), and says
 * when it hears one.
 */
export class Hearing {
  readonly #options: HearingOptions;
  readonly #others = new Set<string>();
  #heardAtMs: number | undefined;
  #sinceMs: number;
  #known = 0;
  #isDeaf = false;

  constructor(options: HearingOptions) {
    this.#options = options;
    this.#sinceMs = options.clock.nowMs();
  }

  /** Notes a message about the model of this planner. */
  heard(model: string): void {
    const { clock, logger } = this.#options;
    const isFirst = this.#heardAtMs === undefined;
    this.#heardAtMs = clock.nowMs();
    if (isFirst) logger.info('the first worker or frontend is heard', { model });
    else if (this.#isDeaf)
      logger.info('a worker or frontend is heard again', { model, silent_seconds: this.#silentSeconds() });
    this.#isDeaf = false;
    this.#sinceMs = this.#heardAtMs;
  }

  /** Notes a message about another model. */
  heardOther(model: string): void {
    if (this.#others.size < OTHERS_MAX) this.#others.add(model.slice(0, NAME_CHARS_MAX));
  }

  /** Notes how many workers discovery names. */
  knows(workers: number): void {
    if (this.#known === 0) this.#sinceMs = this.#options.clock.nowMs(); // a worker that has just come was never silent
    this.#known = workers;
  }

  /** Warns at the beginning of a tick if nothing is heard. `isStarting`: workers are on their way, and none serves. */
  begins(model: string | undefined, isStarting: boolean): void {
    const { clock, logger, metrics, isAlone, where } = this.#options;
    if (isStarting) this.#sinceMs = clock.nowMs();
    const isShut = isAlone && this.#heardAtMs === undefined;
    if (!isShut && !this.#isSilent()) return;
    this.#isDeaf = true;
    metrics?.unheard();
    if (isShut) logger.warn(ALONE, where);
    else {
      const others = this.#others.size === 0 ? {} : { other_models: [...this.#others].join(', ') };
      const sought = model === undefined ? {} : { model };
      logger.warn(this.#message(), { ...where, ...sought, workers_found: this.#known, ...others });
    }
  }

  #message(): string {
    if (this.#heardAtMs !== undefined) return `no worker or frontend has been heard for ${SILENT_MS / 1000} s`;
    return `no worker or frontend has been heard for ${FIRST_MS / 1000} s: nothing is decided by what they serve`;
  }

  /** Returns whether the fleet is silent. A fleet that was heard and has no workers has nothing to say. */
  #isSilent(): boolean {
    const silentMs = this.#options.clock.nowMs() - this.#sinceMs;
    if (this.#heardAtMs === undefined) return silentMs >= FIRST_MS;
    return this.#known > 0 && silentMs >= SILENT_MS;
  }

  #silentSeconds(): number {
    return Math.round((this.#options.clock.nowMs() - this.#sinceMs) / 1000);
  }
}
