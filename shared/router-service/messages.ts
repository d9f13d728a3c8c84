import { workerError } from '../errors/index.ts';
import type { RouterConfigOverride, RoutingHints } from '../protocol/index.ts';
import { RecordReader, type UnknownRecord } from '../records/index.ts';
import type { HashedPrompt, PoolRole, RouteRequest, WorkerPool } from '../router/index.ts';
import type { ExplanationRecord, RankLoad } from '../scheduler/index.ts';
import { hashedPrompt } from '../scheduler/index.ts';

/*
 * Records of the router on the request plane, in the names of proto/router.proto. Block hashes are the raw u32 tail of
 * the OPEN frame: first every local hash, then every sequence hash, low half first. So no codec sees a 64-bit integer.
 */

/** Component and endpoints of the resident router in discovery. */
export const ROUTER_COMPONENT = 'router';
/** Instance id of a resident router that callers find only by its address. */
export const WELL_KNOWN_INSTANCE = 'resident';
export const CHOOSE_ENDPOINT = 'choose';
export const RELEASE_ENDPOINT = 'release';
export const LOADS_ENDPOINT = 'loads';
export const EXPLAIN_ENDPOINT = 'explain';

/**
 * Reads records. A fault is not the client's mistake: the two ends have different versions. The caller then decides
 * without the other end.
 */
const read = new RecordReader((what) => workerError('BackendProtocol', what));

const ROLES: readonly PoolRole[] = ['aggregated', 'prefill', 'decode'];
const WORDS_PER_BLOCK = 4;

/** Body of a question that only probes the router, which accepts and ends it. */
export const PROBE_BODY = { probe: true } as const;

export function isProbe(body: unknown): boolean {
  return read.record(body, 'message').probe === true;
}

/** Returns record and tail of a query. */
export function encodeQuery(query: ChooseQuery): { readonly body: UnknownRecord; readonly tokenIds: Uint32Array } {
  const { poolKey, role, blockSizeTokens, prompt, routing, override, excluded, avoided, policyClass } = query;
  const { local, sequence } = prompt.hashes;
  const tail = new Uint32Array(local.length + sequence.length);
  tail.set(local);
  tail.set(sequence, local.length);
  return {
    body: {
      pool_key: poolKey,
      role,
      block_size_tokens: blockSizeTokens,
      prompt_tokens: prompt.tokens,
      routing,
      ...(override === undefined ? {} : { override }),
      ...(excluded.size === 0 ? {} : { excluded: [...excluded] }),
      ...(avoided.size === 0 ? {} : { avoided: [...avoided] }),
      ...(policyClass === undefined ? {} : { policy_class: policyClass }),
    },
    tokenIds: tail,
  };
}

/** @throws ServeError for a record that is not a query */
export function decodeQuery(requestId: string, body: unknown, tail: Uint32Array | undefined): ChooseQuery {
  const fields = read.record(body, 'message');
  const { role, override, policy_class: policyClass } = fields;
  if (requestId === '') throw read.refuse(requestId, 'request_id', 'a text that is not empty');
  if (!ROLES.some((known) => known === role)) throw read.refuse(role, 'role', ROLES.join(', '));
  return {
    requestId,
    poolKey: read.text(fields.pool_key, 'pool_key'),
    role: role as PoolRole,
    blockSizeTokens: read.wholeNumber(fields.block_size_tokens, 'block_size_tokens'),
    prompt: {
      tokens: read.wholeNumber(fields.prompt_tokens, 'prompt_tokens'),
      hashes: splitTail(tail ?? new Uint32Array(0)),
    },
    routing: read.record(fields.routing ?? {}, 'routing') as RoutingHints, // a frontend made it, and checked it
    override: override === undefined ? undefined : (read.record(override, 'override') as RouterConfigOverride),
    excluded: new Set(read.texts(fields.excluded ?? [], 'excluded')),
    avoided: new Set(read.texts(fields.avoided ?? [], 'avoided')),
    policyClass: policyClass === undefined ? undefined : read.text(policyClass, 'policy_class'),
  };
}

export function encodeQueued(position: number): UnknownRecord {
  return { queued: { position } };
}

export function encodeDecision(chosen: ChosenWorker): UnknownRecord {
  const { workerId, dpRank, overlapBlocks, cachedTokens, reservationId } = chosen;
  return {
    decision: {
      worker_id: workerId,
      ...(dpRank === undefined ? {} : { dp_rank: dpRank }),
      overlap_blocks: overlapBlocks,
      cached_tokens: cachedTokens,
      reservation_id: reservationId,
    },
  };
}

/** One message of an answer. */
export type ChooseMessage =
  | {
      readonly kind: 'queued';
      /** Number of queries that wait before it, for tests. */
      readonly position: number;
    }
  | { readonly kind: 'decision'; readonly chosen: ChosenWorker };

/** @throws ServeError for a record that is not an answer */
export function decodeMessage(body: unknown): ChooseMessage {
  const { queued, decision } = read.record(body, 'message');
  if (queued !== undefined)
    return { kind: 'queued', position: read.wholeNumber(read.record(queued, 'queued').position, 'position') };
  const fields = read.record(decision, 'decision');
  return {
    kind: 'decision',
    chosen: {
      workerId: read.text(fields.worker_id, 'worker_id'),
      reservationId: read.text(fields.reservation_id, 'reservation_id'),
      dpRank: fields.dp_rank === undefined ? undefined : read.wholeNumber(fields.dp_rank, 'dp_rank'),
      overlapBlocks: read.wholeNumber(fields.overlap_blocks, 'overlap_blocks'),
      cachedTokens: read.wholeNumber(fields.cached_tokens, 'cached_tokens'),
    },
  };
}

