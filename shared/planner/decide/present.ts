import type { PlannerConfig } from '../config.ts';
import { roundSample } from '../record/fleet-sample.ts';
import type { TickRecord } from '../store/types.ts';
import { isState, unpackState } from './model-state.ts';
import { plannerOf } from './what-if.ts';

/** A planner as its stored state says. */
export interface PresentPlanner {
  /** Undefined for a planner of an earlier release. */
  readonly config: PlannerConfig | undefined;
  /** The latest tick, with the sample since the last stored tick; undefined before the first tick of this release. */
  readonly tick: TickRecord | undefined;
}

/**
 * Reads what a state says of its planner. Returns undefined for another text: the folder of `stator local` has
 * decisions without a state.
 */
export function readPresent(text: string): PresentPlanner | undefined {
  if (!isState(text)) return undefined;
  const { asked, latest, recorded, tickAtS } = unpackState(text);
  const sample = recorded?.sample && roundSample(recorded.sample);
  return {
    config: asked && plannerOf(asked).config,
    tick: latest && { atMs: Math.round(1000 * tickAtS), ...latest, sample },
  };
}
