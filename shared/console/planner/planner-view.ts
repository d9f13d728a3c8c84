import type { Clock } from '../../clock/index.ts';
import { type OpenOnce, withDeadline } from '../../concurrency/index.ts';
import { reasonOf } from '../../errors/index.ts';
import type { TickRecord } from '../../planner/index.ts';
import { ShownRows } from '../shown-rows.ts';
import { chooseGroup, GROUPS_MAX, groupRow, type WantedGroup } from './groups.ts';
import { type PlannerRecords, RecordReader, type Records } from './reader.ts';
import { configRow, decisionRow, pointOf, stepOf } from './rows.ts';
import type { ConsolePlannerHead } from './wire.ts';

/** Records of planners that a console can read. */
export interface PlannerSource {
  /** How to start a planner whose records are there, as a sentence. */
  readonly howToStart: string;
  /** Opens the records; undefined: this process knows of none. */
  readonly open: (() => Promise<PlannerRecords>) | undefined;
}

/** Longest time that one reading may take, in milliseconds. */
const READ_MS_MAX = 5000;
/** Time without a reading after which no client follows the view, so that another model may be the latest one. */
const LEFT_MS = 60_000;

/** The records of one model as viewers get them: whole, and what has changed since the reading before. */
export class PlannerView {
  readonly #clock: Clock;
  readonly #howToStart: string;
  readonly #planners: OpenOnce<PlannerRecords> | undefined;
  readonly #wanted: WantedGroup;
  readonly #points = new ShownRows();
  readonly #decisions = new ShownRows();
  #group: string | undefined;
  #reader: RecordReader | undefined;
  #groups: readonly string[] = [];
  #records: Records | undefined;
  #problem: string | null = null;
  #readAtMs = Number.NEGATIVE_INFINITY;

  /**
   * @param howToStart sentence that says how to start a planner.
   * @param planners records that all views share; undefined: this process knows of none.
   */
  constructor(clock: Clock, howToStart: string, planners: OpenOnce<PlannerRecords> | undefined, wanted: WantedGroup) {
    this.#clock = clock;
    this.#howToStart = howToStart;
    this.#planners = planners;
    this.#wanted = wanted;
  }

  /** Milliseconds since the last reading. */
  get ageMs(): number {
    return this.#clock.nowMs() - this.#readAtMs;
  }

  /** Reads the records. Resolves with the text of a `planned`. Never rejects. Calls follow one another. */
  async read(): Promise<string> {
    const planners = this.#planners;
    if (planners !== undefined) {
      try {
        const within = { clock: this.#clock, timeoutMs: READ_MS_MAX };
        this.#records = await withDeadline(within, async (signal) => this.#readFrom(await planners.get(), signal));
        this.#problem = null;
      } catch (thrown) {
        this.#problem = reasonOf(thrown); // the viewer sees it beside what was read before
      }
    }
    this.#readAtMs = this.#clock.nowMs();
    return this.#changes();
  }

  /** Returns the text of a `planner`, as it was read last. */
  whole(): string {
    return textOf(this.#head(), { points: this.#points.texts, decisions: this.#decisions.texts });
  }

  async #readFrom(store: PlannerRecords, signal: AbortSignal): Promise<Records | undefined> {
    this.#groups = await store.groups(signal);
    const before = this.#group;
    if (before === undefined || !this.#groups.includes(before) || this.ageMs > LEFT_MS) {
      this.#group = await chooseGroup(store, this.#groups, this.#wanted, signal);
      if (this.#group !== before) this.#reader = undefined;
    }
    if (this.#group === undefined) return undefined;
    this.#reader ??= new RecordReader(this.#clock, store, this.#group);
    return this.#reader.read(signal);
  }

  #changes(): string {
    const { ticks = [], decisions = [] } = this.#records ?? {};
    const steps = new Map<string, readonly [count: number, ...records: readonly TickRecord[]]>();
    for (const tick of ticks) {
      const step = String(stepOf(tick));
      const [count = 0, ...before] = steps.get(step) ?? [];
      steps.set(step, [count + 1, ...before, tick]);
    }
    const points = this.#points.show(steps, (_count: number, ...records: readonly TickRecord[]) => pointOf(...records));
    const rows = decisions.map((decision) => [String(decision.decisionId), [decision]] as const);
    const decided = this.#decisions.show(new Map(rows), decisionRow);
    return textOf(
      { ...this.#head(), points_gone: points.gone.map(Number), decisions_gone: decided.gone.map(Number) },
      { points: points.changed, decisions: decided.changed },
    );
  }

  #head(): ConsolePlannerHead {
    const { state, ticks = [] } = this.#records ?? {};
    const tick = ticks.at(-1) ?? state?.tick;
    return {
      at_ms: this.#clock.wallMs(),
      why_none: this.#group === undefined ? this.#whyNone() : null,
      problem: this.#problem,
      groups: this.#groups.slice(0, GROUPS_MAX).map(groupRow),
      groups_left_out: Math.max(0, this.#groups.length - GROUPS_MAX),
      group: this.#group ?? null,
      config: state?.config === undefined ? null : configRow(state.config),
      tick: tick === undefined ? null : { at_ms: tick.atMs, reason: tick.reason, inputs: { ...tick.figures } },
    };
  }

  #whyNone(): string {
    if (this.#problem !== null) return 'The records of planners could not be read yet.';
    const { name } = this.#wanted;
    if (name !== '' && this.#groups.length > 0) return `No planner has decided for ${name}.`;
    return `No planner has decided anything here. ${this.#howToStart}`;
  }
}

/** Returns an object as JSON text. @param lists members whose elements are JSON text already */
function textOf(members: object, lists: Readonly<Record<string, readonly string[]>>): string {
  const texts = Object.entries(lists).map(([name, elements]) => `"${name}":[${elements.join(',')}]`);
  return `${JSON.stringify(members).slice(0, -1)},${texts.join(',')}}`;
}
