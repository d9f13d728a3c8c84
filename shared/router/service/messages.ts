import { workerError } from '../../errors/index.ts';
import type { RouterConfigOverride, RoutingHints } from '../../protocol/generation/index.ts';
import { RecordReader, type UnknownRecord } from '../../records/index.ts';
import type { PoolRole } from '../types.ts';
import type { ChooseQuery, ChosenWorker, ReservationChangeQuery } from './types.ts';

/*
 * The router's own records on the request plane, in the names of proto/router.proto. Block hashes are in none of them: they
 * ride as the raw u32 tail of the OPEN frame, first every local hash, then every sequence hash, low half first, so that no
 * 64-bit integer meets a codec.
 */

/** Component and endpoints of the resident router in discovery. */
export const ROUTER_COMPONENT = 'router';
/** Instance under which a resident router is reached by address alone. */
export const WELL_KNOWN_INSTANCE = 'resident';
export const CHOOSE_ENDPOINT = 'choose';
export const RELEASE_ENDPOINT = 'release';
export const LOADS_ENDPOINT = 'loads';
export const EXPLAIN_ENDPOINT = 'explain';

/** Not the client's mistake: the two ends are of different versions. Whoever asked decides without the other. */
const read = new RecordReader((what) => workerError('BackendProtocol', what));

const ROLES: readonly PoolRole[] = ['aggregated', 'prefill', 'decode'];
const WORDS_PER_BLOCK = 4;

/** Body of a question that only sees whether the router is there; it is accepted and ended. */
export const PROBE_BODY = { probe: true } as const;

export function isProbe(body: unknown): boolean {
  return read.record(body, 'message').probe === true;
}

/** Record and tail of a query. */
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

/** @throws ServeError for a record that is no query */
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
    routing: read.record(fields.routing ?? {}, 'routing') as RoutingHints, // made by a frontend, which has checked what clients sent
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
  const { workerId, dpRank, overlapBlocks, cachedTokens, reservationId, headers } = chosen;
  return {
    decision: {
      worker_id: workerId,
      ...(dpRank === undefined ? {} : { dp_rank: dpRank }),
      overlap_blocks: overlapBlocks,
      cached_tokens: cachedTokens,
      reservation_id: reservationId,
      ...(headers === undefined ? {} : { headers }),
    },
  };
}

/** One message of an answer. */
export type ChooseMessage =
  | { readonly kind: 'queued'; readonly position: number }
  | { readonly kind: 'decision'; readonly chosen: ChosenWorker };

/** @throws ServeError for a record that is no answer */
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
      headers: headersOf(fields),
    },
  };
}

export function encodeChange({ requestId, reservationId, stage }: ReservationChangeQuery): UnknownRecord {
  return { request_id: requestId, reservation_id: reservationId, stage };
}

/** @throws ServeError for a record that is no change */
export function decodeChange(body: unknown): ReservationChangeQuery {
  const { request_id: requestId, reservation_id: reservationId, stage } = read.record(body, 'message');
  if (stage !== 'end' && stage !== 'prefill_done') throw read.refuse(stage, 'stage', 'end or prefill_done');
  return {
    requestId: read.text(requestId, 'request_id'),
    reservationId: read.text(reservationId, 'reservation_id'),
    stage,
  };
}

/** Hashes of a tail; each half a view of it. @throws ServeError for a tail of a wrong length */
function splitTail(tail: Uint32Array): ChooseQuery['prompt']['hashes'] {
  if (tail.length % WORDS_PER_BLOCK !== 0)
    throw workerError('BackendProtocol', 'block hashes must be as many local as sequence hashes');
  const half = tail.length / 2;
  return { local: tail.subarray(0, half), sequence: tail.subarray(half) };
}

function headersOf({ headers }: UnknownRecord): ChosenWorker['headers'] {
  if (headers === undefined) return undefined;
  const named = read.record(headers, 'headers');
  if (Object.values(named).every((value) => typeof value === 'string')) return named as Record<string, string>;
  throw read.refuse(headers, 'headers', 'texts by name');
}
