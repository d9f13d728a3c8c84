import { type PlannerEventOf, START_PHASES, type StartPhase } from '../../protocol/index.ts';
import { joinStarts, type WorkerPhase } from '../record/fleet-sample.ts';
import type { ModelState } from './model-state.ts';

/** Machines whose starts are remembered; the one heard longest ago goes first. */
const HOSTS_MAX = 256;
/** Longest start in seconds; a machine that says nothing for longer has gone. */
const START_S_MAX = 3600;

/** Notes how far the start of a machine is, and the times of a start that has ended. */
export function noteStartPhase(state: ModelState, signal: PlannerEventOf<'host.phase'>): void {
  const { instance_id: id, phase, took_s: took } = signal;
  const { [id]: before, ...others } = state.hosts ?? {};
  const known = Object.entries(others).filter(([, [, sinceS]]) => state.nowS - sinceS <= START_S_MAX);
  const kept = Object.fromEntries(known.slice(-(HOSTS_MAX - 1)));
  state.hosts = { ...kept, [id]: [laterOf(before?.[0], phase), state.nowS] };
  if (phase !== 'serving' || took === undefined) return;
  const { starts } = state.recorded ?? {};
  state.recorded = { ...state.recorded, starts: joinStarts(starts, { count: 1, seconds: took }) };
}

/**
 * Returns the later phase. An image that is fetched again begins a new start. A group may count a machine as starting
 * for some time after its workers serve, or after its start failed: then it stays in its last phase.
 */
function laterOf(before: StartPhase | undefined, phase: StartPhase | 'serving' | 'failed'): StartPhase {
  if (phase === 'serving') return 'register';
  if (phase === 'failed') return before ?? 'boot';
  if (before === undefined || phase === 'image') return phase;
  return START_PHASES.indexOf(phase) > START_PHASES.indexOf(before) ? phase : before;
}

/** Returns how many of these machines are in each phase of their start. */
export function phasesOf({ hosts }: ModelState, ids: readonly string[]): ReadonlyMap<WorkerPhase, number> {
  const counts = new Map<WorkerPhase, number>();
  // The agent of a machine speaks once the machine has booted. Without any agent, nothing is known.
  const silent = hosts === undefined ? 'starting' : 'boot';
  for (const id of ids) {
    const phase = hosts?.[id]?.[0] ?? silent;
    counts.set(phase, (counts.get(phase) ?? 0) + 1);
  }
  return counts;
}
