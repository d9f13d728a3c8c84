import { workerError } from '../../errors/index.ts';
import type { RouterConfigOverride, RoutingHints } from '../../protocol/generation/index.ts';
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

type Fields = Readonly<Record<string, unknown>>;

const ROLES: readonly PoolRole[] = ['aggregated', 'prefill', 'decode'];
const WORDS_PER_BLOCK = 4;

/** Body of a question that only sees whether the router is there; it is accepted and ended. */
export const PROBE_BODY = { probe: true } as const;

export function isProbe(body: unknown): boolean {
  return fieldsOf(body).probe === true;
}

/** Record and tail of a query. */
export function encodeQuery(query: ChooseQuery): { readonly body: Fields; readonly tokenIds: Uint32Array } {
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
  const fields = fieldsOf(body);
  const { pool_key: poolKey, role, policy_class: policyClass } = fields;
  if (requestId === '') throw invalid('request_id', 'a text that is not empty');
  if (typeof poolKey !== 'string') throw invalid('pool_key', 'a text');
  if (!ROLES.some((known) => known === role)) throw invalid('role', ROLES.join(', '));
  if (policyClass !== undefined && typeof policyClass !== 'string') throw invalid('policy_class', 'a text');
  return {
    requestId,
    poolKey,
    role: role as PoolRole,
    blockSizeTokens: wholeNumber(fields, 'block_size_tokens'),
    prompt: { tokens: wholeNumber(fields, 'prompt_tokens'), hashes: splitTail(tail ?? new Uint32Array(0)) },
    routing: fieldsOf(fields.routing ?? {}) as RoutingHints, // made by a frontend, which has checked what clients sent
    override: fields.override === undefined ? undefined : (fieldsOf(fields.override) as RouterConfigOverride),
    excluded: new Set(texts(fields, 'excluded')),
    avoided: new Set(texts(fields, 'avoided')),
    policyClass,
  };
}

export function encodeQueued(position: number): Fields {
  return { queued: { position } };
}

export function encodeDecision(chosen: ChosenWorker): Fields {
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
  const { queued, decision } = fieldsOf(body);
  if (queued !== undefined) return { kind: 'queued', position: wholeNumber(fieldsOf(queued), 'position') };
  const fields = fieldsOf(decision);
  const { worker_id: workerId, reservation_id: reservationId } = fields;
  if (typeof workerId !== 'string' || typeof reservationId !== 'string') throw invalid('decision', 'a worker');
  return {
    kind: 'decision',
    chosen: {
      workerId,
      reservationId,
      dpRank: fields.dp_rank === undefined ? undefined : wholeNumber(fields, 'dp_rank'),
      overlapBlocks: wholeNumber(fields, 'overlap_blocks'),
      cachedTokens: wholeNumber(fields, 'cached_tokens'),
      headers: headersOf(fields),
    },
  };
}

export function encodeChange({ requestId, reservationId, stage }: ReservationChangeQuery): Fields {
  return { request_id: requestId, reservation_id: reservationId, stage };
}

/** @throws ServeError for a record that is no change */
export function decodeChange(body: unknown): ReservationChangeQuery {
  const { request_id: requestId, reservation_id: reservationId, stage } = fieldsOf(body);
  if (typeof requestId !== 'string') throw invalid('request_id', 'a text');
  if (typeof reservationId !== 'string') throw invalid('reservation_id', 'a text');
  if (stage !== 'end' && stage !== 'prefill_done') throw invalid('stage', 'end or prefill_done');
  return { requestId, reservationId, stage };
}

/** Hashes of a tail; each half a view of it. @throws ServeError for a tail of a wrong length */
function splitTail(tail: Uint32Array): ChooseQuery['prompt']['hashes'] {
  if (tail.length % WORDS_PER_BLOCK !== 0) throw invalid('block hashes', 'as many local as sequence hashes');
  const half = tail.length / 2;
  return { local: tail.subarray(0, half), sequence: tail.subarray(half) };
}

function wholeNumber(fields: Fields, name: string): number {
  const value = fields[name];
  if (typeof value === 'number' && Number.isSafeInteger(value) && value >= 0) return value;
  throw invalid(name, 'a whole number');
}

function headersOf({ headers }: Fields): ChosenWorker['headers'] {
  if (headers === undefined) return undefined;
  const named = fieldsOf(headers);
  if (Object.values(named).every((value) => typeof value === 'string')) return named as Record<string, string>;
  throw invalid('headers', 'texts by name');
}

function texts(fields: Fields, name: string): readonly string[] {
  const value = fields[name] ?? [];
  if (Array.isArray(value) && value.every((each) => typeof each === 'string')) return value;
  throw invalid(name, 'a list of texts');
}

function fieldsOf(value: unknown): Fields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields;
  throw invalid('message', 'a record');
}

/** Not the client's mistake: the two ends are of different versions. Whoever asked decides without the other. */
function invalid(field: string, allowed: string): Error {
  return workerError('BackendProtocol', `${field} must be ${allowed}`);
}
