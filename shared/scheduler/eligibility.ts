import type { Clock } from '../clock/index.ts';
import { workerError } from '../errors/index.ts';
import type { RoutingConstraints, RoutingHints } from '../protocol/index.ts';
import {
  hasRank,
  type RequestFault,
  type RoutableWorker,
  type RouteRequest,
  RoutingError,
  type RoutingFailure,
  type WorkerPool,
} from '../router/index.ts';
import type { Candidates } from './cost.ts';
import type { SchedulingRequest, WorkerFilter, WorkerPin } from './types.ts';
import type { WorkerSet } from './worker-set.ts';

type FilteredWorker = Pick<RoutableWorker, 'id' | 'dataParallelStartRank' | 'dataParallelSize' | 'taints'>;

/** Returns the worker that a request is pinned to in a pool of that role. */
export function pinnedIn(pool: Pick<WorkerPool, 'role'> | undefined, routing: RoutingHints): WorkerPin | undefined {
  const { backend_instance_id: backend, decode_worker_id: decode, prefill_worker_id: prefill } = routing;
  const role = pool?.role;
  const workerId = role === 'prefill' ? prefill : role === 'decode' ? (decode ?? backend) : (backend ?? decode);
  if (workerId === undefined) return undefined;
  const named = role === 'prefill' ? PREFILL_FIELDS : workerId === backend ? BACKEND_FIELDS : DECODE_FIELDS;
  return { workerId, dpRank: rankIn(pool, routing), named };
}

const PREFILL_FIELDS = { worker: 'nvext.prefill_worker_id', rank: 'nvext.prefill_dp_rank' };
const BACKEND_FIELDS = { worker: 'nvext.backend_instance_id', rank: 'nvext.dp_rank' };
const DECODE_FIELDS = { worker: 'nvext.decode_worker_id', rank: 'nvext.dp_rank' };

/**
 * Returns why the worker that the client named cannot take the request; undefined if the client did not name it. @param
 * worker the worker of that id
 */
function pinFault(
  { workerId, dpRank, named }: WorkerPin,
  worker: Pick<RoutableWorker, 'dataParallelStartRank' | 'dataParallelSize'> | undefined,
): RequestFault | undefined {
  if (named === undefined) return undefined;
  const name = /^[0-9a-f]{1,16}$/.test(workerId) ? `${BigInt(`0x${workerId}`)} (${workerId})` : workerId;
  if (worker === undefined) return { param: named.worker, says: `no worker ${name} serves this model` };
  const { dataParallelStartRank: first, dataParallelSize: size } = worker;
  const ranks = size === 1 ? `only rank ${first}` : `ranks ${first} to ${first + size - 1}`;
  return { param: named.rank, says: `worker ${name} has ${ranks}, not ${dpRank}` };
}

/** Returns the data-parallel rank that a request asks for in a pool of that role. */
export function rankIn(pool: Pick<WorkerPool, 'role'> | undefined, routing: RoutingHints): number | undefined {
  return pool?.role === 'prefill' ? routing.prefill_dp_rank : routing.dp_rank;
}

export function hasTaints({ taints }: FilteredWorker, constraints: RoutingConstraints | undefined): boolean {
  return (constraints?.required_taints ?? []).every((taint) => taints.includes(taint));
}

/**
 * Returns those of `workers` that may take the request and have the rank. Returns the filter that excluded the last one
 * if none is left.
 */
function narrow<Worker extends FilteredWorker>(
  workers: readonly Worker[],
  { allowedWorkers, excludedWorkers, busyWorkers, avoidedWorkers, constraints }: WorkerFilter,
  dpRank?: number,
): readonly Worker[] | 'unmatched' | 'excluded' | 'busy' {
  const matching = workers.filter(
    (worker) => allowedWorkers?.has(worker.id) !== false && hasRank(worker, dpRank) && hasTaints(worker, constraints),
  );
  if (matching.length === 0) return 'unmatched';
  const untried = without(matching, excludedWorkers);
  if (untried.length === 0) return 'excluded';
  const open = without(untried, busyWorkers);
  if (open.length === 0) return 'busy';
  const welcome = without(open, avoidedWorkers);
  return welcome.length > 0 ? welcome : open;
}

