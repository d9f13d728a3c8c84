import { type Clock, systemClock } from '../../clock/index.ts';
import {
  COUNT_MAX,
  type Commit,
  type DecisionChange,
  type DecisionRange,
  type DecisionRecord,
  fitsBudget,
  KEPT_MS,
  type Lease,
  moved,
  type PlannerStore,
  type Reservations,
  type StoredState,
  type TickRecord,
  takenLease,
} from './types.ts';

interface Model {
  stored: StoredState | undefined;
  readonly decisions: Map<number, DecisionRecord>; // oldest first
  ticks: TickRecord[];
  acknowledged: number;
}

interface Dumped {
  readonly models: readonly {
    readonly group: string;
    readonly stored?: StoredState;
    readonly decisions: readonly DecisionRecord[];
    /** The ticks, under the name that stored logs use. */
    readonly looks: readonly TickRecord[];
    readonly acknowledged: number;
  }[];
  readonly reserved: Readonly<Record<string, number>>;
}

/** Most decisions and ticks that are kept of a model. */
export const RECORDS_MAX = 2000;

/** Store of one process; its contents end with the process. */
export class MemoryPlannerStore implements PlannerStore {
  readonly name = 'memory';
  readonly #clock: Pick<Clock, 'wallMs'>;
  readonly #models = new Map<string, Model>();
  readonly #reserved: Record<string, number> = {};
  readonly #leases = new Map<string, Lease>(); // by group; bounded by the models of the fleet

  constructor(clock: Pick<Clock, 'wallMs'> = systemClock) {
    this.#clock = clock;
  }

  async readState(group: string, signal: AbortSignal): Promise<StoredState | undefined> {
    signal.throwIfAborted();
    return this.#models.get(group)?.stored;
  }

  async commit(group: string, { version, state, decision, tick }: Commit, signal: AbortSignal): Promise<boolean> {
    signal.throwIfAborted();
    const model = this.#modelOf(group);
    if ((model.stored?.version ?? 0) !== version) return isOwn(model, version, state, decision);
    if (decision !== undefined && model.decisions.has(decision.decisionId)) return false;
    model.stored = { version: version + 1, state };
    if (decision !== undefined) model.decisions.set(decision.decisionId, decision);
    if (tick !== undefined) model.ticks.push(tick);
    this.#forget(model);
    return true;
  }

