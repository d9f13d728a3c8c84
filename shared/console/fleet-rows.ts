import type { EndpointRecord, FleetLoads, WorkerLoad } from '../discovery/index.ts';
import { type RoutableModel, servesType, setsOf, type Worker } from '../pipeline/index.ts';
import type { ConsoleFigures, ConsoleModel, ConsoleWorker } from './wire.ts';

/** Workers that are shown at most. */
export const WORKERS_MAX = 4096;
/** Models that are shown at most. */
export const MODELS_MAX = 256;

type Pool = ConsoleWorker['pool'];

/** Sources of the row of a worker. */
type WorkerSources = readonly [
  worker: Worker,
  place: string,
  load: WorkerLoad | undefined,
  isStalled: boolean,
  record: EndpointRecord | undefined,
];

/** The fleet at one moment, as the frontend knows it. */
export interface FleetNow {
  readonly models: readonly RoutableModel[];
  readonly loads: FleetLoads;
  readonly instances: ReadonlyMap<string, EndpointRecord>;
  readonly stalled: ReadonlySet<string>;
}

/** Returns the sources of the rows of all workers by their ids: of the first 4,096, and how many more there are. */
export function workersOf({ models, loads, instances, stalled }: FleetNow): {
  readonly rows: ReadonlyMap<string, WorkerSources>;
  readonly leftOut: number;
} {
  const rows = new Map<string, WorkerSources>();
  let leftOut = 0;
  for (const model of models) {
    if (model.name !== model.primaryName || model.baseModel !== undefined) continue;
    for (const [worker, pool, isStanding] of membersOf(model)) {
      if (rows.has(worker.id)) continue;
      if (rows.size >= WORKERS_MAX) leftOut++;
      else {
        const place = `${pool}${isStanding ? '.standing' : ''}/${model.name}`;
        rows.set(worker.id, [worker, place, loads.get(worker.id), stalled.has(worker.id), instances.get(worker.id)]);
      }
    }
  }
  return { rows, leftOut };
}

/** Returns the number of different workers of the models. */
export function countWorkers(models: readonly RoutableModel[]): number {
  const ids = new Set<string>();
  for (const model of models) for (const [{ id }] of membersOf(model)) ids.add(id);
  return ids.size;
}

function* membersOf(model: RoutableModel): Generator<readonly [worker: Worker, pool: Pool, isStanding: boolean]> {
  for (const { pool, workers, standing = [], prefill, encoders = [] } of setsOf(model)) {
    for (const worker of workers) yield [worker, pool.role, false];
    for (const worker of standing) yield [worker, pool.role, true];
    for (const worker of prefill?.workers ?? []) yield [worker, 'prefill', false];
    for (const worker of encoders) yield [worker, 'encode', false];
  }
}

/** Returns the row of a worker. */
export function workerRow(...[worker, place, load, isStalled, record]: WorkerSources): ConsoleWorker {
  const [role, model] = [place.slice(0, place.indexOf('/')), place.slice(place.indexOf('/') + 1)];
  const [pool, standing] = role.split('.') as [Pool, string | undefined];
  const sum = (of: 'requests' | 'decodeBlocks' | 'prefillTokens'): number | null =>
    load === undefined ? null : load.ranks.reduce((all, rank) => all + rank[of], 0);
  const { totalKvBlocks, dataParallelSize: ranks } = worker;
  const host = record?.host;
  return {
    id: worker.id,
    model,
    pool,
    endpoint: worker.endpoint,
    state: stateOf(load, isStalled, standing !== undefined),
    ranks,
    device: worker.deviceType ?? null,
    machine: host === undefined ? null : machineOf(host),
    requests: sum('requests'),
    kv_blocks: sum('decodeBlocks'),
    kv_blocks_total: totalKvBlocks === undefined ? null : totalKvBlocks * ranks,
    prefill_tokens: sum('prefillTokens'),
  };
}

function machineOf({ instance_id, instance_type, zone, market }: NonNullable<EndpointRecord['host']>) {
  return {
    instance_id,
    ...(instance_type === undefined ? {} : { instance_type }),
    ...(zone === undefined ? {} : { zone }),
    ...(market === undefined ? {} : { market }),
  };
}

function stateOf(load: WorkerLoad | undefined, isStalled: boolean, isStanding: boolean): ConsoleWorker['state'] {
  if (load?.isDraining === true) return 'draining';
  if (isStalled) return 'stalled';
  return isStanding ? 'standing' : 'ready';
}

/** Returns the row of a model. @param figures undefined if it has none of its own */
export function modelRow(model: RoutableModel, figures: ConsoleFigures | undefined): ConsoleModel {
  const { name, readiness, contextLength, baseModel } = model;
  return {
    name,
    is_ready: readiness.isReady,
    reason: readiness.reason ?? null,
    takes_chats: servesType(model, 'Chat'),
    context_tokens: contextLength,
    workers: countWorkers([model]),
    base_model: baseModel ?? null,
    figures: figures ?? null,
  };
}
