import { LIMITS, overLimit, ServeError } from '../../errors/index.ts';
import type { RoutingHints } from '../generation/engine-request.ts';
import { decodeSession } from './agent-session.ts';
import { type DecodeContext, integerHeader, type Mutable, type RequestHeaders } from './decode-context.ts';
import { decodePriority } from './priority.ts';
import { cacheTtlMs, MOVED_TO_ROOT, type Nvext } from './shared-fields.ts';

const NO_NVEXT: Nvext = Object.freeze({});
/** Marks an unset data-parallel rank. */
const RANK_UNSET = 4_294_967_295;

/** Returns the part of `nvext` that this deployment honours. */
export function effectiveNvext(nvext: Nvext | null | undefined, context: DecodeContext): Nvext {
  if (nvext == null) return NO_NVEXT;
  if (context.settings.isNvextDisabled) {
    context.warn('nvext is disabled (DYN_DISABLE_FRONTEND_NVEXT): only cache_salt is read');
    return nvext.cache_salt == null ? NO_NVEXT : { cache_salt: nvext.cache_salt };
  }
  for (const field of MOVED_TO_ROOT) {
    if (nvext[field] != null) context.warn(`nvext.${field} is deprecated; use the root field \`${field}\``);
  }
  return nvext;
}

/** Checks a salt's length: a salt is a name or a digest, and is hashed as a whole with every prompt. */
function checkSalt(salt: string): string {
  const { max } = LIMITS.salt_characters;
  if (salt.length <= max) return salt;
  const message = `cache_salt has ${salt.length} characters; at most ${max} are allowed`;
  throw overLimit('salt_characters', message, { param: 'cache_salt' });
}

/**
 * Decodes where the request may or should run: `nvext`, then headers, which win.
 * @param cacheKey `prompt_cache_key` of the body, if it has one
 * @throws ServeError `invalid_value` for a rank without a worker, and for a salt of more than 4096 characters.
 */
export function decodeRouting(
  nvext: Nvext,
  rootSalt: string | null | undefined,
  context: DecodeContext,
  cacheKey?: unknown,
): RoutingHints {
  const routing: Mutable<RoutingHints> = {};
  decodePins(nvext, routing);
  const hints = nvext.agent_hints;
  let session = nvext.session_control?.session_id;
  let salt = nvext.cache_salt || rootSalt || undefined; // empty = absent
  if (!context.settings.isNvextDisabled) {
    overridePins(context.headers, routing);
    salt = context.headers.header('x-tenant-id') || salt;
    session = decodeSession(context.headers)?.sessionId ?? session;
  }
  if (hints?.osl != null) routing.expected_output_tokens = hints.osl;
  decodePriority(hints, context, routing);
  if (salt !== undefined) routing.cache_salt = checkSalt(salt);
  // an owner has no blanks, so no other pair makes this text
  if (context.isolation === 'blocks') routing.cache_salt = `${context.owner} ${salt ?? ''}`;
  if (session !== undefined) routing.session_id = session;
  const cacheMs = nvext.cache_control == null ? undefined : cacheTtlMs(nvext.cache_control.ttl);
  if (cacheMs !== undefined) routing.cache_ttl_ms = cacheMs;
  if (typeof cacheKey === 'string' && cacheKey !== '') routing.prompt_cache_key = cacheKey;
  decodeConstraints(nvext, routing);
  requireWorkerForRank(routing);
  return routing;
}

function decodePins(nvext: Nvext, routing: Mutable<RoutingHints>): void {
  if (nvext.backend_instance_id != null) routing.backend_instance_id = toHexId(nvext.backend_instance_id);
  if (nvext.decode_worker_id != null) routing.decode_worker_id = toHexId(nvext.decode_worker_id);
  if (nvext.prefill_worker_id != null) routing.prefill_worker_id = toHexId(nvext.prefill_worker_id);
  if (nvext.dp_rank != null && nvext.dp_rank !== RANK_UNSET) routing.dp_rank = nvext.dp_rank;
  if (nvext.prefill_dp_rank != null && nvext.prefill_dp_rank !== RANK_UNSET) {
    routing.prefill_dp_rank = nvext.prefill_dp_rank;
  }
}

/**
 * Applies the headers. Each header takes precedence over its `nvext` field, the prefixed name over its aliases; values
 * that do not parse are ignored.
 */
function overridePins(headers: RequestHeaders, routing: Mutable<RoutingHints>): void {
  const worker = idHeader(headers, 'x-dynamo-worker-instance-id', 'x-worker-instance-id');
  if (worker !== undefined) {
    routing.backend_instance_id = worker;
    routing.decode_worker_id = worker;
  }
  const prefill = idHeader(headers, 'x-dynamo-prefill-instance-id', 'x-prefill-instance-id');
  if (prefill !== undefined) routing.prefill_worker_id = prefill;
  const rank =
    rankHeader(headers, 'x-dynamo-dp-rank') ??
    rankHeader(headers, 'x-dp-rank') ??
    rankHeader(headers, 'x-data-parallel-rank');
  if (rank !== undefined) routing.dp_rank = rank;
  const prefillRank = rankHeader(headers, 'x-dynamo-prefill-dp-rank') ?? rankHeader(headers, 'x-prefill-dp-rank');
  if (prefillRank !== undefined) routing.prefill_dp_rank = prefillRank;
}

function decodeConstraints(nvext: Nvext, routing: Mutable<RoutingHints>): void {
  const required = nvext.routing_constraints?.required_taints;
  const preferred = nvext.routing_constraints?.preferred_taints;
  const hasRequired = required != null && required.length > 0;
  const hasPreferred = preferred != null && Object.keys(preferred).length > 0;
  if (!hasRequired && !hasPreferred) return;
  routing.routing_constraints = {
    ...(hasRequired ? { required_taints: required } : {}),
    ...(hasPreferred ? { preferred_taints: preferred } : {}),
  };
}

/** Refuses a rank without a worker: a rank names a place inside a worker. */
function requireWorkerForRank(routing: RoutingHints): void {
  if (routing.dp_rank === undefined) return;
  if (routing.backend_instance_id !== undefined || routing.decode_worker_id !== undefined) return;
  throw new ServeError('invalid_value', 'Invalid request', { param: 'nvext.dp_rank' });
}

function toHexId(id: number): string {
  return BigInt(id).toString(16);
}

const DECIMAL_ID = /^\d{1,20}$/;
/** Id as in logs and metrics, with the prefix that distinguishes it from a decimal number. */
const HEX_ID = /^0x[\da-f]{1,16}$/i;

function idHeader(headers: RequestHeaders, name: string, alias: string): string | undefined {
  const text = headers.header(name) ?? headers.header(alias);
  if (text === undefined) return undefined;
  return DECIMAL_ID.test(text) || HEX_ID.test(text) ? BigInt(text).toString(16) : undefined;
}

function rankHeader(headers: RequestHeaders, name: string): number | undefined {
  const rank = integerHeader(headers, name, 0, RANK_UNSET);
  return rank === RANK_UNSET ? undefined : rank;
}
