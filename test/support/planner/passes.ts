import type { ForwardPass } from '../../../shared/planner/index.ts';
import type { EngineCapabilities } from '../../../shared/planner/types.ts';
import type { Json } from './records.ts';

const number = (value: unknown): number => (typeof value === 'number' ? value : 0);

/** Reads a pass in the short names of the records. Missing values are 0. */
export function readPass(row: Json): ForwardPass {
  return {
    workerId: String(row.w),
    dpRank: number(row.dp),
    wallTimeS: number(row.wt),
    prefillRequests: number(row.np),
    prefillTokens: number(row.pt),
    prefillKvTokens: number(row.pkv),
    decodeRequests: number(row.nd),
    decodeKvTokens: number(row.dkv),
    queuedPrefillRequests: number(row.qnp),
    queuedPrefillTokens: number(row.qpt),
    queuedDecodeRequests: number(row.qnd),
    queuedDecodeKvTokens: number(row.qdkv),
  };
}

export function readPasses(rows: unknown): readonly ForwardPass[] | undefined {
  return rows === undefined ? undefined : (rows as readonly Json[]).map(readPass);
}

export function readEngine(row: Json): EngineCapabilities {
  return {
    gpus: number(row.num_gpu),
    maxNumBatchedTokens: number(row.max_num_batched_tokens),
    maxNumSeqs: number(row.max_num_seqs),
    contextLength: number(row.context_length),
    maxKvTokens: number(row.max_kv_tokens),
    ...(typeof row.power_watts_per_replica === 'number' && { wattsPerReplica: row.power_watts_per_replica }),
  };
}
