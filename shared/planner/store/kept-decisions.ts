import { reasonOf } from '../../errors/index.ts';
import { BoundedMap } from '../../records/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { MemoryPlannerStore, RECORDS_MAX } from './memory-store.ts';
import type { Commit, DecisionRecord, PlannerStore } from './types.ts';

/** Times that a decision is written again because another run wrote at the same time. */
const TRIES = 8;
/** Beginning of a state in `kept`; the number of the next decision follows. */
const NEXT = 'next ';

/**
 * Store of a planner that begins anew with each run. It lies in memory, and writes its decisions and samples to `kept`
 * too, where they stay after the run. Several runs share `kept` and number their decisions together. A decision that
 * cannot be written there is logged; the run goes on.
 */
export class KeptDecisions implements PlannerStore {
  readonly name = 'memory';
  readonly #run = new MemoryPlannerStore();
  readonly #kept: PlannerStore;
  readonly #logger: Logger;
  /** Decisions as they are in `kept`, by their number in this run; as many as the run itself remembers. */
  readonly #records = new BoundedMap<number, DecisionRecord>(RECORDS_MAX);

  readState: PlannerStore['readState'] = (...args) => this.#run.readState(...args);
  decisions: PlannerStore['decisions'] = (...args) => this.#run.decisions(...args);
  decision: PlannerStore['decision'] = (...args) => this.#run.decision(...args);
  ticks: PlannerStore['ticks'] = (...args) => this.#run.ticks(...args);
  acknowledge: PlannerStore['acknowledge'] = (...args) => this.#run.acknowledge(...args);
  acknowledged: PlannerStore['acknowledged'] = (...args) => this.#run.acknowledged(...args);
  takeLease: PlannerStore['takeLease'] = (...args) => this.#run.takeLease(...args);
  renewLease: PlannerStore['renewLease'] = (...args) => this.#run.renewLease(...args);
  releaseLease: PlannerStore['releaseLease'] = (...args) => this.#run.releaseLease(...args);
  reserve: PlannerStore['reserve'] = (...args) => this.#run.reserve(...args);
  reservations: PlannerStore['reservations'] = (...args) => this.#run.reservations(...args);
  groups: PlannerStore['groups'] = (...args) => this.#run.groups(...args);

  /** @param kept belongs to the caller, who closes it after this store */
  constructor(kept: PlannerStore, logger: Logger) {
    this.#kept = kept;
    this.#logger = logger;
  }

  commit: PlannerStore['commit'] = async (group, commit, signal) => {
    const isDone = await this.#run.commit(group, commit, signal);
    const { decision, tick } = commit;
    const isKept = decision !== undefined || tick?.sample !== undefined;
    if (isDone && isKept) await this.#try(() => this.#keep(group, { decision, tick }, signal));
    return isDone;
  };

  move: PlannerStore['move'] = async (group, seen, change, signal) => {
    const next = await this.#run.move(group, seen, change, signal);
    const record = this.#records.get(seen.decisionId);
    if (next === undefined || record === undefined) return next;
    await this.#try(async () => {
      const moved = await this.#kept.move(group, record, change, signal);
      if (moved !== undefined) this.#records.set(seen.decisionId, moved);
    });
    return next;
  };

  async close(): Promise<void> {
    await this.#run.close();
  }

  /** Keeps a decision under the next number of all runs, and a tick. That number is the state. */
  async #keep(
    group: string,
    { decision, tick }: Pick<Commit, 'decision' | 'tick'>,
    signal: AbortSignal,
  ): Promise<void> {
    for (let times = 0; times < TRIES; times++) {
      const { version, state } = (await this.#kept.readState(group, signal)) ?? { version: 0, state: '' };
      const decisionId = state.startsWith(NEXT) ? Number(state.slice(NEXT.length)) : version; // older: no number
      const record = decision && { ...decision, decisionId };
      const next = `${NEXT}${record === undefined ? decisionId : decisionId + 1}`;
      if (!(await this.#kept.commit(group, { version, state: next, decision: record, tick }, signal))) continue;
      if (decision !== undefined && record !== undefined) this.#records.set(decision.decisionId, record);
      return;
    }
    throw new Error('other planners write all the time');
  }

  async #try(work: () => Promise<void>): Promise<void> {
    await work().catch((thrown: unknown) => this.#logger.warn('a decision is not kept', { reason: reasonOf(thrown) }));
  }
}
