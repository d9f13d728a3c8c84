import { randomUUID } from 'node:crypto';
import { ServeError } from '../../errors/index.ts';
import type { RouterConfigOverride, RoutingConstraints } from '../../protocol/generation/index.ts';
import { RoutingError, type RoutingFailure } from '../routing-error.ts';
import type { Explanation, SchedulingRequest } from '../scheduler-types.ts';
import { type BodyFields, DEFAULT_GROUP } from './body-fields.ts';
import { writeExactJson } from './exact-json.ts';
import { decimalId, type WorkerOverlap } from './overlap-tokens.ts';
import { type Peers, peerRoutes } from './peers.ts';
import { type Prompt, promptOf } from './prompt.ts';
import type { SelectionPool } from './selection-pool.ts';
import type { SelectionService } from './selection-service.ts';
import { DEFAULT_MODEL, readWorker } from './selection-worker.ts';
import type { Selection } from './selections-cache.ts';
import type { Answer, Route, ServiceCall } from './service-app.ts';
import { ServiceError } from './service-error.ts';

const OK = { status: 'ok' };
/** Longest wait for a worker. */
const WAIT_MS_MAX = 600_000;

export interface SelectionRoutesOptions {
  readonly service: SelectionService;
  readonly peers: Peers;
  /** Instant of the scheduler's clock. */
  readonly nowMs: () => number;
}

/** The HTTP surface of the selection service (router.md, section 10.4). */
export function selectionRoutes({ service, peers, nowMs }: SelectionRoutesOptions): Route[] {
  const route = (
    method: Route['method'],
    path: string,
    serve: (call: ServiceCall) => Answer | Promise<Answer>,
  ): Route => ({ method, path, serve });
  const get = (path: string, read: () => unknown): Route => route('GET', path, () => ({ status: 200, json: read() }));
  const asked = (path: string, read: (pool: SelectionPool, body: BodyFields) => unknown): Route =>
    route('POST', path, async (call) => {
      const body = await call.body();
      return { status: 200, json: read(service.poolOf(...placeOf(body)), body) };
    });
  return [
    ...workerRoutes(service, route),
    route('POST', '/select', (call) => select(service, call, nowMs(), false)),
    route('POST', '/select_and_reserve', (call) => select(service, call, nowMs(), true)),
    ...reservationRoutes(service, route),
    get('/loads', () => [...service.pools].flatMap(loadRows)),
    asked('/potential_loads', potentialRows),
    asked('/overlap_scores', (pool, body) => pool.overlapScores(promptOf(body, pool.blockSizeTokens).hashes)),
    route('GET', '/dump', () => ({ status: 200, pieces: dump(service), contentType: 'application/json' })),
    get('/health', () => OK),
    route('GET', '/ready', () => {
      if (!service.isReady) throw new ServiceError(503, 'no worker is schedulable');
      return { status: 200, json: { status: 'ready' } };
    }),
    ...peerRoutes('/replica_sync', peers),
  ];
}

type MakeRoute = (
  method: Route['method'],
  path: string,
  serve: (call: ServiceCall) => Answer | Promise<Answer>,
) => Route;

/** A worker is named in the path or in the body. */
function workerRoutes(service: SelectionService, route: MakeRoute): Route[] {
  const upsert = (body: BodyFields): Answer => {
    const worker = readWorker(body, body.id('worker_id'));
    service.put(worker);
    return { status: 201, json: service.show(worker) };
  };
  const merge = (body: BodyFields, id: string): Answer => {
    const worker = readWorker(body, id, service.workerOf(id) ?? unknownWorker(id));
    service.put(worker);
    return { status: 200, json: service.show(worker) };
  };
  const remove = (id: string): Answer => ({ status: 200, json: service.show(service.remove(id) ?? unknownWorker(id)) });
  return [
    route('POST', '/workers', async (call) => upsert(await call.body())),
    route('PATCH', '/workers', async (call) => {
      const body = await call.body();
      return merge(body, body.id('worker_id'));
    }),
    route('DELETE', '/workers', async (call) => {
      const named = call.query('worker_id');
      return remove(named === undefined ? (await call.body()).id('worker_id') : idOf(named));
    }),
    route('GET', '/workers', () => ({ status: 200, json: [...service.workers].map((each) => service.show(each)) })),
    route('PATCH', '/workers/:id', async (call) => merge(await call.body(), idOf(call.param('id')))),
    route('DELETE', '/workers/:id', (call) => remove(idOf(call.param('id')))),
    route('GET', '/workers/:id', (call) => {
      const id = idOf(call.param('id'));
      return { status: 200, json: service.show(service.workerOf(id) ?? unknownWorker(id)) };
    }),
  ];
}

