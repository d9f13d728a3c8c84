import { fromPassRow, toPassRow } from '../../protocol/index.ts';
import { changedKeys } from '../config.ts';
import type { ForwardPass } from '../forward-pass/metrics.ts';
import type { PerPool, Pool } from '../types.ts';
import type { BatchReport } from './apply-signal.ts';
import type { AskedWith } from './model-state.ts';
import type { DecideOptions } from './tick-law.ts';

/** Ranks whose passes are kept: each takes about 60 bytes of the state. */
export const RANKS_KEPT = 64;

/** Returns the circumstances of a tick that no signal tells, as the state keeps them. */
export function askedWith(
  { passes }: Pick<BatchReport, 'passes'>,
  { planner: { config, engines }, counted = {}, startSeconds }: DecideOptions,
): AskedWith {
  const counts = Object.entries(counted).map(([pool, { ready, starting, failing = 0 }]) => {
    return [pool, failing === 0 ? { ready, starting } : { ready, starting, failing }] as const;
  });
  const rows = config.law === 'rate' ? [] : rowsOf(passes);
  return {
    config: changedKeys(config),
    ...(Object.keys(engines).length === 0 ? {} : { engines }),
    ...(counts.length === 0 ? {} : { counted: Object.fromEntries(counts) }),
    ...(startSeconds === undefined ? {} : { startSeconds }),
    ...(rows.length === 0 ? {} : { passes: Object.fromEntries(rows) }),
  };
}

function rowsOf(passes: BatchReport['passes']) {
  const pools = Object.entries(passes).filter(([, each]) => each.length > 0);
  if (pools.reduce((total, [, each]) => total + each.length, 0) > RANKS_KEPT) return [];
  const rowOf = (pass: ForwardPass) => [pass.workerId, pass.dpRank, ...toPassRow(pass)] as const;
  return pools.map(([pool, each]) => [pool, each.map(rowOf)] as const);
}

/** Returns the passes that a state has kept. */
export function passesKept({ passes = {} }: AskedWith): PerPool<ForwardPass[]> {
  const pools = Object.entries(passes) as [Pool, NonNullable<(typeof passes)[Pool]>][];
  return Object.fromEntries(
    pools.map(([pool, rows]) => [
      pool,
      rows.map(([workerId, dpRank, ...row]) => ({ workerId, dpRank, ...fromPassRow(row) })),
    ]),
  );
}