  async decisions(group: string, range: DecisionRange, signal: AbortSignal): Promise<readonly DecisionRecord[]> {
    signal.throwIfAborted();
    const { sinceMs, countMax = COUNT_MAX } = range;
    const all = [...(this.#models.get(group)?.decisions.values() ?? [])].reverse();
    return all.filter(({ decidedAtMs }) => decidedAtMs >= sinceMs).slice(0, countMax);
  }

  async decision(group: string, decisionId: number, signal: AbortSignal): Promise<DecisionRecord | undefined> {
    signal.throwIfAborted();
    return this.#models.get(group)?.decisions.get(decisionId);
  }

  async ticks(group: string, { sinceMs, countMax = COUNT_MAX }: DecisionRange, signal: AbortSignal) {
    signal.throwIfAborted();
    const ticks = (this.#models.get(group)?.ticks ?? []).toReversed();
    return ticks.filter(({ atMs }) => atMs >= sinceMs).slice(0, countMax);
  }

  async move(group: string, seen: DecisionRecord, change: DecisionChange, signal: AbortSignal) {
    signal.throwIfAborted();
    const decisions = this.#models.get(group)?.decisions;
    const next = moved(decisions?.get(seen.decisionId), seen, change);
    if (next !== undefined) decisions?.set(next.decisionId, next);
    return next;
  }

  /** Replaces a decision with what it became elsewhere. */
  put(group: string, decision: DecisionRecord): void {
    this.#modelOf(group).decisions.set(decision.decisionId, decision);
  }

  async acknowledge(group: string, decisionId: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const model = this.#modelOf(group);
    model.acknowledged = Math.max(model.acknowledged, decisionId);
  }

  async acknowledged(group: string, signal: AbortSignal): Promise<number> {
    signal.throwIfAborted();
    return this.#models.get(group)?.acknowledged ?? -1;
  }

  async takeLease(group: string, holder: string, ms: number, signal: AbortSignal): Promise<Lease | undefined> {
    signal.throwIfAborted();
    const lease = takenLease(this.#leases.get(group), holder, ms, this.#clock.wallMs());
    if (lease !== undefined) this.#leases.set(group, lease);
    return lease;
  }

  renewLease: PlannerStore['renewLease'] = async (group, lease, { ms, memory }, signal) => {
    signal.throwIfAborted();
    if (this.#leases.get(group)?.fence !== lease.fence) return undefined;
    const renewed = { ...lease, untilMs: this.#clock.wallMs() + ms, memory };
    this.#leases.set(group, renewed);
    return renewed;
  };

  async releaseLease(group: string, lease: Lease, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const now = this.#leases.get(group);
    if (now?.fence === lease.fence) this.#leases.set(group, { ...now, untilMs: 0 });
  }

  async reserve(pools: Reservations, gpusMax: number, signal: AbortSignal): Promise<boolean> {
    signal.throwIfAborted();
    if (!fitsBudget(this.#reserved, pools, gpusMax)) return false;
    Object.assign(this.#reserved, pools);
    return true;
  }

  async reservations(signal: AbortSignal): Promise<Reservations> {
    signal.throwIfAborted();
    return { ...this.#reserved };
  }

  async groups(signal: AbortSignal): Promise<readonly string[]> {
    signal.throwIfAborted();
    return [...this.#models.keys()].toSorted();
  }

  async close(): Promise<void> {}

  /** Returns everything, as plain values that `restore` takes. */
  dump(): unknown {
    const models = [...this.#models].map(([group, { stored, decisions, ticks, acknowledged }]) => {
      return { group, stored, decisions: [...decisions.values()], looks: ticks, acknowledged };
    });
    return { models, reserved: { ...this.#reserved } };
  }

  /** Takes over the contents of a dump. */
  restore(dumped: unknown): void {
    const { models, reserved } = dumped as Dumped;
    this.#models.clear();
    for (const name of Object.keys(this.#reserved)) delete this.#reserved[name];
    Object.assign(this.#reserved, reserved);
    for (const { group, decisions, looks, ...rest } of models) {
      const byId = new Map(decisions.map((each) => [each.decisionId, each]));
      this.#models.set(group, { stored: undefined, ...rest, ticks: [...looks], decisions: byId });
    }
  }

  #modelOf(group: string): Model {
    const known = this.#models.get(group);
    if (known !== undefined) return known;
    const model = { stored: undefined, decisions: new Map<number, DecisionRecord>(), ticks: [], acknowledged: -1 };
    this.#models.set(group, model);
    return model;
  }

  #forget(model: Model): void {
    const fromMs = this.#clock.wallMs() - KEPT_MS;
    for (const [id, { decidedAtMs }] of model.decisions) {
      if (decidedAtMs >= fromMs && model.decisions.size <= RECORDS_MAX) break;
      model.decisions.delete(id);
    }
    if (model.ticks.length > RECORDS_MAX + 100 || (model.ticks[0]?.atMs ?? fromMs) < fromMs) {
      model.ticks = model.ticks.filter(({ atMs }) => atMs >= fromMs).slice(-RECORDS_MAX);
    }
  }
}

/** Returns whether this commit was made before, and only its answer was lost. */
function isOwn(
  { stored, decisions }: Model,
  version: number,
  state: string,
  decision: DecisionRecord | undefined,
): boolean {
  if (stored?.version !== version + 1 || stored.state !== state) return false;
  const kept = decision && decisions.get(decision.decisionId);
  return decision === undefined || (kept?.decidedAtMs === decision.decidedAtMs && kept.reason === decision.reason);
}