function without<Worker extends FilteredWorker>(workers: readonly Worker[], ids: ReadonlySet<string> | undefined) {
  return isEmpty(ids) ? workers : workers.filter(({ id }) => ids?.has(id) !== true);
}

function isEmpty(ids: ReadonlySet<string> | undefined): boolean {
  return ids === undefined || ids.size === 0;
}

/**
 * Fills `candidates.ranks` with the ranks that may take the request, in mode `kv`. Returns the reason if no rank may.
 */
export function fillEligible(
  request: WorkerFilter & { readonly pinned?: WorkerPin | undefined },
  workers: WorkerSet,
  candidates: Candidates,
): RoutingFailure | undefined {
  candidates.count = 0;
  if (request.pinned !== undefined) return fillPinned(request, request.pinned, workers, candidates);
  if (isUnfiltered(request)) {
    candidates.addAll(workers.allRanks);
    return candidates.count === 0 ? { kind: 'NoEndpoints' } : undefined;
  }
  const left = narrow(workers.workers, request);
  if (left === 'busy') return { kind: 'AllEligibleWorkersOverloaded' };
  if (typeof left === 'string') return { kind: 'NoEndpoints' };
  for (const { ranks } of left) for (const rank of ranks) candidates.add(rank);
  return undefined;
}

function isUnfiltered(filter: WorkerFilter): boolean {
  return (
    filter.allowedWorkers === undefined &&
    isEmpty(filter.excludedWorkers) &&
    isEmpty(filter.busyWorkers) &&
    isEmpty(filter.avoidedWorkers) &&
    (filter.constraints?.required_taints ?? []).length === 0
  );
}

function fillPinned(
  { allowedWorkers, excludedWorkers, busyWorkers, constraints }: WorkerFilter,
  pin: WorkerPin,
  workers: WorkerSet,
  candidates: Candidates,
): RoutingFailure | undefined {
  const { workerId, dpRank } = pin;
  const worker = workers.find(workerId);
  if (worker === undefined && workers.workers.length > 0)
    return { kind: 'NoEndpoints', fault: pinFault(pin, undefined) };
  if (allowedWorkers?.has(workerId) === false) {
    return { kind: 'PinnedWorkerNotAllowed', workerId, param: pin.named?.worker };
  }
  if (worker === undefined || excludedWorkers?.has(workerId) || !hasTaints(worker, constraints)) {
    return { kind: 'NoEndpoints' };
  }
  if (worker.ranks.length === 0 || !hasRank(worker, dpRank)) {
    return { kind: 'NoEndpoints', fault: pinFault(pin, worker) };
  }
  if (busyWorkers?.has(workerId)) return { kind: 'PinnedWorkerOverloaded', workerId };
  if (dpRank === undefined) for (const rank of worker.ranks) candidates.add(rank);
  else candidates.add(worker.ranks[dpRank - worker.dataParallelStartRank] as number);
  return undefined;
}

/**
 * Returns the workers that may take `request`, in the modes without an index. Skips inhibited workers while another
 * worker is left. Never returns an empty list.
 */
export function eligibleWorkers<Worker extends RoutableWorker>(
  request: RouteRequest,
  workers: readonly Worker[],
  inhibition: Inhibition,
): readonly Worker[] {
  if (workers.length === 0) throw workerError('Unavailable');
  const { routing, pool } = request;
  const pin = pinnedIn(pool, routing);
  if (pin !== undefined) return [pinnedTo(pin, request, workers)];
  const dpRank = rankIn(pool, routing);
  if (!workers.some((worker) => hasRank(worker, dpRank))) throw noSuchRank(pool.role, dpRank);
  const { allowed_worker_ids: ids, routing_constraints: constraints } = routing;
  const isNarrowed = ids !== undefined || constraints !== undefined || dpRank !== undefined;
  if (!isNarrowed && request.excluded.size === 0 && isEmpty(request.busy) && inhibition.isEmpty) return workers;
  const filter = {
    allowedWorkers: ids && new Set(ids),
    excludedWorkers: request.excluded,
    busyWorkers: request.busy,
    avoidedWorkers: inhibition.among(workers),
    constraints,
  };
  const left = narrow(workers, filter, dpRank);
  switch (left) {
    case 'unmatched':
      throw new RoutingError({ kind: 'NoEndpoints' });
    case 'excluded':
      throw workerError('Unavailable');
    case 'busy':
      throw new RoutingError({ kind: 'AllEligibleWorkersOverloaded' });
    default:
      return left;
  }
}

