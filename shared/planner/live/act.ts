import type { DecisionChange, DecisionRecord, Lease, PlannerStore, Victim } from '../store/types.ts';
import type { EngineCapabilities, PerPool } from '../types.ts';
import { planWithinBudget } from './budget.ts';
import type { Applied, Connector, Observed, Plan } from './connector.ts';
import { describeFleet } from './describe-fleet.ts';

export interface ActOptions {
  readonly store: PlannerStore;
  readonly connector: Connector;
  readonly group: string;
  /** Process that acts. While it holds the lease of the model, others wait. */
  readonly holder: string;
  nowMs(): number;
  readonly tickSeconds: number;
  /** Seconds that an instance serves before it may end. @default 180 */
  readonly minInstanceSeconds?: number | undefined;
  /** Seconds that a worker takes to start, until the connector has measured it. */
  readonly startSeconds: number;
  /** GPUs of all models together; undefined = no bound. */
  readonly gpusMax?: number | undefined;
  readonly engines: PerPool<EngineCapabilities>;
  /** Asks the workers of instances to take no new requests. Done before the instances are ended. */
  readonly orderDrain?:
    | ((instanceIds: readonly string[], deadlineMs: number, signal: AbortSignal) => Promise<void>)
    | undefined;
}

/** Milliseconds of a lease: more than any round takes. */
const LEASE_MS = 60_000;
/** Least time in milliseconds after which a fleet that does not match a decision is late. */
const TIMED_OUT_MS_MIN = 600_000;
/** Older decisions that a round checks. */
const BEHIND_MAX = 20;
/** Newer decisions that one call takes up. */
const ROUNDS_MAX = 8;

/**
 * Brings the fleet nearer to the newest decision, from whatever point it has reached, and returns the decision as it is
 * afterwards. A decision that was carried out is applied again if the fleet has become something else. It decides
 * nothing. Several processes may call it at once, at any time, also after a crash at any point: one of them acts.
 *
 * A call to an environment cannot be fenced. If it lands late, from a process that has lost its lease, the next round
 * sees the wrong number and corrects it.
 */
export async function actOnNewest(options: ActOptions, signal: AbortSignal): Promise<DecisionRecord | undefined> {
  const { store, group, holder } = options;
  const [first] = await store.decisions(group, { sinceMs: 0, countMax: 1 }, signal);
  if (first === undefined || first.status === 'ADVISORY') return await leaveBehindAdvice(first, options, signal);
  const lease = await store.takeLease(group, holder, LEASE_MS, signal);
  if (lease === undefined) return first; // another process acts
  // After a failure the lease stays until it ends: a call of this round may still land.
  const { decision, lease: latest } = await actUnder(lease, options, signal);
  await store.releaseLease(group, latest, signal);
  return decision;
}

async function leaveBehindAdvice(
  advice: DecisionRecord | undefined,
  options: ActOptions,
  signal: AbortSignal,
): Promise<DecisionRecord | undefined> {
  if (advice === undefined) return undefined;
  const { store, group } = options;
  const [, ...older] = await store.decisions(group, { sinceMs: 0, countMax: BEHIND_MAX }, signal);
  await leaveBehind(older, options, undefined, signal);
  return advice;
}

async function actUnder(
  taken: Lease,
  options: ActOptions,
  signal: AbortSignal,
): Promise<{ readonly decision: DecisionRecord | undefined; readonly lease: Lease }> {
  const { store, group } = options;
  let lease = taken;
  let decision: DecisionRecord | undefined;
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const [newest, ...older] = await store.decisions(group, { sinceMs: 0, countMax: BEHIND_MAX }, signal);
    if (newest === undefined || newest.decisionId === decision?.decisionId) break;
    if (newest.status === 'ADVISORY') return { decision: newest, lease };
    await leaveBehind(older, options, lease.fence, signal);
    const acted = await new Round(options, lease, signal).act(newest, older);
    decision = acted.decision;
    if (acted.lease === undefined) break;
    lease = acted.lease;
  }
  return { decision, lease };
}

const OPEN = new Set<DecisionRecord['status']>(['PENDING', 'APPLYING', 'TIMED_OUT', 'STALLED', 'REJECTED_BUDGET']);

