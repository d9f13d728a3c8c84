import type { Clock } from '../../clock/index.ts';
import {
  type DecisionRecord,
  type PlannerStore,
  type PresentPlanner,
  readPresent,
  type TickRecord,
} from '../../planner/index.ts';

/** Records of planners, as a console reads them. */
export type PlannerRecords = Pick<PlannerStore, 'groups' | 'ticks' | 'decisions' | 'readState' | 'close'>;

/** Length of the time that is shown. */
const SHOWN_MS = 3_600_000;
/** Decisions that are shown. */
export const DECISIONS_MAX = 100;
/** Decisions that are read again each time: only the newest one is acted on, and the one before is overtaken. */
const DECISIONS_AGAIN = 10;
/** Records of an hour in which each tick of five seconds says something else. */
const TICKS_MAX = 720;
/** How far back a decision may lie. */
const WEEK_MS = 7 * 86_400_000;

/** Records of one model as they are now. */
export interface Records {
  readonly state: PresentPlanner | undefined;
  /** Ticks of the last hour, the oldest first, with the one that is not stored yet. */
  readonly ticks: readonly TickRecord[];
  /** The newest first. */
  readonly decisions: readonly DecisionRecord[];
}

/**
 * Reads the records of one model again and again. Each time it reads only what may have changed: ticks since the last
 * one, the newest ten decisions and the state.
 */
export class RecordReader {
  readonly #clock: Pick<Clock, 'wallMs'>;
  readonly #store: PlannerRecords;
  readonly #group: string;
  #ticks: readonly TickRecord[] = []; // at most TICKS_MAX
  #decisions: readonly DecisionRecord[] = []; // at most DECISIONS_MAX

  constructor(clock: Pick<Clock, 'wallMs'>, store: PlannerRecords, group: string) {
    this.#clock = clock;
    this.#store = store;
    this.#group = group;
  }

  async read(signal: AbortSignal): Promise<Records> {
    const fromMs = this.#clock.wallMs() - SHOWN_MS;
    const sinceMs = Math.max(fromMs, (this.#ticks.at(-1)?.atMs ?? 0) + 1);
    const news = await this.#store.ticks(this.#group, { sinceMs, countMax: TICKS_MAX }, signal);
    const ticks = [...this.#ticks, ...news.toReversed()].filter(({ atMs }) => atMs >= fromMs);
    this.#ticks = ticks.slice(-TICKS_MAX);
    this.#decisions = await this.#readDecisions(signal);
    const stored = await this.#store.readState(this.#group, signal);
    const state = stored && readPresent(stored.state);
    const open = state?.tick;
    const isNews = open !== undefined && open.atMs >= fromMs && open.atMs > (this.#ticks.at(-1)?.atMs ?? 0);
    return { state, ticks: isNews ? [...this.#ticks, open] : this.#ticks, decisions: this.#decisions };
  }

  async #readDecisions(signal: AbortSignal): Promise<readonly DecisionRecord[]> {
    const sinceMs = this.#clock.wallMs() - WEEK_MS;
    const known = this.#decisions;
    const latest = (countMax: number) => this.#store.decisions(this.#group, { sinceMs, countMax }, signal);
    const again = known.length === 0 ? [] : await latest(DECISIONS_AGAIN);
    const oldest = again.at(-1)?.decisionId;
    const rest = known.findIndex(({ decisionId }) => decisionId === oldest);
    // Without a decision that both have, others may lie between.
    return rest < 0 ? await latest(DECISIONS_MAX) : [...again, ...known.slice(rest + 1)].slice(0, DECISIONS_MAX);
  }
}
