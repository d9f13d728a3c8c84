import { randomUUID } from 'node:crypto';
import { seededRandom, type TimeAndChance } from '../clock/index.ts';
import { u64OfHex } from '../records/index.ts';
import { openRouterFiles } from '../routing/index.ts';
import { kvRouterConfigOf } from '../scheduler/index.ts';
import type { Logger } from '../telemetry/index.ts';
import { type BodyFields, promptOf, ServiceError } from './body-fields.ts';
import { dumpPools, potentialLoadJson } from './pools.ts';
import { zmqListeners } from './rank-listeners.ts';
import { openReplicas, Peers, peerRoutes } from './replicas.ts';
import { placeOf, select, sessionOf } from './select.ts';
import { readWorker, type SelectionPool } from './selection-pool.ts';
import { type Selection, SelectionService } from './selections.ts';
import {
  type Answer,
  createServiceApp,
  OK,
  type Route,
  type RunningService,
  route,
  type ServiceCall,
  type ServiceSettings,
} from './service.ts';

/** Interval at which dropped blocks are freed, in slices of less than 1 ms, and queues are checked. */
const HOUSEKEEPING_MS = 100;
/** Interval of the check for requests that were never freed. */
const EXPIRY_CHECK_MS = 60_000;

/** Starts the selection service. */
export async function startSelectionService(
  settings: ServiceSettings,
  { clock, random }: TimeAndChance,
  logger: Logger,
): Promise<RunningService> {
  const { policies, prefillDuration } = await openRouterFiles(settings);
  const { routerSessionAffinityTtlSecs: affinitySecs, routerSessionAffinityMode: affinityMode } = settings;
  const replicas = await openReplicas(settings, clock, logger);
  const service = new SelectionService({
    config: kvRouterConfigOf(settings, policies?.settings),
    policies,
    prefillDuration,
    indexBytesMax: settings.indexMaxMb * 2 ** 20,
    openListener: zmqListeners(logger),
    ...(affinitySecs === undefined ? {} : { sessionAffinity: { ttlMs: affinitySecs * 1000, mode: affinityMode } }),
    replicas: replicas.pools,
    clock,
    random: settings.routerSeed === undefined ? random : seededRandom(settings.routerSeed),
    logger,
  });
  const peers = new Peers(settings.servicePeers, replicas.pools.peerObserver);
  const timers = [
    clock.every(HOUSEKEEPING_MS, () => service.housekeep()),
    clock.every(EXPIRY_CHECK_MS, () => service.expire()),
  ];
  const routes = selectionRoutes({ service, peers, nowMs: () => clock.nowMs() });
  return {
    app: createServiceApp({ routes, errorForm: 'json', clock, logger }),
    port: 8092,
    close: async () => {
      for (const timer of timers) timer.cancel();
      await service.close();
      await replicas.close();
    },
  };
}

export interface SelectionRoutesOptions {
  readonly service: SelectionService;
  readonly peers: Peers;
  /** Time of the scheduler's clock. */
  readonly nowMs: () => number;
}

/** Returns the HTTP routes of the selection service. */
export function selectionRoutes({ service, peers, nowMs }: SelectionRoutesOptions): Route[] {
  const get = (path: string, read: () => unknown): Route => route('GET', path, () => ({ status: 200, json: read() }));
  const asked = (path: string, read: (pool: SelectionPool, body: BodyFields) => unknown): Route =>
    route('POST', path, async (call) => {
      const body = await call.body();
      return { status: 200, json: read(service.poolOf(...placeOf(body)), body) };
    });
  return [
    ...workerRoutes(service),
    route('POST', '/select', (call) => select(service, call, nowMs(), false)),
    route('POST', '/select_and_reserve', (call) => select(service, call, nowMs(), true)),
    ...reservationRoutes(service),
    get('/loads', () => [...service.pools].flatMap(loadRows)),
    asked('/potential_loads', potentialRows),
    asked('/overlap_scores', (pool, body) => pool.overlapScores(promptOf(body, pool.blockSizeTokens).hashes)),
    route('GET', '/dump', () => ({ status: 200, pieces: dumpPools(service.pools), contentType: 'application/json' })),
    get('/health', () => OK),
    route('GET', '/ready', () => {
      if (!service.isReady) throw new ServiceError(503, 'no worker is schedulable');
      return { status: 200, json: { status: 'ready' } };
    }),
    ...peerRoutes('/replica_sync', peers),
  ];
}

/** Returns the routes of workers. The worker's id is in the path or in the body. */
function workerRoutes(service: SelectionService): Route[] {
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

function reservationRoutes(service: SelectionService): Route[] {
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

function idOf(decimal: string): string {
  const id = /^\d{1,20}$/.test(decimal) ? BigInt(decimal) : -1n;
  if (id < 0n || id >= 1n << 64n) throw new ServiceError(400, `worker id ${decimal} is not a u64`);
  return id.toString(16);
}

function unknownWorker(id: string): never {
  throw new ServiceError(404, `worker ${u64OfHex(id)} is not known`);
}

/** Books an earlier choice, or one that the caller made. */
function reserve(service: SelectionService, body: BodyFields): Answer {
  const selectionId = body.optionalText('selection_id');
  const selection = body.has('worker_id') ? explicitSelection(service, body) : cachedSelection(service, body);
  const id = selectionId ?? randomUUID();
  service.reserve(id, selection);
  const { model, group, workerId, dpRank } = selection;
  const names = { selection_id: id, model_name: model, routing_group: group };
  return { status: 201, json: { ...names, worker_id: u64OfHex(workerId), dp_rank: dpRank } };
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
  const sessionId = sessionOf(body);
  return { model, group, workerId, dpRank, prompt, uncachedTokens, expectedOutputTokens, sessionId };
}

function loadRows({ model, group, scheduler }: SelectionPool): readonly unknown[] {
  return scheduler.loads().map((row) => ({
    model_name: model,
    routing_group: group,
    worker_id: u64OfHex(row.workerId),
    dp_rank: row.dpRank,
    active_prefill_tokens: row.activePrefillTokens,
    active_decode_blocks: row.activeDecodeBlocks,
    active_requests: row.activeRequests,
  }));
}

function potentialRows({ scheduler, blockSizeTokens }: SelectionPool, body: BodyFields): readonly unknown[] {
  const { hashes, tokens } = promptOf(body, blockSizeTokens);
  return scheduler.potentialLoads(hashes, tokens).map(potentialLoadJson);
}