export function encodeChange(change: ReservationChangeQuery): UnknownRecord {
  const { requestId, reservationId, stage, outputTokens = 0 } = change;
  const record = { request_id: requestId, reservation_id: reservationId, stage };
  return outputTokens === 0 ? record : { ...record, output_tokens: outputTokens };
}

/** @throws ServeError for a record that is not a change */
export function decodeChange(body: unknown): ReservationChangeQuery {
  const fields = read.record(body, 'message');
  const { request_id: requestId, reservation_id: reservationId, stage, output_tokens: outputTokens = 0 } = fields;
  if (stage !== 'end' && stage !== 'prefill_done') throw read.refuse(stage, 'stage', 'end or prefill_done');
  return {
    requestId: read.text(requestId, 'request_id'),
    reservationId: read.text(reservationId, 'reservation_id'),
    stage,
    outputTokens: read.wholeNumber(outputTokens, 'output_tokens'),
  };
}

/** Returns the hashes of a tail; each half is a view of it. @throws ServeError for a tail of a wrong length */
function splitTail(tail: Uint32Array): ChooseQuery['prompt']['hashes'] {
  if (tail.length % WORDS_PER_BLOCK !== 0)
    throw workerError('BackendProtocol', 'block hashes must be as many local as sequence hashes');
  const half = tail.length / 2;
  return { local: tail.subarray(0, half), sequence: tail.subarray(half) };
}

/** One question to a resident router: which worker takes this request? */
export interface ChooseQuery {
  readonly requestId: string;
  /** `WorkerPool.key`, on which both sides must agree. */
  readonly poolKey: string;
  readonly role: PoolRole;
  /** Block size with which the prompt was hashed. A resident with another one cannot answer. */
  readonly blockSizeTokens: number;
  readonly prompt: HashedPrompt;
  readonly routing: RoutingHints;
  readonly override: RouterConfigOverride | undefined;
  /** Workers that failed the request. */
  readonly excluded: ReadonlySet<string>;
  /** Workers to skip while another is left. */
  readonly avoided: ReadonlySet<string>;
  readonly policyClass: string | undefined;
  /**
   * Header that names the caller's span. It is sent beside the record, and the service takes it from the caller.
   * @default the caller has no span
   */
  readonly traceparent?: string | undefined;
}

/** A decision with the place that it holds. */
export interface ChosenWorker {
  /** Instance id, lower-case hex. */
  readonly workerId: string;
  readonly dpRank: number | undefined;
  readonly overlapBlocks: number;
  readonly cachedTokens: number;
  /** Id of this place, hex. The release of an earlier place of the same request does not end this one. */
  readonly reservationId: string;
}

/** Stage of a request with a reservation. `prefill_done`: its first token has come. */
export type ReservationStage = 'prefill_done' | 'end';

/** Change of a reservation, from its caller. */
export interface ReservationChangeQuery {
  readonly requestId: string;
  readonly reservationId: string;
  readonly stage: ReservationStage;
  /** Tokens of the answer of a request that has ended. The router learns from them. @default 0 = unknown */
  readonly outputTokens?: number;
}

/** Load of one worker set. */
export interface PoolLoads {
  readonly model: string;
  readonly poolKey: string;
  readonly role: PoolRole;
  readonly pendingRequests: number;
  readonly pendingPromptTokens: number;
  readonly loads: readonly RankLoad[];
}

/** A worker set as the resident's process sees it. */
export interface PresentPool {
  readonly pool: WorkerPool;
  /** Its workers above the busy limits of their model. @default none */
  readonly busy?: ReadonlySet<string> | undefined;
}

/** A caller, as the service sees it. */
export interface ChooseCaller {
  /** Whether it has left: its connection is gone, or it has cancelled. */
  readonly hasLeft: boolean;
  /**
   * Signal that aborts when it leaves. Created at the first read, because few queries wait and a signal costs
   * microseconds.
   */
  readonly left: AbortSignal;
  /** Header that names its span. @default it has no span */
  readonly traceparent?: string | undefined;
  /** Hears that its query waits, and how many are ahead of it. Called once, and not if it need not wait. */
  queued(position: number): void;
}

/** The resident router, without the transport of its answers. */
export interface ChooseService {
  /** Whether this process answers `choose`; for health checks of the router by name. */
  readonly isLeader: boolean;
  /**
   * Asks for a worker. Rejects with a `ServeError`, also if the caller has left before the decision; then nothing is
   * reserved.
   */
  choose(query: ChooseQuery, caller: ChooseCaller): Promise<ChosenWorker>;
  /** Updates or ends a reservation. Idempotent; ignores an unknown one. */
  release(change: ReservationChangeQuery): void;
  loads(): readonly PoolLoads[];
  /** Returns the explanation of the decision for a request, if it was one of the last. */
  explained(requestId: string): ExplanationRecord | undefined;
  /** Explains the decision that would be made now. @throws ServeError as `choose` fails */
  explain(query: ChooseQuery): ExplanationRecord;
}

const NO_WORKERS: ReadonlySet<string> = new Set();

/** Returns the query for a request. @param avoided replaces the request's own */
export function queryOf(request: RouteRequest, avoided = request.avoided ?? NO_WORKERS): ChooseQuery {
  const { id: requestId, pool, routing, override, excluded, policyClass, traceparent } = request;
  const { key: poolKey, role, blockSizeTokens } = pool;
  const prompt = hashedPrompt(request);
  const said = { requestId, poolKey, role, blockSizeTokens, prompt, routing, override, excluded, avoided, policyClass };
  return traceparent === undefined ? said : { ...said, traceparent };
}
