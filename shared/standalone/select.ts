import { randomUUID } from 'node:crypto';
import { ServeError } from '../errors/index.ts';
import type { RouterConfigOverride, RoutingConstraints } from '../protocol/index.ts';
import { u64OfHex } from '../records/index.ts';
import { RoutingError, type RoutingFailure } from '../router/index.ts';
import type { SchedulingRequest } from '../scheduler/index.ts';
import { type BodyFields, DEFAULT_GROUP, type Prompt, promptOf, ServiceError } from './body-fields.ts';
import type { WorkerOverlap } from './pools.ts';
import { DEFAULT_MODEL, type SelectionPool } from './selection-pool.ts';
import type { Selection, SelectionService } from './selections.ts';
import type { Answer, ServiceCall } from './service.ts';

/** Maximum wait for a worker. */
const WAIT_MS_MAX = 600_000;

/** Returns the model and group that a body names. */
export function placeOf(body: BodyFields): [model: string, group: string] {
  return [body.optionalText('model_name') ?? DEFAULT_MODEL, body.optionalText('routing_group') ?? DEFAULT_GROUP];
}

/** Chooses a worker, and books the request there if `books`. */
export async function select(
  service: SelectionService,
  call: ServiceCall,
  nowMs: number,
  books: boolean,
): Promise<Answer> {
  const body = await call.body();
  const given = body.optionalText('selection_id');
  const [model, group] = placeOf(body);
  const pool = service.poolOf(model, group);
  const prompt = promptOf(body, pool.blockSizeTokens);
  const id = given ?? randomUUID();
  if (books) service.checkRoom(id);
  // The id of a choice that is not booked must not collide with a reservation.
  const request = requestOf(body, books ? id : randomUUID(), prompt, pool, call, nowMs);
  try {
    const isAdvisory = !books && body.boolean('advisory') === true;
    const made = isAdvisory ? advise(pool, request) : await decide(pool, request, call.signal, books);
    const { expectedOutputTokens } = request;
    const selection = { model, group, prompt, expectedOutputTokens, sessionId: sessionOf(body), ...made.facts };
    if (books) service.booked(id, selection);
    else if (given !== undefined) service.selections.put(given, selection);
    return { status: 200, json: replyOf(service, pool, selection, { ...made.shown, id: books ? id : given, books }) };
  } catch (thrown) {
    throw refusalOf(thrown);
  }
}

/** A choice, and the further values that the reply shows. */
interface Made {
  readonly facts: Pick<Selection, 'workerId' | 'dpRank' | 'uncachedTokens'>;
  readonly shown: { readonly potentialDecodeBlocks: number; readonly workerLoad?: unknown };
}

async function decide(
  pool: SelectionPool,
  request: SchedulingRequest,
  signal: AbortSignal,
  books: boolean,
): Promise<Made> {
  const { workerId, dpRank, uncachedTokens, potentialDecodeBlocks } = await pool.choose(request, signal);
  if (!books) pool.scheduler.free(request.id);
  return { facts: { workerId, dpRank, uncachedTokens }, shown: { potentialDecodeBlocks } };
}

/** Returns the worker that would be chosen now, whether or not it has room. */
function advise(pool: SelectionPool, request: SchedulingRequest): Made {
  const { chosen, candidates, failure } = pool.scheduler.explain(request);
  const row = candidates.find((each) => each.worker_id === chosen?.worker_id && each.dp_rank === chosen.dp_rank);
  if (row === undefined) throw new ServiceError(503, failure ?? 'no endpoints available to route work');
  const { worker_id: workerId, dp_rank: dpRank, load } = row;
  const { promptTokens, hashes } = request;
  return {
    facts: { workerId, dpRank, uncachedTokens: pool.uncachedTokens(workerId, dpRank, hashes, promptTokens) },
    shown: {
      potentialDecodeBlocks: load.decode_blocks + load.added_blocks + Math.ceil(promptTokens / pool.blockSizeTokens),
      workerLoad: {
        active_prefill_tokens: load.prefill_tokens,
        active_decode_blocks: load.decode_blocks,
        active_requests: load.requests,
      },
    },
  };
}

