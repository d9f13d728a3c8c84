import type { EngineRequest } from './engine-request.ts';

/** Whether the request names the worker that has to serve it. */
export function isPinned({ routing }: EngineRequest): boolean {
  return routing.backend_instance_id !== undefined || routing.decode_worker_id !== undefined;
}

/**
 * Whether another worker could go on with the request once it has begun: one
 * choice, from tokens, unguided, and not pinned to a worker. Frontends and workers both ask: what the one cannot move the
 * other must not give up.
 */
export function isMovable(request: EngineRequest): boolean {
  const { input, sampling } = request;
  if (input.kind !== 'tokens' || input.promptEmbeds !== undefined) return false;
  if ((sampling.n ?? 1) > 1 || sampling.guided_decoding !== undefined) return false;
  return !isPinned(request);
}