function reservationRoutes(service: SelectionService, route: MakeRoute): Route[] {
  return [
    route('POST', '/reservations', async (call) => reserve(service, await call.body())),
    route('POST', '/reservations/:id/prefill_complete', (call) => {
      service.prefillComplete(call.param('id'));
      return { status: 200, json: OK };
    }),
    route('POST', '/reservations/:id/output_block', async (call) => {
      service.addOutputBlock(call.param('id'), await decayFraction(call));
      return { status: 200, json: OK };
    }),
    route('DELETE', '/reservations/:id', (call) => {
      service.free(call.param('id'));
      return { status: 200, json: OK };
    }),
  ];
}

async function decayFraction(call: ServiceCall): Promise<number | undefined> {
  const fraction = (await call.optionalBody())?.optionalNumber('decay_fraction');
  if (fraction !== undefined && !(fraction >= 0 && fraction <= 1)) {
    throw new ServiceError(400, `decay_fraction must be from 0 to 1, not ${fraction}`);
  }
  return fraction;
}

function placeOf(body: BodyFields): [model: string, group: string] {
  return [body.optionalText('model_name') ?? DEFAULT_MODEL, body.optionalText('routing_group') ?? DEFAULT_GROUP];
}

function idOf(decimal: string): string {
  const id = /^\d{1,20}$/.test(decimal) ? BigInt(decimal) : -1n;
  if (id < 0n || id >= 1n << 64n) throw new ServiceError(400, `worker id ${decimal} is not a u64`);
  return id.toString(16);
}

function unknownWorker(id: string): never {
  throw new ServiceError(404, `worker ${decimalId(id)} is not known`);
}

/** Chooses a worker, and books it there when `books`. */
async function select(service: SelectionService, call: ServiceCall, nowMs: number, books: boolean): Promise<Answer> {
  const body = await call.body();
  const given = body.optionalText('selection_id');
  const [model, group] = placeOf(body);
  const pool = service.poolOf(model, group);
  const prompt = promptOf(body, pool.blockSizeTokens);
  const id = given ?? randomUUID();
  if (books) service.checkRoom(id);
  // A choice that is not booked must not meet a reservation of its own name.
  const request = requestOf(body, books ? id : randomUUID(), prompt, pool, call, nowMs);
  try {
    const isAdvisory = !books && body.boolean('advisory') === true;
    const made = isAdvisory ? advise(pool, request) : await decide(pool, request, call.signal, books);
    const selection = { model, group, prompt, expectedOutputTokens: request.expectedOutputTokens, ...made.facts };
    if (books) service.booked(id, selection);
    else if (given !== undefined) service.selections.put(given, selection);
    return { status: 200, json: replyOf(service, pool, selection, { ...made.shown, id: books ? id : given, books }) };
  } catch (thrown) {
    throw refusalOf(thrown);
  }
}

/** A choice, and what of it is shown beside its facts. */
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

