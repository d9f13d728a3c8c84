import { SILENT_S } from '../signals/worker-load.ts';
import { POOLS, type Pool } from '../types.ts';
import { STALE_S } from './apply-signal.ts';
import { settleInterruptions } from './interruptions.ts';
import type { ModelState } from './model-state.ts';
import { readyOf } from './worker-counts.ts';

/** Sources that are remembered; the one heard longest ago goes first. */
const SOURCES_MAX = 256;
const SOURCE_FORGOTTEN_S = 600;
const HELD_FORGOTTEN_S = 12;
const START_TIMES_MAX = 20;
/** Comings and goings that are remembered one by one: the next roll-up of the pool has them all. */
const CHANGES_MAX = 128;
const CHANGE_KEY = /^worker\.(registered|draining|gone)\//;
/**
 * A roll-up that was begun before a worker left, and arrives after the news of that, does not bring the worker back.
 */
const CHANGE_FORGOTTEN_S = 300;

/** Forgets what is too old to count, and notes which starts have come. */
export function settleTime(state: ModelState): void {
  const { nowS } = state;
  keep(state.sources, ({ heardAtS }) => nowS - heardAtS <= SOURCE_FORGOTTEN_S);
  const surplus = Object.keys(state.sources).length - SOURCES_MAX * 2;
  if (surplus > 0) forgetOldest(state.sources, surplus, ({ heardAtS }) => heardAtS);
  const changed = Object.keys(state.sources).filter((key) => CHANGE_KEY.test(key));
  forgetOldest(state.sources, changed.length - CHANGES_MAX, ({ heardAtS }) => heardAtS, changed);
  forgetOldest(state.changes, Object.keys(state.changes).length - CHANGES_MAX, ({ atS }) => atS);
  keep(state.direct, ({ heardAtS }) => nowS - heardAtS <= SILENT_S || nowS - state.heardAtS > 0);
  keep(state.held, ({ atS }) => nowS - atS <= HELD_FORGOTTEN_S);
  keep(state.changes, ({ atS, isUp }) => nowS - atS <= (isUp ? STALE_S * 2 : CHANGE_FORGOTTEN_S));
  settleInterruptions(state);
  for (const pool of POOLS) noteReady(state, pool);
}

/** Removes `count` entries of `entries`, the oldest of `keys` first. */
function forgetOldest<T>(
  entries: Record<string, T>,
  count: number,
  timeOf: (value: T) => number,
  keys: readonly string[] = Object.keys(entries),
): void {
  if (count <= 0) return;
  const ages = keys.map((key) => ({ key, atS: timeOf(entries[key]!) }));
  for (const { key } of ages.toSorted((one, other) => one.atS - other.atS).slice(0, count)) delete entries[key];
}

function noteReady(state: ModelState, pool: Pool): void {
  const ready = readyOf(state, pool);
  const before = state.ready[pool] ?? 0;
  const waiting = state.starting[pool] ?? [];
  for (let come = ready - before; come > 0; come--) {
    const decidedAtS = waiting.shift();
    if (decidedAtS !== undefined)
      state.startTimes = [...state.startTimes, state.nowS - decidedAtS].slice(-START_TIMES_MAX);
  }
  state.starting[pool] = waiting;
  state.ready = { ...state.ready, [pool]: ready };
}

function keep<T>(entries: Record<string, T>, isKept: (value: T) => boolean): void {
  for (const [key, value] of Object.entries(entries)) if (!isKept(value)) delete entries[key];
}
