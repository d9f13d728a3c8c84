import type { ConnectorMemory, LaunchFailure } from '../live/connector.ts';
import type { PerPool, Pool } from '../types.ts';
import type { OptionSpec } from './fleet-spec.ts';
import type { OptionState } from './option-state.ts';

/** A market, type and zone that had no capacity. */
export interface BadPair {
  /** Option whose launch failed. */
  readonly option: string;
  readonly code: string;
  /** Words of the environment. */
  readonly reason?: string | undefined;
  readonly failedAtMs: number;
  /** Time from which it may be tried again. */
  readonly untilMs: number;
  /** Number of failed tries before this one, at most five. */
  readonly k: number;
  /** Least instances of the option since then: one more shows that a launch has succeeded. */
  readonly live: number;
}

/** A move of one unit back to an earlier option: launched there first, ended elsewhere then. */
export interface Returning {
  readonly option: string;
  readonly decisionId: number;
  readonly replicas: number;
}

/** Memory of the law over options between two rounds. Its size is bounded by the options of the fleet. */
export interface FleetMemory {
  /** By market, type and zone; `*` = every zone. */
  readonly bad: Readonly<Record<string, BadPair>>;
  /** First option that has room while a later one is in use, and since when. */
  readonly room: PerPool<{ readonly option: string; readonly sinceMs: number }>;
  readonly returning: PerPool<Returning>;
  /** By pool and option: launches that were asked for and do not show, the instances then, and since when. */
  readonly asked: Readonly<Record<string, { readonly live: number; readonly sinceMs: number }>>;
}

const FIRST_BAD_MS = 60_000;
const K_MAX = 5;
/** Milliseconds after which a pair that may be tried again is forgotten. */
const FORGOTTEN_MS = 3_600_000;

/** Returns the memory that an earlier plan has returned; an empty one before the first. */
export function readMemory(memory: ConnectorMemory): FleetMemory {
  const { bad = {}, room = {}, returning = {}, asked = {} } = memory as Partial<FleetMemory>;
  return { bad, room, returning, asked };
}

/**
 * Returns the pairs after what an option's last launch says. The pause begins when the failure is noticed if launches
 * still wait for it, because an environment tells late. An environment may tell of a failure only while launches wait,
 * so that silence heals nothing: another instance does.
 */
export function notePairs(
  bad: FleetMemory['bad'],
  { spec, onOrder, live: { length: live } }: Pick<OptionState, 'spec' | 'onOrder' | 'live'>,
  failing: LaunchFailure | undefined,
  nowMs: number,
): FleetMemory['bad'] {
  const pairs: Record<string, BadPair> = {};
  for (const [key, pair] of Object.entries(bad)) {
    const isOwn = pair.option === spec.id;
    if (pair.untilMs + FORGOTTEN_MS <= nowMs || (isOwn && failing === undefined && live > pair.live)) continue;
    pairs[key] = isOwn ? { ...pair, live: Math.min(pair.live, live) } : pair;
  }
  if (failing === undefined) return pairs;
  const types = failing.types.length > 0 ? failing.types : spec.types;
  for (const type of types) {
    const key = keyOf(spec, type, failing.zone ?? spec.zone);
    const before = pairs[key];
    if (before !== undefined && failing.atMs <= before.failedAtMs) continue;
    const { code, reason, atMs: failedAtMs, pauseMs = 0 } = failing;
    const isNewTry = before === undefined || failedAtMs >= before.untilMs;
    const k = before === undefined ? 0 : Math.min(before.k + (isNewTry ? 1 : 0), K_MAX);
    const fromMs = onOrder > 0 ? Math.max(nowMs, failedAtMs) : failedAtMs;
    const untilMs = isNewTry ? fromMs + Math.max(pauseMs, FIRST_BAD_MS * 2 ** k) : before.untilMs;
    pairs[key] = { option: spec.id, code, failedAtMs, untilMs, k, live, ...(reason !== undefined && { reason }) };
  }
  return pairs;
}

/** Returns the pair because of which an option must not be tried now; undefined if it may be. */
export function badPairOf(bad: FleetMemory['bad'], spec: OptionSpec, nowMs: number): BadPair | undefined {
  const found = spec.types.map((type) =>
    Object.entries(bad).find(([key, { option, untilMs }]) => {
      if (untilMs <= nowMs) return false;
      const isHere = key === keyOf(spec, type, spec.zone) || key === keyOf(spec, type, undefined);
      // The group of an option without a zone tries all its zones by itself.
      return isHere || (option === spec.id && spec.zone === undefined && key.startsWith(keyOf(spec, type, '')));
    }),
  );
  if (found.includes(undefined)) return undefined;
  return found[0]?.[1];
}

function keyOf({ market }: OptionSpec, type: string, zone = '*'): string {
  return `${market}/${type}/${zone}`;
}

/** Returns since when launches of an option do not show; undefined if all do. */
export function noteAsked(
  asked: FleetMemory['asked'],
  { pool, option }: { readonly pool: Pool; readonly option: string },
  { live, onOrder }: { readonly live: number; readonly onOrder: number },
  nowMs: number,
): FleetMemory['asked'][string] | undefined {
  if (onOrder === 0) return undefined;
  const before = asked[askedKey(pool, option)];
  return before === undefined || live > before.live ? { live, sinceMs: nowMs } : before;
}

export function askedKey(pool: Pool, option: string): string {
  return `${pool}/${option}`;
}
