import type { StartPhase } from '../../protocol/index.ts';
import { isState, unpackState } from '../decide/model-state.ts';
import type { PlannerStore } from '../store/types.ts';

/** A machine whose agent has told how far its start is. */
export interface StartingHost {
  readonly instanceId: string;
  readonly phase: StartPhase;
  /** Unix time at which the phase began, in milliseconds. */
  readonly sinceMs: number;
}

/** Facts of a planner about the start of a model's workers. */
export interface StartReading {
  /** Unix time in milliseconds of its last decision; undefined if that wants no worker, or there is none. */
  readonly decidedAtMs: number | undefined;
  /** Reason why the decided workers do not come. */
  readonly problem: string | undefined;
  /** Machines that start, and those that have started within the hour: the latter stay in their last phase. */
  readonly hosts: readonly StartingHost[];
}

/** Age of a decision beyond which it starts nothing any more, in milliseconds. */
const DECISION_MS_MAX = 3_600_000;

/**
 * Reads what a planner has stored about the start of a model's workers: one reading of its state and one of its newest
 * decision. Returns undefined if the store knows no planner of the model.
 * @param group name of the model's state, see `groupOf`
 */
export async function readStart(
  store: Pick<PlannerStore, 'readState' | 'decisions'>,
  group: string,
  nowMs: number,
  signal: AbortSignal,
): Promise<StartReading | undefined> {
  const stored = await store.readState(group, signal);
  if (stored === undefined) return undefined;
  const range = { sinceMs: nowMs - DECISION_MS_MAX, countMax: 1 };
  const [decision] = await store.decisions(group, range, signal);
  const wantsWorkers = Object.values(decision?.targets ?? {}).some((target) => target > 0);
  return {
    decidedAtMs: wantsWorkers ? decision?.decidedAtMs : undefined,
    problem: wantsWorkers ? decision?.problem : undefined,
    hosts: hostsOf(stored.state),
  };
}

function hostsOf(text: string): readonly StartingHost[] {
  const { hosts = {} } = isState(text) ? unpackState(text) : {};
  return Object.entries(hosts).map(([instanceId, [phase, sinceS]]) => {
    return { instanceId, phase, sinceMs: Math.round(sinceS * 1000) };
  });
}
