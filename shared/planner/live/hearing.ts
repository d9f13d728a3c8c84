import type { Clock } from '../../clock/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import type { PlannerMetrics } from './planner-metrics.ts';

interface HearingOptions {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics?: Pick<PlannerMetrics, 'unheard'> | undefined;
  /** Discovery is of this process alone: no other process can ever be heard. */
  readonly isAlone: boolean;
  /** Where it listens, for whoever reads the log. */
  readonly where: Readonly<Record<string, string>>;
}

/** Workers that serve tell it every five seconds: one that is there is heard sooner than this. */
const FIRST_MS = 30_000;
/** Longer than any interval at which workers can be told to speak. */
const SILENT_MS = 90_000;
/** Models that are named in the log, and characters of each: what is in them is a peer's to choose. */
const OTHERS_MAX = 8;
const NAME_CHARS_MAX = 120;

const ALONE =
  'nobody can be heard: --discovery-backend mem is of this process alone; allowed: file (this machine) or dynamodb (many)';

/**
 * Whether a planner hears anybody, for people: a planner that nobody speaks to changes nothing, as one of a fleet that needs no
 * change does. It warns at every tick (a logger that counts repeats tells it once), and says when it hears somebody.
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

  /** Somebody has spoken of the model that is planned for. */
  heard(model: string): void {
    const { clock, logger } = this.#options;
    const isFirst = this.#heardAtMs === undefined;
    this.#heardAtMs = clock.nowMs();
    if (isFirst) logger.info('the first worker or frontend is heard', { model });
    else if (this.#isDeaf) logger.info('somebody is heard again', { model, silent_seconds: this.#silentSeconds() });
    this.#isDeaf = false;
    this.#sinceMs = this.#heardAtMs;
  }

  /** Somebody has spoken of another model. */
  heardOther(model: string): void {
    if (this.#others.size < OTHERS_MAX) this.#others.add(model.slice(0, NAME_CHARS_MAX));
  }

  /** How many workers discovery names. */
  knows(workers: number): void {
    if (this.#known === 0) this.#sinceMs = this.#options.clock.nowMs(); // one that has just come was never silent
    this.#known = workers;
  }

  /** A tick begins. `isStarting`: workers are on their way, and none serves. */
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
    if (this.#heardAtMs !== undefined) return `nobody has been heard for ${SILENT_MS / 1000} s`;
    return `no worker or frontend has been heard for ${FIRST_MS / 1000} s: nothing is decided by what they serve`;
  }

  /** A fleet without workers has nothing to say once it was heard. */
  #isSilent(): boolean {
    const silentMs = this.#options.clock.nowMs() - this.#sinceMs;
    if (this.#heardAtMs === undefined) return silentMs >= FIRST_MS;
    return this.#known > 0 && silentMs >= SILENT_MS;
  }

  #silentSeconds(): number {
    return Math.round((this.#options.clock.nowMs() - this.#sinceMs) / 1000);
  }
}
