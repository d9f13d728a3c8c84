import type { Reservation, RoutableWorker, RouteRequest, Router } from '../../../shared/router/index.ts';

const NEVER = new AbortController().signal;

/** Returns the choice of `router` for a request whose pool has these workers now. */
export function choose<Worker extends RoutableWorker>(
  router: Router<Worker>,
  request: RouteRequest,
  workers: readonly Worker[],
  signal: AbortSignal = NEVER,
): Promise<Reservation<Worker>> {
  router.setWorkers(request.pool, workers);
  return router.choose(request, signal);
}
