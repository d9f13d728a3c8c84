import type { PlannerSignal } from '../../protocol/index.ts';
import { EVENTS_MAX, type FleetEvent } from '../record/fleet-sample.ts';
import type { OptionView } from '../record/option-view.ts';
import type { Pool } from '../types.ts';
import { type ModelState, poolOf } from './model-state.ts';

type Failure = NonNullable<OptionView['failure']>;

/** Age in milliseconds up to which a failed launch is news; a planner that has just started sees older ones too. */
const NEWS_MS_MAX = 600_000;
/** Time in milliseconds in which failures with the same words are one launch: EC2 and the group tell of it. */
const SAME_MS = 60_000;
/** Failures whose times are remembered; the oldest goes first. */
const FAILURES_MAX = 64;
/** Instance types that the text of an event names; the rest are counted. */
const TYPES_MAX = 4;

/** Notes what a signal says of machines, for the sample of the next tick. */
export function noteEvent(state: ModelState, signal: PlannerSignal): void {
  const atMs = Math.round(state.nowS * 1000);
  if (signal.type === 'capacity.interrupt') {
    const { kind, component, instance_id: instance, deadline_at: deadlineAt } = signal;
    if (state.interruptions?.[instance]?.kind === kind) return; // its agent and EC2 both say so, and say it again
    const deadline = deadlineAt === undefined ? {} : { deadlineMs: Math.round(deadlineAt) };
    putEvent(state, { atMs, kind, pool: poolOf(component), instance, ...deadline });
  } else if (signal.type === 'capacity.failed') {
    const { code, component, instance_types: types, zone, activity_id: activity } = signal;
    const pool = poolOf(component);
    const about = textOf({ code, types, zone });
    if (code === 'StartFailed') putEvent(state, { atMs, kind: 'start-failed', pool, instance: activity, about });
    else putLaunch(state, pool, about, atMs);
  }
}

/**
 * Notes the failed launches of options that were not noted before.
 * @returns the keys of these options
 */
export function noteFailures(state: ModelState, fleet: readonly OptionView[]): ReadonlySet<string> {
  const failed = new Set<string>();
  for (const { key, pool, failure } of fleet) {
    if (failure === undefined || state.nowS * 1000 - failure.atMs > NEWS_MS_MAX) continue;
    if (failure.atMs <= (state.recorded?.failedAtMs?.[key] ?? 0)) continue;
    putLaunch(state, pool, textOf(failure), Math.round(failure.atMs));
    remember(state, key, failure.atMs);
    failed.add(key);
  }
  return failed;
}

function putLaunch(state: ModelState, pool: Pool, about: string, atMs: number): void {
  const name = `${pool}: ${about}`;
  const isKnown = Math.abs(atMs - (state.recorded?.failedAtMs?.[name] ?? 0)) < SAME_MS;
  remember(state, name, atMs);
  if (!isKnown) putEvent(state, { atMs, kind: 'launch-failed', pool, about });
}

function remember(state: ModelState, name: string, atMs: number): void {
  const { [name]: _, ...others } = state.recorded?.failedAtMs ?? {};
  const kept = Object.entries(others).slice(-(FAILURES_MAX - 1));
  state.recorded = { ...state.recorded, failedAtMs: { ...Object.fromEntries(kept), [name]: atMs } };
}

function putEvent(state: ModelState, event: FleetEvent): void {
  const { open = [], leftOut = 0 } = state.recorded ?? {};
  const room = open.length < EVENTS_MAX ? { open: [...open, event] } : { leftOut: leftOut + 1 };
  state.recorded = { ...state.recorded, ...room };
}

function textOf({ code, types, zone }: Pick<Failure, 'code' | 'types' | 'zone'>): string {
  const rest = types.length - TYPES_MAX;
  const named = types.length === 0 ? '' : `: ${types.slice(0, TYPES_MAX).join(', ')}`;
  const more = rest > 0 ? ` and ${rest} more` : '';
  return `${code}${named}${more}${zone === undefined ? '' : ` in ${zone}`}`;
}
