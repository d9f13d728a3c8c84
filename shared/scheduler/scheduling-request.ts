import type { Clock } from '../clock/index.ts';
import type { RoutingHints } from '../protocol/index.ts';
import { BoundedMap } from '../records/index.ts';
import type { HashedPrompt, RankId, RoutableWorker, RouteRequest, WorkerPool } from '../router/index.ts';
import { hasRank } from '../router/index.ts';
import { type BlockHashes, hashBlocks } from '../tokens/index.ts';
import { pinnedIn } from './eligibility.ts';
import type { SchedulingRequest } from './types.ts';

const NO_HASHES: BlockHashes = { local: new Uint32Array(0), sequence: new Uint32Array(0) };

/**
 * Returns the prompt of a request with the hashes of its blocks. Computes them if no process did so before. A prompt
 * without tokens, or a pool of unknown block size, has no hashes.
 */
export function hashedPrompt({ tokenIds, prompt, routing, pool }: RouteRequest): HashedPrompt {
  if (prompt !== undefined) return prompt;
  const { blockSizeTokens, isEagle } = pool;
  if (tokenIds === undefined || blockSizeTokens === 0) return { tokens: tokenIds?.length ?? 0, hashes: NO_HASHES };
  const { lora_name: loraName, cache_salt: cacheSalt } = routing;
  return { tokens: tokenIds.length, hashes: hashBlocks(tokenIds, { blockSizeTokens, isEagle, loraName, cacheSalt }) };
}

export interface RequestSurroundings {
  readonly pool: WorkerPool;
  /** Workers of the request's own set. */
  readonly workers: readonly RoutableWorker[];
  /** Ids of those workers, if the pool also has others. @default the pool has no others */
  readonly holders?: ReadonlySet<string> | undefined;
  /** Names of the blocks of running requests; undefined = their public hashes. */
  readonly activeHashes: Uint32Array | undefined;
  /** Ids of workers that failed lately. */
  readonly avoidedWorkers: ReadonlySet<string> | undefined;
  readonly affinity: SessionAffinity | undefined;
}

/** Builds the scheduler's request. `prompt` is its `hashedPrompt`. */
export function schedulingRequest(
  request: RouteRequest,
  prompt: HashedPrompt,
  { pool, workers, holders, activeHashes, avoidedWorkers, affinity }: RequestSurroundings,
): SchedulingRequest {
  const { routing } = request;
  const explicit = pinnedIn(pool, routing);
  const session = explicit === undefined ? sessionTarget(request, workers, affinity) : undefined;
  const isHard = affinity?.mode === 'hard';
  return {
    id: request.id,
    promptTokens: prompt.tokens,
    hashes: prompt.hashes,
    activeHashes,
    override: request.override,
    priorityJump: routing.priority_jump,
    strictPriority: routing.strict_priority,
    expectedOutputTokens: expectedOutputTokens(routing),
    cacheTtlMs: routing.cache_ttl_ms,
    policyClass: request.policyClass,
    allowedWorkers: within(holders, allowedWorkers(routing, workers, explicit?.workerId)),
    excludedWorkers: request.excluded,
    busyWorkers: request.busy,
    avoidedWorkers,
    pinned: explicit ?? (isHard ? session : undefined),
    preferredWorker: isHard ? undefined : session,
    constraints: routing.routing_constraints,
    home: request.home,
  };
}

/**
 * Returns the number of output tokens that the client expects; undefined if the hint is not a number of tokens. Hints
 * that come over the request plane are unchecked, and a cost that is not a number would make every choice random.
 */
function expectedOutputTokens({ expected_output_tokens: tokens }: RoutingHints): number | undefined {
  return tokens !== undefined && Number.isInteger(tokens) && tokens >= 0 ? tokens : undefined;
}

function allowedWorkers(
  { allowed_worker_ids: ids, lora_name: loraName }: RoutingHints,
  workers: readonly RoutableWorker[],
  pinnedId: string | undefined,
): ReadonlySet<string> | undefined {
  const allowed = ids && new Set(ids);
  if (loraName === undefined || loraName === '') return allowed;
  const candidates = allowed === undefined ? workers : workers.filter(({ id }) => allowed.has(id));
  return within(adapterHolders(candidates, loraName, pinnedId), allowed);
}

/** Returns the ids that are in both sets. An undefined set contains every id. */
function within(
  holders: ReadonlySet<string> | undefined,
  allowed: ReadonlySet<string> | undefined,
): ReadonlySet<string> | undefined {
  if (holders === undefined || allowed === undefined) return holders ?? allowed;
  return new Set([...allowed].filter((id) => holders.has(id)));
}

