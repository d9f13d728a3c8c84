import type { EndpointRecord, WorkerLoad } from '../discovery/index.ts';
import { type RoutableModel, servesType, setsOf, type Worker } from '../pipeline/index.ts';
import type { TokenPrices } from './token-cost.ts';
import type { ConsoleFigures, ConsoleModel } from './wire/fleet.ts';
import type { ConsoleWorker } from './wire/worker.ts';

/** Models that are shown at most. */
export const MODELS_MAX = 256;

type Pool = ConsoleWorker['pool'];

/** Workers of a model in one role. */
interface Members {
  readonly pool: Pool;
  readonly workers: readonly Worker[];
  readonly isStanding: boolean;
}

/** Facts about a worker beside its registration. */
interface WorkerFacts {
  readonly model: string;
  readonly pool: Pool;
  readonly isStanding: boolean;
  readonly isStalled: boolean;
  readonly load: WorkerLoad | undefined;
  readonly record: EndpointRecord | undefined;
}

/** Returns the workers of a model by their roles. A worker may be in several. */
export function membersOf(model: RoutableModel): readonly Members[] {
  return setsOf(model).flatMap(({ pool, workers, standing = [], prefill, encoders = [] }) => [
    { pool: pool.role, workers, isStanding: false },
    { pool: pool.role, workers: standing, isStanding: true },
    { pool: 'prefill' as const, workers: prefill?.workers ?? [], isStanding: false },
    { pool: 'encode' as const, workers: encoders, isStanding: false },
  ]);
}

/** Numbers of workers of models; a change of a model makes it another object. */
const COUNTS = new WeakMap<RoutableModel, number>();

/**
 * Returns the number of different workers of a model. Only a model with several worker sets has its workers walked,
 * because these may share their prefill workers.
 */
export function countWorkers(model: RoutableModel): number {
  const known = COUNTS.get(model);
  if (known !== undefined) return known;
  const members = membersOf(model);
  const count =
    model.otherSets === undefined
      ? members.reduce((sum, { workers }) => sum + workers.length, 0)
      : new Set(members.flatMap(({ workers }) => workers.map(({ id }) => id))).size;
  COUNTS.set(model, count);
  return count;
}

/** Returns the number of workers of all models. Adapters and aliases have the workers of their models. */
export function countAllWorkers(models: readonly RoutableModel[]): number {
  return models.reduce((sum, model) => {
    const isOwn = model.name === model.primaryName && model.baseModel === undefined;
    return isOwn ? sum + countWorkers(model) : sum;
  }, 0);
}

/** Returns the row of a worker. */
export function workerRow(worker: Worker, facts: WorkerFacts): ConsoleWorker {
  const { model, pool, record, load } = facts;
  const { totalKvBlocks, dataParallelSize: ranks } = worker;
  const host = record?.host;
  return {
    id: worker.id,
    model,
    pool,
    endpoint: worker.endpoint,
    state: stateOf(facts),
    ranks,
    device: worker.deviceType ?? null,
    machine: host === undefined ? null : machineOf(host),
    kv_blocks_total: totalKvBlocks === undefined ? null : totalKvBlocks * ranks,
    ...loadOf(load),
  };
}

/** Returns the load of a worker over its ranks; nulls if none is reported. */
export function loadOf(load: WorkerLoad | undefined): Pick<ConsoleWorker, 'requests' | 'kv_blocks' | 'prefill_tokens'> {
  if (load === undefined) return { requests: null, kv_blocks: null, prefill_tokens: null };
  let [requests, blocks, tokens] = [0, 0, 0];
  for (const rank of load.ranks) {
    requests += rank.requests;
    blocks += rank.decodeBlocks;
    tokens += rank.prefillTokens;
  }
  return { requests, kv_blocks: blocks, prefill_tokens: tokens };
}

function machineOf({ instance_id, instance_type, zone, market }: NonNullable<EndpointRecord['host']>) {
  return {
    instance_id,
    ...(instance_type === undefined ? {} : { instance_type }),
    ...(zone === undefined ? {} : { zone }),
    ...(market === undefined ? {} : { market }),
  };
}

function stateOf({ load, isStalled, isStanding }: WorkerFacts): ConsoleWorker['state'] {
  if (load?.isDraining === true) return 'draining';
  if (isStalled) return 'stalled';
  return isStanding ? 'standing' : 'ready';
}

/** Returns the row of a model. @param figures undefined if it has none of its own */
export function modelRow(
  model: RoutableModel,
  figures: ConsoleFigures | undefined,
  tokenPrices: TokenPrices,
): ConsoleModel {
  const { name, primaryName, readiness, contextLength, baseModel } = model;
  return {
    name,
    is_ready: readiness.isReady,
    reason: readiness.reason ?? null,
    takes_chats: servesType(model, 'Chat'),
    context_tokens: contextLength,
    workers: countWorkers(model),
    base_model: baseModel ?? null,
    figures: figures ?? null,
    token_price: tokenPrices.get(primaryName) ?? null,
  };
}
