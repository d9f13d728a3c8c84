import { type DecisionRecord, isSettled, type PlannerStore } from '../store/types.ts';
import type { EngineCapabilities, PerPool, Pool, Targets } from '../types.ts';
import type { Connector } from './connectors.ts';

export interface ActOptions {
  readonly store: PlannerStore;
  readonly connector: Connector;
  readonly group: string;
  /** Who acts: another one waits until its claim is over. */
  readonly holder: string;
  nowMs(): number;
  /** GPUs that all models together may have; undefined = no bound. */
  readonly gpusMax?: number | undefined;
  readonly engines: PerPool<EngineCapabilities>;
}

/** Longer than one round of acting takes. */
const CLAIM_MS = 60_000;
/** A fleet that has not become what was decided by then will not. */
const TIMED_OUT_MS = 1_800_000;
/** Decisions that are checked for being left behind. */
const BEHIND_MAX = 20;
/** Newer decisions that are taken up within one call. */
const ROUNDS_MAX = 8;

/**
 * Brings the newest decision nearer to its end, whatever was done of it before: decides nothing, and may be called as often as one
 * likes, by several at once, and after a crash at any point. Returns the newest decision as it is afterwards.
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
  if (mine === undefined) return decision; // somebody else is at it
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
