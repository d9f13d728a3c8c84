import { reasonOf } from '../../errors/index.ts';
import { type DecisionRecord, MemoryPlannerStore, type PlannerStore } from '../../planner/index.ts';
import type { Logger } from '../../telemetry/index.ts';

/** Other runs that write at the same time. */
const TRIES = 8;

/**
 * The store of a planner that begins anew with each run: in memory, and its decisions in `kept` too, where they can be asked for
 * afterwards. Several runs share `kept` and number their decisions together. What cannot be kept is told, and changes nothing else.
 */
export class KeptDecisions extends MemoryPlannerStore {
  readonly #kept: PlannerStore;
  readonly #logger: Logger;
  /** As they are in `kept`, by their number here; bounded by what a run decides. */
  readonly #records = new Map<number, DecisionRecord>();

  constructor(kept: PlannerStore, logger: Logger) {
    super();
    this.#kept = kept;
    this.#logger = logger;
  }

  override async commit(...args: Parameters<PlannerStore['commit']>): Promise<boolean> {
    const isDone = await super.commit(...args);
    const [group, { decision }, signal] = args;
    if (isDone && decision !== undefined) await this.#try(() => this.#keep(group, decision, signal));
    return isDone;
  }

  override async move(...args: Parameters<PlannerStore['move']>) {
    const next = await super.move(...args);
    const [group, { decisionId }, change, signal] = args;
    const record = this.#records.get(decisionId);
    if (next === undefined || record === undefined) return next;
    await this.#try(async () => {
      const moved = await this.#kept.move(group, record, change, signal);
      if (moved !== undefined) this.#records.set(decisionId, moved);
    });
    return next;
  }

  async #keep(group: string, decision: DecisionRecord, signal: AbortSignal): Promise<void> {
    for (let times = 0; times < TRIES; times++) {
      const version = (await this.#kept.readState(group, signal))?.version ?? 0;
      const record = { ...decision, decisionId: version };
      if (!(await this.#kept.commit(group, { version, state: '', decision: record }, signal))) continue;
      this.#records.set(decision.decisionId, record);
      return;
    }
    throw new Error('other planners write all the time');
  }

  async #try(work: () => Promise<void>): Promise<void> {
    await work().catch((thrown: unknown) => this.#logger.warn('a decision is not kept', { reason: reasonOf(thrown) }));
  }
}
