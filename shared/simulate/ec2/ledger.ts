import type { OptionSpec } from '../../planner/index.ts';
import { type OptionConditions, START_PHASES, type StartPhase } from './conditions.ts';
import type { SimulatedInstance } from './instance.ts';

/** An option at one tick, in instances. */
export interface OptionPoint {
  readonly atMs: number;
  readonly starting: number;
  readonly serving: number;
  readonly draining: number;
  /** In the warm pool. */
  readonly warm: number;
}

export type PhaseTimes = Readonly<Record<StartPhase, number>>;

const MS_PER_HOUR = 3_600_000;

/** Counts and costs of one option. */
export class OptionLedger {
  /** Instances that EC2 launched, those for the warm pool too. */
  launches = 0;
  /** Starts from the warm pool. */
  warmStarts = 0;
  /** Launches called off before they served. */
  calledOff = 0;
  /** Launches and starts that failed, by code. */
  readonly failures: Record<string, number> = {};
  /** Instances that had notice to leave. */
  interruptions = 0;
  /** Requests that had not ended when their instance was taken away. */
  moved = 0;
  /** Starts that came to serve. */
  starts = 0;
  readonly points: OptionPoint[] = [];
  readonly #phasesMs = Object.fromEntries(START_PHASES.map((phase) => [phase, 0])) as Record<StartPhase, number>;
  readonly #paid = { full: { ms: 0, count: 0 }, warm: { ms: 0, count: 0 } };
  #settledMs = 0;

  fails(code: string): void {
    this.failures[code] = (this.failures[code] ?? 0) + 1;
  }

  /** Notes a start that came to serve. */
  served(phasesMs: PhaseTimes): void {
    this.starts++;
    for (const phase of START_PHASES) this.#phasesMs[phase] += phasesMs[phase];
  }

  /** Adds instances that are paid for from now on; a negative number ends that. */
  pay(rate: 'full' | 'warm', count: number, nowMs: number): void {
    this.settle(nowMs);
    this.#paid[rate].count += count;
  }

  /** Adds what was paid until now. */
  settle(nowMs: number): void {
    const sinceMs = nowMs - this.#settledMs;
    this.#settledMs = nowMs;
    for (const paid of Object.values(this.#paid)) paid.ms += sinceMs * paid.count;
  }

  /** Hours of instances that run, and of those that wait in the warm pool. */
  get hours(): { readonly running: number; readonly warm: number } {
    return { running: this.#paid.full.ms / MS_PER_HOUR, warm: this.#paid.warm.ms / MS_PER_HOUR };
  }

  /** Mean seconds of each phase of the starts that came to serve. */
  get phaseSeconds(): PhaseTimes {
    const mean = (phase: StartPhase): number => this.#phasesMs[phase] / 1000 / Math.max(1, this.starts);
    return Object.fromEntries(START_PHASES.map((phase) => [phase, mean(phase)])) as PhaseTimes;
  }

  /** Returns the cost in US dollars. A capacity block is paid for as a whole, whatever runs in it. */
  dollars({ market, max }: OptionSpec, { pricePerHour, warmPricePerHour }: OptionConditions, blockMs: number): number {
    if (market === 'capacity-block') return (pricePerHour * max * blockMs) / MS_PER_HOUR;
    const { running, warm } = this.hours;
    return running * pricePerHour + warm * warmPricePerHour;
  }
}

/** Counts the instances of an option by what they do. */
export function pointOf(instances: Iterable<SimulatedInstance>, atMs: number): OptionPoint {
  let [starting, serving, draining, warm] = [0, 0, 0, 0];
  for (const { state, isWarm, isStarting, isAtRisk } of instances) {
    if (isWarm) warm++;
    else if (isStarting) starting++;
    else if (state === 'InService' && !isAtRisk) serving++;
    else draining++;
  }
  return { atMs, starting, serving, draining, warm };
}
