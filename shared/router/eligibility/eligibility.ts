import type { Candidates } from '../cost/candidates.ts';
import type { RoutingFailure } from '../routing-error.ts';
import type { SchedulingRequest } from '../scheduler/scheduler-types.ts';
import type { PooledWorker, WorkerSet } from '../scheduler/worker-set.ts';

/**
 * Fills `candidates.ranks` with the ranks that may take the request: the hard filters, before load or overlap are looked at. Returns why there is none.
 */
export function fillEligible(
  request: SchedulingRequest,
  workers: WorkerSet,
  candidates: Candidates,
): RoutingFailure | undefined {
  candidates.count = 0;
  if (request.pinned !== undefined) return fillPinned(request, request.pinned, workers, candidates);
  if (isUnconstrained(request)) candidates.addAll(workers.allRanks);
  else return fillFiltered(request, workers, candidates);
  return candidates.count === 0 ? { kind: 'NoEndpoints' } : undefined;
}

function isUnconstrained(request: SchedulingRequest): boolean {
  return (
    request.allowedWorkers === undefined &&
    isEmpty(request.excludedWorkers) &&
    isEmpty(request.busyWorkers) &&
    isEmpty(request.avoidedWorkers) &&
    (request.constraints?.required_taints ?? []).length === 0
  );
}

function isEmpty(ids: ReadonlySet<string> | undefined): boolean {
  return ids === undefined || ids.size === 0;
}

function fillPinned(
  request: SchedulingRequest,
  { workerId, dpRank }: NonNullable<SchedulingRequest['pinned']>,
  workers: WorkerSet,
  candidates: Candidates,
): RoutingFailure | undefined {
  if (request.allowedWorkers?.has(workerId) === false) return { kind: 'PinnedWorkerNotAllowed', workerId };
  const pooled = workers.find(workerId);
  if (pooled === undefined || !isCompatible(request, pooled)) return { kind: 'NoEndpoints' };
  const start = pooled.worker.dataParallelStartRank;
  const ranks = dpRank === undefined ? pooled.ranks : pooled.ranks.slice(dpRank - start, dpRank - start + 1);
  if (ranks.length === 0 || (dpRank !== undefined && dpRank < start)) return { kind: 'NoEndpoints' };
  if (request.busyWorkers?.has(workerId)) return { kind: 'PinnedWorkerOverloaded', workerId };
  for (const rank of ranks) candidates.add(rank);
  return undefined;
}

function fillFiltered(
  request: SchedulingRequest,
  workers: WorkerSet,
  candidates: Candidates,
): RoutingFailure | undefined {
  const compatible = workers.workers.filter((pooled) => isAllowed(request, pooled) && isCompatible(request, pooled));
  if (compatible.length === 0) return { kind: 'NoEndpoints' };
  const open = compatible.filter(({ worker }) => request.busyWorkers?.has(worker.id) !== true);
  if (open.length === 0) return { kind: 'AllEligibleWorkersOverloaded' };
  const welcome = open.filter(({ worker }) => request.avoidedWorkers?.has(worker.id) !== true);
  for (const { ranks } of welcome.length > 0 ? welcome : open) for (const rank of ranks) candidates.add(rank);
  return undefined;
}

function isAllowed({ allowedWorkers }: SchedulingRequest, { worker }: PooledWorker): boolean {
  return allowedWorkers === undefined || allowedWorkers.has(worker.id);
}

function isCompatible({ excludedWorkers, constraints }: SchedulingRequest, { worker }: PooledWorker): boolean {
  if (excludedWorkers?.has(worker.id)) return false;
  return (constraints?.required_taints ?? []).every((taint) => worker.taints.includes(taint));
}

/**
 * What preferred taints multiply a worker's cost by: 0.37 to 2.7, below 1 where it is preferred.
 * Weights are single precision, as in release 1.6.1, whose costs are met to 1e-9 only so.
 */
export function taintFactor(preferred: Readonly<Record<string, number>>, taints: readonly string[]): number {
  let sum = 0;
  for (const [taint, weight] of Object.entries(preferred)) if (taints.includes(taint)) sum += Math.fround(weight);
  return sum === 0 ? 1 : Math.exp(-Math.tanh(sum));
}
