import { u64OfHex } from '../records/index.ts';
import { type BodyFields, DEFAULT_GROUP } from './body-fields.ts';
import { isConnectable } from './rank-listeners.ts';
import { ServiceError } from './service-error.ts';

/** Model of who names none. */
export const DEFAULT_MODEL = 'default';

/** What the selection service knows of a worker; fields may come one after another. */
export interface SelectionWorker {
  /** Hex. */
  readonly id: string;
  readonly model: string;
  readonly group: string;
  readonly endpoint: string | undefined;
  readonly blockSizeTokens: number | undefined;
  readonly dpStart: number;
  readonly dpSize: number;
  /** By rank. */
  readonly kvEndpoints: ReadonlyMap<number, string>;
  readonly replayEndpoints: ReadonlyMap<number, string>;
  readonly maxNumBatchedTokens: number | undefined;
  readonly totalKvBlocks: number | undefined;
  readonly taints: readonly string[];
  readonly isDraining: boolean;
}

export type Lifecycle = 'incomplete' | 'schedulable' | 'draining' | 'unschedulable';

const RANKS_MAX = 1024;

/**
 * The record of a body, laid over `before` where there is one: what the body does not name stays.
 * @throws ServiceError 400, 422
 */
export function readWorker(body: BodyFields, id: string, before?: SelectionWorker): SelectionWorker {
  const dpStart = body.optionalU32('dp_start') ?? body.optionalU32('data_parallel_start_rank') ?? before?.dpStart ?? 0;
  const dpSize = body.optionalU32('dp_size') ?? body.optionalU32('data_parallel_size') ?? before?.dpSize ?? 1;
  if (dpSize < 1 || dpSize > RANKS_MAX) throw new ServiceError(400, `dp_size must be from 1 to ${RANKS_MAX}`);
  return {
    id,
    model: body.optionalText('model_name') ?? before?.model ?? DEFAULT_MODEL,
    group: body.optionalText('routing_group') ?? before?.group ?? DEFAULT_GROUP,
    endpoint: body.optionalText('endpoint') ?? before?.endpoint,
    blockSizeTokens: body.optionalU32('block_size') ?? before?.blockSizeTokens,
    dpStart,
    dpSize,
    kvEndpoints: endpoints(body, 'kv_events_endpoint', dpStart) ?? before?.kvEndpoints ?? new Map(),
    replayEndpoints: endpoints(body, 'replay_endpoint', dpStart) ?? before?.replayEndpoints ?? new Map(),
    maxNumBatchedTokens: body.optionalCount('max_num_batched_tokens') ?? before?.maxNumBatchedTokens,
    totalKvBlocks: body.optionalCount('total_kv_blocks') ?? before?.totalKvBlocks,
    taints: body.optionalTexts('taints') ?? before?.taints ?? [],
    isDraining: body.boolean('draining') ?? before?.isDraining ?? false,
  };
}

/** `name` for the first rank, or `name` with an s for each: `{"0": "tcp://..."}`. */
function endpoints(body: BodyFields, name: string, dpStart: number): ReadonlyMap<number, string> | undefined {
  const single = body.optionalText(name);
  const named = body.optionalTextMap(`${name}s`);
  if (single === undefined && named === undefined) return undefined;
  const byRank = new Map<number, string>(single === undefined ? [] : [[dpStart, single]]);
  for (const [rank, endpoint] of Object.entries(named ?? {})) {
    if (!/^\d{1,10}$/.test(rank)) throw new ServiceError(400, `${name}s: ${rank} is not a rank`);
    byRank.set(Number(rank), endpoint);
  }
  for (const endpoint of byRank.values()) {
    if (!isConnectable(endpoint))
      throw new ServiceError(400, `${name} ${endpoint} is not tcp://host:port or ipc://path`);
  }
  return byRank;
}

/** What a worker lacks to be chosen. */
export function missingOf(worker: SelectionWorker, hasQueue: boolean): readonly string[] {
  const missing: string[] = [];
  if (worker.endpoint === undefined) missing.push('endpoint is missing');
  if (worker.blockSizeTokens === undefined || worker.blockSizeTokens < 1) missing.push('block_size is missing or 0');
  for (let rank = worker.dpStart; rank < worker.dpStart + worker.dpSize; rank++) {
    if (!worker.kvEndpoints.has(rank)) missing.push(`kv_events_endpoint of rank ${rank} is missing`);
  }
  if (hasQueue && worker.maxNumBatchedTokens === undefined) missing.push('max_num_batched_tokens is missing');
  return missing;
}

/** The record as the service shows it. */
export function workerJson(worker: SelectionWorker, lifecycle: Lifecycle, reasons: readonly string[]): unknown {
  return {
    worker_id: u64OfHex(worker.id),
    model_name: worker.model,
    routing_group: worker.group,
    endpoint: worker.endpoint ?? null,
    block_size: worker.blockSizeTokens ?? null,
    dp_start: worker.dpStart,
    dp_size: worker.dpSize,
    kv_events_endpoints: Object.fromEntries(worker.kvEndpoints),
    replay_endpoints: Object.fromEntries(worker.replayEndpoints),
    max_num_batched_tokens: worker.maxNumBatchedTokens ?? null,
    total_kv_blocks: worker.totalKvBlocks ?? null,
    taints: worker.taints,
    lifecycle,
    not_schedulable_reasons: reasons,
  };
}
