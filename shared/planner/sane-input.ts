import type { ForwardPass } from './forward-pass/metrics.ts';
import type { PlannerInput } from './planner.ts';
import type { PerPool, PoolCounts, TrafficWindow } from './types.ts';

/** Beyond this a figure is no measurement. */
const FIGURE_MAX = 1e12;

/**
 * An input without figures that cannot be: what is no number, negative or absurd counts as unknown, and a pass or a window with
 * such a figure as not reported. Counts of workers that cannot be are as none said.
 */
export function saneInput(input: PlannerInput): PlannerInput {
  const observed = each(input.observed ?? {}, ({ itlMs, kvUse }) => ({ itlMs: figure(itlMs), kvUse: figure(kvUse) }));
  const backlog = each(input.backlog ?? {}, ({ workers, requests }) => ({
    workers: Math.floor(figure(workers) ?? 0),
    requests: figure(requests) ?? 0,
  }));
  return {
    ...input,
    backlog,
    counts: each(input.counts, saneCounts),
    passes: each(input.passes ?? {}, (passes) => passes.filter(isSanePass)),
    traffic: input.traffic && isSaneWindow(input.traffic) ? input.traffic : undefined,
    started: figure(input.started),
    held: figure(input.held) ?? 0,
    running: figure(input.running) ?? 0,
    isl: figure(input.isl),
    osl: figure(input.osl),
    kvHitRate: figure(input.kvHitRate),
    acceptLength: figure(input.acceptLength),
    startSeconds: figure(input.startSeconds),
    observed,
  };
}

function each<T, U>(pools: PerPool<T>, read: (value: T) => U): PerPool<U> {
  return Object.fromEntries(Object.entries(pools).map(([pool, value]) => [pool, read(value)]));
}

function figure(value: number | null | undefined): number | undefined {
  return typeof value === 'number' && value >= 0 && value <= FIGURE_MAX ? value : undefined; // NaN is neither
}

function saneCounts<T extends PoolCounts & { readonly starting?: number }>(counts: T): T {
  const whole = (value: number | undefined): number | undefined => {
    const known = figure(value);
    return known === undefined ? undefined : Math.floor(known);
  };
  return {
    ...counts,
    ready: whole(counts.ready) ?? 0,
    starting: whole(counts.starting),
    expected: whole(counts.expected),
    pending: whole(counts.pending),
  };
}

const PASS_FIGURES = [
  'dpRank',
  'wallTimeS',
  'prefillRequests',
  'prefillTokens',
  'prefillKvTokens',
  'decodeRequests',
  'decodeKvTokens',
  'queuedPrefillRequests',
  'queuedPrefillTokens',
  'queuedDecodeRequests',
  'queuedDecodeKvTokens',
] as const satisfies readonly (keyof ForwardPass)[];

function isSanePass(pass: ForwardPass): boolean {
  return PASS_FIGURES.every((name) => figure(pass[name]) !== undefined);
}

function isSaneWindow({ seconds, requests, isl, osl }: TrafficWindow): boolean {
  return [seconds, requests, isl, osl].every((value) => figure(value) !== undefined);
}