async function leaveBehind(
  older: readonly DecisionRecord[],
  { store, group }: ActOptions,
  fence: number | undefined,
  signal: AbortSignal,
): Promise<void> {
  for (const each of older) {
    if (!OPEN.has(each.status)) continue;
    await store.move(group, each, { status: 'SUPERSEDED', ...(fence === undefined ? {} : { fence }) }, signal);
  }
}

interface Acted {
  readonly decision: DecisionRecord;
  /** Undefined: the lease was lost. */
  readonly lease: Lease | undefined;
}

/** One decision under one lease. */
class Round {
  readonly #options: ActOptions;
  readonly #signal: AbortSignal;
  readonly #lease: Lease;

  constructor(options: ActOptions, lease: Lease, signal: AbortSignal) {
    this.#options = options;
    this.#lease = lease;
    this.#signal = signal;
  }

  async act(newest: DecisionRecord, older: readonly DecisionRecord[]): Promise<Acted> {
    // Observed again although the tick has just done so: until the lease was taken, another process may have acted.
    const observed = await this.#options.connector.observe(this.#signal);
    const fleet = describeFleet(observed);
    const { plan, granted } = await this.#plan(newest, older, observed);
    if (granted === 'none') return { decision: await this.#refuse(newest, fleet), lease: this.#lease };
    const begun = await this.#begin(newest, plan, fleet);
    if (begun === undefined) return { decision: newest, lease: undefined }; // another process has changed it
    const lease = await this.#remember(plan);
    if (lease === undefined) return { decision: begun, lease };
    await this.#orderDrains(plan);
    const applied = await this.#apply(plan);
    return { decision: await this.#end(begun, plan, { applied, fleet, observed, granted }), lease };
  }

  async #plan(newest: DecisionRecord, older: readonly DecisionRecord[], observed: Observed) {
    const { connector, nowMs, tickSeconds, minInstanceSeconds, gpusMax } = this.#options;
    const victims = [...older.toReversed(), newest].flatMap((each) => each.victims ?? []);
    const context = { nowMs: nowMs(), victims: distinct(victims), tickSeconds, minInstanceSeconds };
    const planOf = (limits?: PerPool<number>): Plan =>
      connector.plan(newest, observed, this.#lease.memory, { ...context, gpusMax: limits });
    if (gpusMax === undefined) return { plan: planOf(), granted: 'all' as const };
    return await planWithinBudget(planOf, newest, { ...this.#options, gpusMax }, this.#signal);
  }

  /** Stores what is going to be done, before anything is done. Returns undefined if the decision was changed since. */
  async #begin(newest: DecisionRecord, plan: Plan, fleet: string): Promise<DecisionRecord | undefined> {
    const { nowMs } = this.#options;
    let decision: DecisionRecord | undefined = newest;
    if (isOpenAgain(newest, plan, fleet)) decision = await this.#move(newest, { status: 'PENDING' });
    if (decision === undefined) return undefined;
    const { victims: known = [], status, reapplied = 0, problem, code, option } = decision;
    const victims = distinct([...known, ...plan.victims]);
    const common = { fleet, ...(victims.length > 0 && { victims }) };
    const begun = { ...common, status: 'APPLYING', appliedAtMs: nowMs() } as const;
    if (status === 'PENDING') return await this.#move(decision, begun);
    if (status === 'APPLIED' && plan.steps.length > 0) {
      return await this.#move(decision, { ...begun, reapplied: reapplied + 1 });
    }
    if (status === 'APPLIED' || victims.length === known.length) return decision;
    return await this.#move(decision, { ...common, status, problem, code, option });
  }

  /** Stores the connector's memory, and keeps the lease. Returns undefined if another process has taken it. */
  async #remember({ memory, steps }: Plan): Promise<Lease | undefined> {
    const { store, group } = this.#options;
    if (steps.length === 0 && isSame(memory, this.#lease.memory)) return this.#lease;
    return await store.renewLease(group, this.#lease, { ms: LEASE_MS, memory }, this.#signal);
  }

  async #orderDrains({ drains = [] }: Plan): Promise<void> {
    const { orderDrain } = this.#options;
    if (orderDrain === undefined) return;
    for (const deadlineMs of new Set(drains.map((each) => each.deadlineMs))) {
      const together = drains.filter((each) => each.deadlineMs === deadlineMs);
      const ids = together.map(({ instanceId }) => instanceId);
      await orderDrain(ids, deadlineMs, this.#signal);
    }
  }

  async #apply({ steps }: Plan): Promise<Applied> {
    return steps.length === 0 ? 'accepted' : await this.#options.connector.apply(steps, this.#signal);
  }

  /** Stores what became of the decision. */
  async #end(decision: DecisionRecord, plan: Plan, outcome: Outcome): Promise<DecisionRecord> {
    const { store, group } = this.#options;
    const change = this.#changeOf(decision, plan, outcome);
    if (change === undefined) return decision;
    const ended = await this.#move(decision, { ...change, fleet: outcome.fleet });
    if (ended?.status === 'APPLIED') await store.acknowledge(group, ended.decisionId, this.#signal);
    return ended ?? decision;
  }

  #changeOf(decision: DecisionRecord, plan: Plan, { applied, observed, granted }: Outcome): DecisionChange | undefined {
    const { status, problem } = decision;
    const { shortage, isDone, steps, note } = plan;
    if (typeof applied === 'object') {
      const { failed: code, reason } = applied;
      const refused = { code, problem: `the environment refuses the change: ${reason ?? code}` };
      const late = status === 'APPLYING' && this.#isLate(decision, observed) ? 'TIMED_OUT' : status;
      return late === status && problem === refused.problem ? undefined : { ...refused, status: late };
    }
    if (status === 'APPLIED') return undefined;
    if (isDone && steps.length === 0 && granted === 'all')
      return status === 'APPLYING' ? { status: 'APPLIED' } : undefined;
    if (shortage !== undefined) {
      const isKnown = status === 'STALLED' && problem === shortage.problem;
      return isKnown || status === 'TIMED_OUT' ? undefined : { ...shortage, status: 'STALLED' };
    }
    if (status === 'APPLYING' && this.#isLate(decision, observed)) {
      const minutes = Math.round(this.#waitMs(observed) / 60_000);
      return { status: 'TIMED_OUT', problem: `the fleet did not match the decision within ${minutes} minutes` };
    }
    const waits = granted === 'part' ? 'the decision waits for GPUs of the budget that instances still hold' : note;
    return status !== 'APPLYING' || problem === waits ? undefined : { status, ...(waits && { problem: waits }) };
  }

  #isLate({ appliedAtMs }: DecisionRecord, observed: Observed): boolean {
    const { nowMs } = this.#options;
    return appliedAtMs !== undefined && nowMs() - appliedAtMs >= this.#waitMs(observed);
  }

  #waitMs({ startSeconds = this.#options.startSeconds }: Observed): number {
    return this.#options.connector.waitMsMax ?? Math.max(2000 * startSeconds, TIMED_OUT_MS_MIN);
  }

  async #refuse(decision: DecisionRecord, fleet: string): Promise<DecisionRecord> {
    const problem = 'the GPU budget that all models share has no room for it';
    if (decision.status !== 'PENDING' && decision.status !== 'APPLYING') return decision;
    return (await this.#move(decision, { status: 'REJECTED_BUDGET', problem, fleet })) ?? decision;
  }

  #move(decision: DecisionRecord, change: DecisionChange): Promise<DecisionRecord | undefined> {
    const { store, group } = this.#options;
    return store.move(group, decision, { ...change, fence: this.#lease.fence }, this.#signal);
  }
}

interface Outcome {
  readonly applied: Applied;
  readonly fleet: string;
  readonly observed: Observed;
  readonly granted: 'all' | 'part';
}

/** Returns whether a decision that was given up may come true after all. */
function isOpenAgain({ status, fleet: then }: DecisionRecord, { shortage }: Plan, now: string): boolean {
  if (status === 'STALLED') return shortage === undefined; // an option may be tried
  return status === 'REJECTED_BUDGET' || (status === 'TIMED_OUT' && then !== now);
}

function distinct(victims: readonly Victim[]): readonly Victim[] {
  return [...new Map(victims.map((each) => [`${each.instanceId} ${each.uid ?? ''}`, each])).values()];
}

function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