function requestOf(
  body: BodyFields,
  id: string,
  { hashes, tokens }: Prompt,
  pool: SelectionPool,
  call: ServiceCall,
  nowMs: number,
): SchedulingRequest {
  const pinned = body.optionalObject('pinned_worker');
  const session = pinned === undefined ? pool.sessionTarget(sessionOf(body)) : undefined;
  const isHard = pool.affinity?.mode === 'hard';
  const asked = pinned && { workerId: pinned.id('worker_id'), dpRank: pinned.optionalU32('dp_rank') };
  const allowed = body.optionalIds('allowed_worker_ids');
  return {
    id,
    promptTokens: tokens,
    hashes,
    override: overrideOf(body.optionalObject('router_config_override')),
    expectedOutputTokens: body.optionalCount('expected_output_tokens'),
    priorityJump: body.optionalNumber('priority_jump'),
    strictPriority: body.optionalU32('strict_priority'),
    policyClass: call.header('x-dynamo-meta-policy-class'),
    pinned: asked ?? (isHard ? session : undefined),
    preferredWorker: isHard ? undefined : session,
    allowedWorkers: allowed && new Set(allowed),
    constraints: constraintsOf(body.optionalObject('routing_constraints')),
    excludedWorkers: pool.draining,
    deadlineMs: nowMs + WAIT_MS_MAX,
  };
}

/** Returns the session that a body names, at the top level or in its context. */
export function sessionOf(body: BodyFields): string | undefined {
  return body.optionalText('session_id') ?? body.optionalObject('session_context')?.optionalText('session_id');
}

const OVERRIDE_NUMBERS = [
  'overlap_score_credit',
  'prefill_load_scale',
  'router_temperature',
  'shared_cache_multiplier',
  'overlap_score_weight',
] as const;
const OVERRIDE_SWITCHES = ['assume_kv_reuse', 'track_prefill_tokens'] as const;

function overrideOf(fields: BodyFields | undefined): RouterConfigOverride | undefined {
  if (fields === undefined) return undefined;
  const named = [
    ...OVERRIDE_NUMBERS.map((name) => [name, fields.optionalNumber(name)] as const),
    ...OVERRIDE_SWITCHES.map((name) => [name, fields.boolean(name)] as const),
  ];
  // the names are those of the type
  return Object.fromEntries(named.filter(([, value]) => value !== undefined)) as RouterConfigOverride;
}

function constraintsOf(fields: BodyFields | undefined): RoutingConstraints | undefined {
  if (fields === undefined) return undefined;
  const [required, preferred] = [fields.optionalTexts('required_taints'), fields.optionalObject('preferred_taints')];
  return {
    ...(required && { required_taints: required }),
    ...(preferred && { preferred_taints: preferred.numbers() }),
  };
}

function replyOf(
  service: SelectionService,
  pool: SelectionPool,
  { model, group, workerId, dpRank, uncachedTokens, prompt }: Selection,
  shown: Made['shown'] & { readonly id: string | undefined; readonly books: boolean },
): unknown {
  const overlap: WorkerOverlap = pool.overlapOf(workerId, prompt.hashes);
  return {
    selection_id: shown.id,
    model_name: model,
    routing_group: group,
    worker_id: u64OfHex(workerId),
    dp_rank: dpRank,
    endpoint: service.workerOf(workerId)?.endpoint ?? null,
    block_size: pool.blockSizeTokens,
    overlap,
    effective_prefill_tokens: uncachedTokens,
    potential_decode_blocks: shown.potentialDecodeBlocks,
    worker_load: shown.workerLoad,
    ...(shown.books && {
      sequence_hashes: signedHashes(prompt.hashes.sequence),
      isl_tokens: prompt.tokens,
      track_prefill_tokens: true,
    }),
  };
}

function signedHashes(pairs: Uint32Array): readonly bigint[] {
  const count = pairs.length >> 1;
  return Array.from({ length: count }, (_, at) =>
    BigInt.asIntN(64, (BigInt(pairs[2 * at + 1]!) << 32n) | BigInt(pairs[2 * at]!)),
  );
}

/** Status of each reason for which no worker is chosen. */
const STATUS_OF: Readonly<Record<RoutingFailure['kind'], ServiceError['status']>> = {
  NoEndpoints: 503,
  PinnedWorkerNotAllowed: 400,
  AllEligibleWorkersOverloaded: 429,
  PinnedWorkerOverloaded: 429,
  QueueRejected: 429,
  DoNotQueue: 429,
  DeadlineExceeded: 429,
  SubscriberShutdown: 503,
  BookingFailed: 409,
};

function refusalOf(thrown: unknown): unknown {
  if (thrown instanceof RoutingError) return new ServiceError(STATUS_OF[thrown.failure.kind], thrown.detail);
  if (thrown instanceof ServeError) return new ServiceError(400, thrown.message); // an override out of range
  return thrown;
}
