import type { Clock } from '../clock/index.ts';
import { withDeadline } from '../concurrency/index.ts';
import { reasonOf } from '../errors/index.ts';
import type { StartReading } from '../planner/index.ts';
import { ColdStart } from './cold-start.ts';
import type { ConsoleColdStart, ConsoleStarting } from './wire/fleet.ts';

/** Source of what a planner knows of the starts of workers. */
export interface StartSource {
  /** Interval between two readings, in milliseconds. */
  readonly everyMs: number;
  /** Returns undefined if no planner plans for the model. @param model name of the model for clients */
  read(model: string, signal: AbortSignal): Promise<StartReading | undefined>;
}

/** Models whose waits are followed at once. */
const OPEN_MAX = 64;
/** Waits that stay in sight after their end, the latest ones. */
const ENDED_MAX = 8;
/** Models that are read in one round, those with waiting requests first. */
const READ_MAX = 16;
/** Machines that are shown at most. */
const STARTING_MAX = 256;
/** Wait in milliseconds from which an ended one stays in sight. */
const SHOWN_MS_MIN = 500;
/** Time after the end of a wait in which the planner is still asked about it: a short one ends between two readings. */
const LATE_MS = 15_000;
/** Longest reading of a model, in milliseconds. */
const READ_MS_MAX = 5000;

/**
 * The waits for first workers, and the machines that start. It learns of waits from the queue of held requests, and
 * asks the planner only when it is looked at.
 */
export class ColdStarts {
  readonly #clock: Clock;
  readonly #open = new Map<string, ColdStart>(); // at most OPEN_MAX
  #ended: readonly ColdStart[] = []; // the latest first, at most ENDED_MAX
  /** Last readings, by model. */
  #readings: ReadonlyMap<string, StartReading> = new Map(); // at most READ_MAX
  #readAtMs = Number.NEGATIVE_INFINITY;
  #isReading = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Takes how many requests of a model wait. @param hasWorkers whether the model is served, so that they wait for room
   */
  holding(model: string, count: number, hasWorkers: boolean): void {
    const nowMs = this.#clock.wallMs();
    const open = this.#open.get(model) ?? (count > 0 && !hasWorkers ? this.#begin(model, nowMs) : undefined);
    if (open === undefined) return;
    open.waiting(count);
    if (hasWorkers) open.ready(nowMs);
    if (count > 0) return;
    open.ended(nowMs);
    this.#open.delete(model);
    if (open.lastedMs(nowMs) >= SHOWN_MS_MIN) this.#ended = [open, ...this.#ended].slice(0, ENDED_MAX);
  }

  /** Asks the planner about the models, in the background, if its last answers are old. */
  look(source: StartSource | undefined, models: readonly string[], signal: AbortSignal): void {
    const nowMs = this.#clock.nowMs();
    if (source === undefined || this.#isReading || nowMs - this.#readAtMs < source.everyMs) return;
    this.#isReading = true;
    this.#readAtMs = nowMs;
    const wanted = [...new Set([...this.#recent().map(({ model }) => model), ...models])].slice(0, READ_MAX);
    void this.#readAll(source, wanted, signal); // never rejects
  }

  /** Returns the waits: those that last first. */
  rows(): readonly ConsoleColdStart[] {
    return [...this.#open.values(), ...this.#ended].map((each) => each.row());
  }

  /** Returns the machines that start. @param serves whether workers of the machine serve already */
  starting(serves: (instanceId: string) => boolean): readonly ConsoleStarting[] {
    const found: ConsoleStarting[] = [];
    for (const [model, { hosts }] of this.#readings) {
      for (const { instanceId, phase, sinceMs } of hosts) {
        if (found.length >= STARTING_MAX) return found;
        // The last phase also stays with a machine whose workers have served and gone.
        if (phase === 'register' && this.#clock.wallMs() - sinceMs > REGISTER_MS_MAX) continue;
        if (!serves(instanceId)) found.push({ instance_id: instanceId, model, phase, since_ms: sinceMs });
      }
    }
    return found;
  }

  /** Returns the waits that last, and those that have just ended. */
  #recent(): readonly ColdStart[] {
    const sinceMs = this.#clock.wallMs() - LATE_MS;
    return [...this.#open.values(), ...this.#ended.filter((each) => each.lastedUntil(sinceMs))];
  }

  #begin(model: string, nowMs: number): ColdStart | undefined {
    if (this.#open.size >= OPEN_MAX) return undefined;
    const begun = new ColdStart(model, nowMs);
    this.#open.set(model, begun);
    this.#readAtMs = Number.NEGATIVE_INFINITY; // the next look asks at once
    return begun;
  }

  async #readAll(source: StartSource, models: readonly string[], signal: AbortSignal): Promise<void> {
    const readings = new Map<string, StartReading>();
    await Promise.all(
      models.map(async (model) => {
        const within = { clock: this.#clock, timeoutMs: READ_MS_MAX, signal };
        try {
          const reading = await withDeadline(within, (each) => source.read(model, each));
          for (const each of this.#recent()) if (each.model === model) each.read(reading);
          if (reading !== undefined) readings.set(model, reading);
        } catch (thrown) {
          // The page shows it, and the next reading may succeed
          for (const each of this.#recent()) if (each.model === model) each.failed(reasonOf(thrown));
        }
      }),
    );
    this.#readings = readings;
    this.#isReading = false;
  }
}

/** Time in which a machine in its last phase registers its workers, in milliseconds. */
const REGISTER_MS_MAX = 120_000;