/** What would be chosen now, whether or not there is room. */
function advise(pool: SelectionPool, request: SchedulingRequest): Made {
  const { chosen, candidates, failure }: Explanation = pool.scheduler.explain(request);
  const row = candidates.find(({ workerId, dpRank }) => workerId === chosen?.workerId && dpRank === chosen.dpRank);
  if (row === undefined) throw new ServiceError(503, failure ?? 'no endpoints available to route work');
  const { workerId, dpRank, activeDecodeBlocks, activePrefillTokens, activeRequests, addedBlocks } = row;
  const { promptTokens, hashes } = request;
  return {
    facts: { workerId, dpRank, uncachedTokens: pool.uncachedTokens(workerId, dpRank, hashes, promptTokens) },
    shown: {
      potentialDecodeBlocks: activeDecodeBlocks + addedBlocks + Math.ceil(promptTokens / pool.blockSizeTokens),
      workerLoad: {
        active_prefill_tokens: activePrefillTokens,
        active_decode_blocks: activeDecodeBlocks,
        active_requests: activeRequests,
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
    pinned: pinned && { workerId: pinned.id('worker_id'), dpRank: pinned.optionalU32('dp_rank') },
    allowedWorkers: allowed && new Set(allowed),
    constraints: constraintsOf(body.optionalObject('routing_constraints')),
    excludedWorkers: pool.draining,
    deadlineMs: nowMs + WAIT_MS_MAX,
  };
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
  return Object.fromEntries(named.filter(([, value]) => value !== undefined)) as RouterConfigOverride; // names are its own
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
    worker_id: decimalId(workerId),
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

/** Books a choice that was made before, or one that the caller made itself. */
function reserve(service: SelectionService, body: BodyFields): Answer {
  const selectionId = body.optionalText('selection_id');
  const selection = body.has('worker_id') ? explicitSelection(service, body) : cachedSelection(service, body);
  const id = selectionId ?? randomUUID();
  service.reserve(id, selection);
  const { model, group, workerId, dpRank } = selection;
  const names = { selection_id: id, model_name: model, routing_group: group };
  return { status: 201, json: { ...names, worker_id: decimalId(workerId), dp_rank: dpRank } };
}

function cachedSelection(service: SelectionService, body: BodyFields): Selection {
  const id = body.text('selection_id');
  const selection = service.selections.take(id);
  if (selection === undefined) throw new ServiceError(404, `selection ${id} is not known`);
  return selection;
}

function explicitSelection(service: SelectionService, body: BodyFields): Selection {
  const [model, group] = placeOf(body);
  const workerId = body.id('worker_id');
  const dpRank = body.optionalU32('dp_rank') ?? service.workerOf(workerId)?.dpStart ?? 0;
  if (service.workerOf(workerId) === undefined) unknownWorker(workerId);
  const pool = service.poolOf(model, group);
  const prompt = promptOf(body, pool.blockSizeTokens);
  const uncachedTokens = pool.uncachedTokens(workerId, dpRank, prompt.hashes, prompt.tokens);
  const expectedOutputTokens = body.optionalCount('expected_output_tokens');
  return { model, group, workerId, dpRank, prompt, uncachedTokens, expectedOutputTokens };
}

/** Status of each reason for which no worker is chosen (router.md, section 2.5). */
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

function loadRows({ model, group, scheduler }: SelectionPool): readonly unknown[] {
  return scheduler.loads().map((row) => ({
    model_name: model,
    routing_group: group,
    worker_id: decimalId(row.workerId),
    dp_rank: row.dpRank,
    active_prefill_tokens: row.activePrefillTokens,
    active_decode_blocks: row.activeDecodeBlocks,
    active_requests: row.activeRequests,
  }));
}

function potentialRows({ scheduler, blockSizeTokens }: SelectionPool, body: BodyFields): readonly unknown[] {
  const { hashes, tokens } = promptOf(body, blockSizeTokens);
  return scheduler.potentialLoads(hashes, tokens).map((row) => ({
    worker_id: decimalId(row.workerId),
    dp_rank: row.dpRank,
    potential_prefill_tokens: row.potentialPrefillTokens,
    potential_decode_blocks: row.potentialDecodeBlocks,
    active_requests: row.activeRequests,
  }));
}

function* dump({ pools }: SelectionService): Generator<string, void, void> {
  let before = '{';
  for (const pool of pools) {
    const name = writeExactJson(`${pool.model}:${pool.group}`);
    yield `${before}${name}:{"block_size":${pool.blockSizeTokens},"events":[`;
    yield* pool.dump();
    yield ']}';
    before = ',';
  }
  yield before === '{' ? '{}' : '}';
}
