import type { TimeAndChance } from '../clock/index.ts';
import { u64OfHex } from '../records/index.ts';
import type { Logger } from '../telemetry/index.ts';
import { type BodyFields, DEFAULT_GROUP } from './body-fields.ts';
import { potentialLoadJson } from './pools.ts';
import { openReplicas, Peers, peerRoutes } from './replicas.ts';
import { type Answer, createServiceApp, OK, type Route } from './service-app.ts';
import type { RunningService, ServiceSettings } from './service-server.ts';
import { type SlotPool, SlotTracker } from './slot-tracker.ts';

/** Requests that were never freed are looked for this often. */
const EXPIRY_CHECK_MS = 60_000;

/** The slot tracker. */
export async function startSlotTracker(
  settings: ServiceSettings,
  { clock }: TimeAndChance,
  logger: Logger,
): Promise<RunningService> {
  const replicas = await openReplicas(settings, clock, logger);
  const tracker = new SlotTracker({
    clock,
    expiryMs: settings.routerActiveRequestExpirySecs * 1000,
    replicas: replicas.pools,
  });
  const expiry = clock.every(EXPIRY_CHECK_MS, () => tracker.expire());
  const peers = new Peers(settings.servicePeers, replicas.pools.peerObserver);
  return {
    app: createServiceApp({ routes: slotRoutes(tracker, peers), errorForm: 'json', clock, logger }),
    port: 8091,
    close: async () => {
      expiry.cancel();
      tracker.close();
      await replicas.close();
    },
  };
}

/** The HTTP surface of the slot tracker. */
export function slotRoutes(tracker: SlotTracker, peers: Peers): Route[] {
  const post = (path: string, status: number, apply: (body: BodyFields) => unknown): Route => ({
    method: 'POST',
    path,
    serve: async (call) => ({ status, json: apply(await call.body()) ?? OK }),
  });
  const get = (path: string, read: () => unknown): Route => ({
    method: 'GET',
    path,
    serve: (): Answer => ({ status: 200, json: read() }),
  });
  return [
    post('/register', 201, (body) => register(tracker, body)),
    post('/unregister', 200, (body) => tracker.unregister(...placeOf(body), body.id('worker_id'))),
    post('/add', 201, (body) => add(tracker, body)),
    post('/prefill_complete', 200, (body) => {
      const requestId = body.text('request_id');
      tracker.poolOf(...placeOf(body)).prefillComplete(requestId);
    }),
    post('/free', 200, (body) => {
      const requestId = body.text('request_id');
      tracker.poolOf(...placeOf(body)).free(requestId);
    }),
    post('/potential_loads', 200, (body) => potentialLoads(tracker, body)),
    get('/loads', () => loads(tracker)),
    get('/workers', () => workers(tracker)),
    get('/health', () => OK),
    ...peerRoutes('/replica_sync', peers),
  ];
}

function placeOf(body: BodyFields): [model: string, group: string] {
  return [body.text('model_name'), body.optionalText('routing_group') ?? DEFAULT_GROUP];
}

function register(tracker: SlotTracker, body: BodyFields): void {
  tracker.register(...placeOf(body), body.u32('block_size'), {
    id: body.id('worker_id'),
    dpStart: body.optionalU32('dp_start') ?? 0,
    dpSize: body.optionalU32('dp_size') ?? 1,
  });
}

function add(tracker: SlotTracker, body: BodyFields): void {
  const request = {
    requestId: body.text('request_id'),
    workerId: body.id('worker_id'),
    dpRank: body.optionalU32('dp_rank') ?? 0,
    sequence: body.hashes('sequence_hashes'),
    newTokens: body.optionalCount('new_isl_tokens') ?? 0,
  };
  tracker.poolOf(...placeOf(body)).add(request);
}

function potentialLoads(tracker: SlotTracker, body: BodyFields): readonly unknown[] {
  const [sequence, newTokens] = [body.hashes('sequence_hashes'), body.optionalCount('new_isl_tokens') ?? 0];
  return tracker
    .poolOf(...placeOf(body))
    .potentialLoads(sequence, newTokens)
    .map(potentialLoadJson);
}

function loads(tracker: SlotTracker): readonly unknown[] {
  return everyPool(tracker, (names, pool) =>
    pool.loads().map((row) => ({
      ...names,
      worker_id: u64OfHex(row.workerId),
      dp_rank: row.dpRank,
      active_prefill_tokens: row.activePrefillTokens,
      active_decode_blocks: row.activeDecodeBlocks,
    })),
  );
}

function workers(tracker: SlotTracker): readonly unknown[] {
  return everyPool(tracker, (names, pool) =>
    [...pool.workers.values()].map(({ id, dpStart, dpSize }) => ({
      worker_id: u64OfHex(id),
      ...names,
      block_size: pool.blockSizeTokens,
      dp_start: dpStart,
      dp_size: dpSize,
    })),
  );
}

function everyPool(
  { pools }: SlotTracker,
  rowsOf: (names: { readonly model_name: string; readonly routing_group: string }, pool: SlotPool) => unknown[],
): readonly unknown[] {
  return [...pools].flatMap((pool) => rowsOf({ model_name: pool.model, routing_group: pool.group }, pool));
}
