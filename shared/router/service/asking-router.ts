import { hashPrompt } from '../scheduler/scheduling-request.ts';
import type { Reservation, RoutableWorker, RouteRequest, Router, WorkerPool } from '../types.ts';
import type { RemoteIndex } from './remote-index.ts';

/**
 * `router`, whose index lies elsewhere: what is cached of a prompt is asked before the request is routed.
 * @param indexOf the index of a worker set; undefined while the set is new
 */
export function askingRouter(router: Router, indexOf: (pool: WorkerPool) => RemoteIndex | undefined): Router {
  return {
    mode: router.mode,
    async choose<Worker extends RoutableWorker>(
      request: RouteRequest,
      workers: readonly Worker[],
      signal: AbortSignal,
    ): Promise<Reservation<Worker>> {
      return router.choose(await askIndex(request, indexOf, signal), workers, signal);
    },
    inhibit: (workerId) => router.inhibit(workerId),
    forget: (workerId) => router.forget(workerId),
  };
}

/** The request with its blocks named, and the index asked about them. */
export async function askIndex(
  request: RouteRequest,
  indexOf: (pool: WorkerPool) => RemoteIndex | undefined,
  signal: AbortSignal,
): Promise<RouteRequest> {
  const { pool } = request;
  const index = pool && indexOf(pool);
  if (pool === undefined || index === undefined) return request;
  const prompt = request.prompt ?? { tokens: request.tokenIds?.length ?? 0, hashes: hashPrompt(request, pool) };
  await index.look(prompt.hashes, signal);
  return { ...request, prompt };
}
