import { ServeError, workerError } from '../../errors/index.ts';
import type { RoutingHints } from '../../protocol/generation/index.ts';
import { RoutingError } from '../routing-error.ts';
import type { RoutableWorker, RouteRequest } from '../types.ts';
import type { Inhibition } from './inhibition.ts';

/** The worker that the request is pinned to, if it is: the decode side's pin wins in aggregated serving. */
export function pinnedWorkerId(routing: RoutingHints): string | undefined {
  return routing.backend_instance_id ?? routing.decode_worker_id;
}

/**
 * The workers that may take `request`: the hard filters, before any mode looks at load or overlap.
 * Inhibited workers are passed over while another is left. Never returns an empty list.
 */
export function eligibleWorkers<Worker extends RoutableWorker>(
  request: RouteRequest,
  workers: readonly Worker[],
  inhibition: Inhibition,
): readonly Worker[] {
  if (workers.length === 0) throw workerError('Unavailable');
  const pinned = pinnedWorkerId(request.routing);
  if (pinned !== undefined) return [pinnedTo(pinned, request, workers)];
  const allowed = workers.filter((worker) => isAllowed(request, worker));
  if (allowed.length === 0) {
    throw new ServeError('invalid_value', 'Invalid request: no worker matches its routing constraints', {
      param: 'nvext.routing_constraints',
    });
  }
  const untried = allowed.filter((worker) => !request.excluded.has(worker.id));
  if (untried.length === 0) throw workerError('Unavailable');
  const { busy } = request;
  const open = busy === undefined || busy.size === 0 ? untried : untried.filter((worker) => !busy.has(worker.id));
  if (open.length === 0) throw new RoutingError({ kind: 'AllEligibleWorkersOverloaded' });
  const healthy = open.filter((worker) => !inhibition.has(worker.id));
  return healthy.length > 0 ? healthy : open;
}

/** True when no hint narrows the choice, so that the list can be used as it is. */
export function isUnconstrained(request: RouteRequest): boolean {
  const { routing } = request;
  return (
    request.excluded.size === 0 &&
    (request.busy === undefined || request.busy.size === 0) &&
    pinnedWorkerId(routing) === undefined &&
    routing.dp_rank === undefined &&
    routing.allowed_worker_ids === undefined &&
    routing.routing_constraints === undefined
  );
}

function pinnedTo<Worker extends RoutableWorker>(
  id: string,
  request: RouteRequest,
  workers: readonly Worker[],
): Worker {
  const worker = workers.find((candidate) => candidate.id === id);
  if (worker === undefined || !hasRank(worker, request.routing.dp_rank)) {
    throw new ServeError('invalid_value', `Invalid request: worker ${id} does not serve this model`, {
      param: 'nvext.backend_instance_id',
    });
  }
  if (request.excluded.has(id)) throw workerError('Unavailable');
  if (request.busy?.has(id)) throw new RoutingError({ kind: 'PinnedWorkerOverloaded', workerId: id });
  return worker;
}

function isAllowed(request: RouteRequest, worker: RoutableWorker): boolean {
  const { allowed_worker_ids: ids, dp_rank: rank, routing_constraints: constraints } = request.routing;
  if (ids !== undefined && !ids.includes(worker.id)) return false;
  if (!hasRank(worker, rank)) return false;
  return (constraints?.required_taints ?? []).every((taint) => worker.taints.includes(taint));
}

function hasRank(worker: RoutableWorker, rank: number | undefined): boolean {
  if (rank === undefined) return true;
  return rank >= worker.dataParallelStartRank && rank < worker.dataParallelStartRank + worker.dataParallelSize;
}