function pinnedTo<Worker extends RoutableWorker>(
  pin: WorkerPin,
  { excluded, busy, routing }: RouteRequest,
  workers: readonly Worker[],
): Worker {
  const { workerId, dpRank } = pin;
  const worker = workers.find(({ id }) => id === workerId);
  if (worker === undefined || !hasRank(worker, dpRank)) {
    throw new RoutingError({ kind: 'NoEndpoints', fault: pinFault(pin, worker) });
  }
  if (routing.allowed_worker_ids?.includes(workerId) === false) {
    throw new RoutingError({ kind: 'PinnedWorkerNotAllowed', workerId, param: pin.named?.worker });
  }
  if (excluded.has(workerId) || !hasTaints(worker, routing.routing_constraints)) throw workerError('Unavailable');
  if (busy?.has(workerId)) throw new RoutingError({ kind: 'PinnedWorkerOverloaded', workerId });
  return worker;
}

function noSuchRank(role: WorkerPool['role'], dpRank: number | undefined): RoutingError {
  const param = role === 'prefill' ? PREFILL_FIELDS.rank : BACKEND_FIELDS.rank;
  return new RoutingError({ kind: 'NoEndpoints', fault: { param, says: `no worker has the rank ${dpRank}` } });
}

/**
 * Returns the factor by which preferred taints multiply a worker's cost: 0.37 to 2.7, below 1 for a preferred worker.
 * Weights are in single precision, as in release 1.6.1. Its costs match to 1e-9 only in this way.
 */
export function taintFactor(preferred: Readonly<Record<string, number>>, taints: readonly string[]): number {
  let sum = 0;
  for (const [taint, weight] of Object.entries(preferred)) if (taints.includes(taint)) sum += Math.fround(weight);
  return sum === 0 ? 1 : Math.exp(-Math.tanh(sum));
}

/** Workers that failed lately. Everything in this process that sends requests skips them until their time is up. */
export class Inhibition {
  readonly #untilMs = new Map<string, number>(); // bounded: entries whose time is up leave when they are read or swept
  readonly #clock: Clock;
  readonly #durationMs: number;

  /** @param durationMs 0 turns inhibition off. */
  constructor(clock: Clock, durationMs: number) {
    this.#clock = clock;
    this.#durationMs = durationMs;
  }

  /** Excludes a worker that failed a request from new requests for a while. */
  add(workerId: string): void {
    if (this.#durationMs <= 0) return;
    const nowMs = this.#clock.nowMs();
    for (const [id, untilMs] of this.#untilMs) if (untilMs <= nowMs) this.#untilMs.delete(id);
    this.#untilMs.set(workerId, nowMs + this.#durationMs);
  }

  /** Ends the inhibition of a worker that discovery has added again: it is another process. */
  forget(workerId: string): void {
    this.#untilMs.delete(workerId);
  }

  /** Whether no worker is inhibited, so that lists can be used as they are. */
  get isEmpty(): boolean {
    return this.#untilMs.size === 0;
  }

  has(workerId: string): boolean {
    if (this.#untilMs.size === 0) return false;
    const untilMs = this.#untilMs.get(workerId);
    if (untilMs === undefined) return false;
    if (untilMs > this.#clock.nowMs()) return true;
    this.#untilMs.delete(workerId);
    return false;
  }

  /** Returns the inhibited ones among `workers`, and `more`; undefined = none. */
  among(workers: readonly RoutableWorker[], more?: ReadonlySet<string>): ReadonlySet<string> | undefined {
    if (this.isEmpty) return more;
    const inhibited = workers.filter(({ id }) => this.has(id)).map(({ id }) => id);
    return new Set([...inhibited, ...(more ?? [])]);
  }
}

/** Whether every router would find the same rank for the request: only its prompt says where it may go. */
export function isPlain(request: SchedulingRequest): boolean {
  const { activeHashes, override, pinned, preferredWorker, constraints, allowedWorkers, home, sharedRanges } = request;
  const others = [activeHashes, override, pinned, preferredWorker, constraints, allowedWorkers, home, sharedRanges];
  return others.every((each) => each === undefined) && (request.excludedWorkers?.size ?? 0) === 0;
}
