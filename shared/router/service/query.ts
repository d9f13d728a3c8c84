import { hashPrompt } from '../scheduler/scheduling-request.ts';
import type { RouteRequest, WorkerPool } from '../types.ts';
import type { ChooseQuery } from './types.ts';

const NOBODY: ReadonlySet<string> = new Set();

/** The query for a request; names the blocks of its prompt where nobody has done that before. */
export function queryOf(request: RouteRequest, pool: WorkerPool, avoided: ReadonlySet<string> = NOBODY): ChooseQuery {
  const { id: requestId, routing, override, excluded, policyClass } = request;
  const { key: poolKey, role, blockSizeTokens } = pool;
  const prompt = request.prompt ?? { tokens: request.tokenIds?.length ?? 0, hashes: hashPrompt(request, pool) };
  return { requestId, poolKey, role, blockSizeTokens, prompt, routing, override, excluded, avoided, policyClass };
}
