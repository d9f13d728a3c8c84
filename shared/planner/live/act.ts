import { type DecisionRecord, isSettled, type PlannerStore } from '../store/types.ts';
import type { EngineCapabilities, PerPool, Pool, Targets } from '../types.ts';
import type { Connector } from './connectors.ts';

export interface ActOptions {
  readonly store: PlannerStore;
  readonly connector: Connector;
  readonly group: string;
  /** Process that acts; others wait until its claim is over. */
  readonly holder: string;
  nowMs(): number;
  /** GPUs of all models together; undefined = no bound. */
  readonly gpusMax?: number | undefined;
  readonly engines: PerPool<EngineCapabilities>;
}

/** Milliseconds that one round of acting never takes. */
const CLAIM_MS = 60_000;
/** Milliseconds after which a fleet that does not match a decision never will. */
const TIMED_OUT_MS = 1_800_000;
/** Older decisions that a round checks. */
const BEHIND_MAX = 20;
/** Newer decisions that one call takes up. */
const ROUNDS_MAX = 8;

/**
 * Brings the newest decision nearer to its end, from whatever point it has reached, and returns it as it is afterwards.
 * It decides nothing. Several processes may call it at once, at any time, also after a crash at any point.
 */
export async function actOnNewest(options: ActOptions, signal: AbortSignal): Promise<DecisionRecord | undefined> {
  const { store, group } = options;
  let acted: DecisionRecord | undefined;
  for (let round = 0; round < ROUNDS_MAX; round++) {
    const [newest, ...older] = await store.decisions(group, { sinceMs: 0, countMax: BEHIND_MAX }, signal);
    if (newest === undefined || newest.decisionId === acted?.decisionId) return acted ?? newest;
    for (const each of older) await leaveBehind(each, options, signal);
    acted = await actOn(newest, options, signal);
  }
  return acted;
}

async function leaveBehind(decision: DecisionRecord, { store, group }: ActOptions, signal: AbortSignal): Promise<void> {
  const { status } = decision;
  if (status !== 'PENDING' && status !== 'APPLYING' && status !== 'TIMED_OUT') return;
  await store.move(group, decision, { status: 'SUPERSEDED' }, signal);
}

async function actOn(decision: DecisionRecord, options: ActOptions, signal: AbortSignal): Promise<DecisionRecord> {
  const { store, group, connector, holder, nowMs } = options;
  if (isSettled(decision.status)) return decision;
  const { claim } = decision;
  if (claim !== undefined && claim.holder !== holder && claim.untilMs > nowMs()) return decision;
  if (!(await fitsBudget(decision, options, signal))) {
    const problem = 'the GPU budget of all models has no room for it';
    if (decision.status !== 'PENDING') return decision;
    return (await store.move(group, decision, { status: 'REJECTED_BUDGET', problem }, signal)) ?? decision;
  }
  const appliedAtMs = decision.appliedAtMs ?? nowMs();
  const taken = { status: 'APPLYING', appliedAtMs, claim: { holder, untilMs: nowMs() + CLAIM_MS } } as const;
  const mine = await store.move(group, decision, taken, signal);
  if (mine === undefined) return decision; // another process acts on it
  const handed = await connector.scale(mine.targets, signal);
  if (handed === 'accepted' && (await connector.isSettled(signal))) {
    await store.acknowledge(group, mine.decisionId, signal);
    return (await store.move(group, mine, { status: 'APPLIED' }, signal)) ?? mine;
  }
  if (nowMs() - appliedAtMs < TIMED_OUT_MS) return mine;
  const problem = 'the fleet did not become what was decided within 30 minutes';
  return (await store.move(group, mine, { status: 'TIMED_OUT', problem }, signal)) ?? mine;
}

async function fitsBudget(
  { targets }: DecisionRecord,
  { store, group, gpusMax, engines }: ActOptions,
  signal: AbortSignal,
): Promise<boolean> {
  if (gpusMax === undefined) return true;
  for (const [pool, count] of Object.entries(targets as Required<Targets>)) {
    const gpus = count * (engines[pool as Pool]?.gpus ?? 1);
    if (!(await store.reserve(`${group}/${pool}`, gpus, gpusMax, signal))) return false;
  }
  return true;
}