/**
 * Returns the worker and rank that the request's session is bound to, if the pool still has them. Otherwise drops the
 * binding.
 */
function sessionTarget(
  { routing, excluded, pool }: RouteRequest,
  workers: readonly RoutableWorker[],
  affinity: SessionAffinity | undefined,
): RankId | undefined {
  const sessionId = routing.session_id;
  if (affinity === undefined || sessionId === undefined) return undefined;
  const target = affinity.find(sessionId, pool.key);
  if (target === undefined) return undefined;
  const worker = workers.find(({ id }) => id === target.workerId);
  if (worker !== undefined && hasRank(worker, target.dpRank) && !excluded.has(worker.id)) return target;
  affinity.unbind(sessionId, pool.key);
  return undefined;
}

/**
 * Returns the ids of the workers that have loaded an adapter, and `pinnedId` in any case. Returns undefined if no
 * worker says that it has the adapter; then any worker may take the request.
 */
export function adapterHolders(
  workers: readonly RoutableWorker[],
  loraName: string,
  pinnedId: string | undefined,
): ReadonlySet<string> | undefined {
  const holders = workers.filter((worker) => worker.loraNames?.includes(loraName));
  if (holders.length === 0) return undefined;
  const ids = new Set(holders.map(({ id }) => id));
  if (pinnedId !== undefined) ids.add(pinnedId);
  return ids;
}

export interface SessionAffinityOptions {
  /** Time without requests after which a binding ends. */
  readonly ttlMs: number;
  /**
   * Strictness of a binding. `hard`: a session stays where it is bound. `soft`: it stays while that worker may take it.
   * @default 'hard'
   */
  readonly mode?: 'hard' | 'soft';
}

interface Binding {
  target: RankId;
  /** Time without requests after which it ends: the router's, or as long as its client expects to reuse its prompts. */
  ttlMs: number;
  /** Number of running requests; while there are any, the binding does not expire. */
  requests: number;
  idleSinceMs: number;
}

const BINDINGS_MAX = 65_536;
const ID_BYTES_MAX = 256;

/**
 * Sessions bound to the worker that took their first request. There is one object for each phase of a model. A base
 * model and its adapters share it, and have bindings of their own: not every worker has every adapter. `set` is the key
 * of their worker set.
 */
export class SessionAffinity {
  readonly mode: 'hard' | 'soft';
  readonly #bindings = new BoundedMap<string, Binding>(BINDINGS_MAX); // the least recently used leaves first
  readonly #clock: Pick<Clock, 'nowMs'>;
  readonly #ttlMs: number;

  constructor({ ttlMs, mode = 'hard' }: SessionAffinityOptions, clock: Pick<Clock, 'nowMs'>) {
    this.mode = mode;
    this.#clock = clock;
    this.#ttlMs = ttlMs;
  }

  find(sessionId: string, set = ''): RankId | undefined {
    const key = keyOf(sessionId, set);
    const binding = this.#bindings.get(key);
    if (binding === undefined) return undefined;
    if (binding.requests > 0 || this.#clock.nowMs() - binding.idleSinceMs <= binding.ttlMs) return binding.target;
    this.#bindings.delete(key);
    return undefined;
  }

  /** Records that a request of the session went to `target`. Does not bind ids that are too long. */
  began(sessionId: string, target: RankId, cacheTtlMs = 0, set = ''): void {
    if (Buffer.byteLength(sessionId) > ID_BYTES_MAX) return;
    const key = keyOf(sessionId, set);
    const binding = this.#bindings.get(key) ?? { target, ttlMs: 0, requests: 0, idleSinceMs: 0 };
    binding.ttlMs = Math.max(this.#ttlMs, cacheTtlMs);
    binding.target = target;
    binding.requests++;
    this.#bindings.set(key, binding);
  }

  /** Records that a request of the session ended, in any way. The idle time starts again. */
  ended(sessionId: string, set = ''): void {
    const binding = this.#bindings.get(keyOf(sessionId, set));
    if (binding === undefined) return;
    binding.requests = Math.max(0, binding.requests - 1);
    binding.idleSinceMs = this.#clock.nowMs();
  }

  /** Drops the binding after the worker is gone or failed the session's request. */
  unbind(sessionId: string, set = ''): void {
    this.#bindings.delete(keyOf(sessionId, set));
  }
}

function keyOf(sessionId: string, set: string): string {
  return `${set} ${sessionId}`;
}
