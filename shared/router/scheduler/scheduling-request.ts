import type { RoutingHints } from '../../protocol/generation/index.ts';
import { type BlockHashes, hashBlocks } from '../../tokens/index.ts';
import { adapterHolders } from '../eligibility/lora-filter.ts';
import type { SessionAffinity } from '../session-affinity.ts';
import type { RoutableWorker, RouteRequest, WorkerPool } from '../types.ts';
import type { SchedulingRequest } from './scheduler-types.ts';

const NO_HASHES: BlockHashes = { local: new Uint32Array(0), sequence: new Uint32Array(0) };

/** Names the blocks of the request's prompt; none where it has no tokens or the block size is not known. */
export function hashPrompt(request: RouteRequest, { blockSizeTokens, isEagle }: WorkerPool): BlockHashes {
  const { tokenIds, prompt, routing } = request;
  if (prompt !== undefined) return prompt.hashes;
  if (tokenIds === undefined || blockSizeTokens === 0) return NO_HASHES;
  return hashBlocks(tokenIds, {
    blockSizeTokens,
    isEagle,
    loraName: routing.lora_name,
    cacheSalt: routing.cache_salt,
  });
}

/** The worker that the request is pinned to in a pool of that role. */
export function pinnedIn(
  { role }: WorkerPool,
  routing: RoutingHints,
): { readonly workerId: string; readonly dpRank: number | undefined } | undefined {
  const { backend_instance_id: backend, decode_worker_id: decode, prefill_worker_id: prefill } = routing;
  const workerId = role === 'prefill' ? prefill : role === 'decode' ? (decode ?? backend) : (backend ?? decode);
  if (workerId === undefined) return undefined;
  return { workerId, dpRank: role === 'prefill' ? routing.prefill_dp_rank : routing.dp_rank };
}

export interface RequestSurroundings {
  readonly pool: WorkerPool;
  readonly workers: readonly RoutableWorker[];
  /** Undefined = blocks go by their public names. */
  readonly activeHashes: Uint32Array | undefined;
  /** Workers that failed lately. */
  readonly avoidedWorkers: ReadonlySet<string> | undefined;
  readonly affinity: SessionAffinity | undefined;
}

/** What the scheduler is asked for a request; `hashes` from `hashPrompt`. */
export function schedulingRequest(
  request: RouteRequest,
  hashes: BlockHashes,
  { pool, workers, activeHashes, avoidedWorkers, affinity }: RequestSurroundings,
): SchedulingRequest {
  const { routing } = request;
  const explicit = pinnedIn(pool, routing);
  const session = explicit === undefined ? sessionTarget(request, workers, affinity) : undefined;
  const isHard = affinity?.mode === 'hard';
  return {
    id: request.id,
    promptTokens: request.prompt?.tokens ?? request.tokenIds?.length ?? 0,
    hashes,
    activeHashes,
    override: request.override,
    priorityJump: routing.priority_jump,
    strictPriority: routing.strict_priority,
    expectedOutputTokens: routing.expected_output_tokens,
    policyClass: request.policyClass,
    allowedWorkers: allowedWorkers(routing, workers, explicit?.workerId),
    excludedWorkers: request.excluded,
    busyWorkers: request.busy,
    avoidedWorkers,
    pinned: explicit ?? (isHard ? session : undefined),
    preferredWorker: isHard ? undefined : session,
    constraints: routing.routing_constraints,
  };
}

function allowedWorkers(
  { allowed_worker_ids: ids, lora_name: loraName }: RoutingHints,
  workers: readonly RoutableWorker[],
  pinnedId: string | undefined,
): ReadonlySet<string> | undefined {
  const allowed = ids && new Set(ids);
  if (loraName === undefined || loraName === '') return allowed;
  const candidates = allowed === undefined ? workers : workers.filter(({ id }) => allowed.has(id));
  const holders = adapterHolders(candidates, loraName, pinnedId);
  if (holders === undefined || allowed === undefined) return holders ?? allowed;
  return new Set([...allowed].filter((id) => holders.has(id)));
}

/** Where the request's session is bound, if that worker and rank can still be had; a binding that cannot is dropped. */
function sessionTarget(
  { routing, excluded }: RouteRequest,
  workers: readonly RoutableWorker[],
  affinity: SessionAffinity | undefined,
): { readonly workerId: string; readonly dpRank: number } | undefined {
  const sessionId = routing.session_id;
  if (affinity === undefined || sessionId === undefined) return undefined;
  const target = affinity.find(sessionId);
  if (target === undefined) return undefined;
  const worker = workers.find(({ id }) => id === target.workerId);
  const offset = target.dpRank - (worker?.dataParallelStartRank ?? 0);
  if (worker !== undefined && offset < worker.dataParallelSize && !excluded.has(worker.id)) return target;
  affinity.unbind(sessionId);
  return undefined;
}
