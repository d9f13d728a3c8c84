import { BlockIndex } from '../../../shared/block-index/index.ts';
import { seededRandom } from '../../../shared/clock/index.ts';
import type { PlaneServer, RequestPlane } from '../../../shared/planes/index.ts';
import type { RoutableWorker, RouteRequest, WorkerPool } from '../../../shared/router/index.ts';
import type { ResidentServiceOptions } from '../../../shared/router-service/choose-service.ts';
import { type ResidentAddress, ResidentService, serveRouterOnPlane } from '../../../shared/router-service/index.ts';
import { KvRouter } from '../../../shared/scheduler/index.ts';
import { type KvRouterConfig, kvRouterConfig } from '../../../shared/scheduler/kv-config.ts';
import { hashBlocks } from '../../../shared/tokens/index.ts';
import { createMemoryRequestPlane } from '../../support/memory-request-plane.ts';
import type { VirtualClock } from '../../support/virtual-clock.ts';

export const BLOCK = 16;
export const POOL: WorkerPool = { key: 'sum', model: 'm', role: 'aggregated', blockSizeTokens: BLOCK };
export const NEVER = new AbortController().signal;

export function worker(id: string, more: Partial<RoutableWorker> = {}): RoutableWorker {
  return { id, dataParallelStartRank: 0, dataParallelSize: 1, deviceType: undefined, taints: [], ...more };
}

export const WORKERS = [worker('a', { maxNumBatchedTokens: 1000 }), worker('b', { maxNumBatchedTokens: 1000 })];

/** Tokens that no prompt of another `seed` shares. */
export function prompt(tokens: number, seed = 0): Uint32Array {
  return Uint32Array.from({ length: tokens }, (_, at) => seed * 1_000_000 + at);
}

export function request(id: string, tokenIds: Uint32Array, more: Partial<RouteRequest> = {}): RouteRequest {
  return { id, pool: POOL, routing: {}, override: undefined, tokenIds, excluded: new Set(), ...more };
}

/** Lets everything happen that needs no time: messages of the memory plane, promises behind them. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** A resident router on a memory plane: the real service, router and index under a virtual clock. */
export class Resident {
  readonly kv: KvRouter;
  readonly service: ResidentService;
  readonly address: ResidentAddress;
  readonly server: PlaneServer;
  isLeader = true;

  private constructor(
    clock: VirtualClock,
    server: PlaneServer,
    instanceId: string,
    workers: readonly RoutableWorker[],
    costModel: KvRouterConfig['costModel'],
    more: Partial<ResidentServiceOptions>,
  ) {
    this.kv = new KvRouter({
      config: kvRouterConfig({ queueThreshold: 0, costModel }),
      clock,
      random: seededRandom(3),
      indexFor: (_, ranks) => new BlockIndex({ ranks }),
    });
    this.service = new ResidentService({
      router: this.kv,
      kv: this.kv,
      clock,
      random: seededRandom(5),
      findPool: (key, role) => (key === POOL.key && role === POOL.role ? { pool: POOL } : undefined),
      isLeader: () => this.isLeader,
      ...more,
    });
    this.server = server;
    const endpoints = serveRouterOnPlane(server, { instanceId, namespace: 'ns' }, this.service);
    const transportOf = (name: string) => endpoints.find(({ endpoint }) => endpoint === name)!.transport;
    this.address = {
      instanceId,
      choose: transportOf('choose'),
      release: transportOf('release'),
      explain: transportOf('explain'),
    };
    this.kv.setWorkers(POOL, workers);
  }

  static async open(
    clock: VirtualClock,
    plane: RequestPlane = createMemoryRequestPlane({ clock }),
    {
      instanceId = '1',
      workers = WORKERS,
      costModel = 'dynamo',
      ...more
    }: Partial<ResidentServiceOptions> & {
      instanceId?: string;
      workers?: readonly RoutableWorker[];
      costModel?: KvRouterConfig['costModel'];
    } = {},
  ): Promise<Resident> {
    return new Resident(clock, await plane.serve({ instanceId }), instanceId, workers, costModel, more);
  }

  /** The worker has cached the prompt, as its events would tell. */
  store(workerId: string, tokens: Uint32Array): void {
    const [{ index, ranks }] = this.kv.pools as [KvRouter['pools'][number]];
    const { local, sequence } = hashBlocks(tokens, { blockSizeTokens: BLOCK });
    (index as BlockIndex).stored(ranks.intern(workerId, 0), 'device', undefined, sequence, local);
  }

  /** Requests that the router counts at a worker, and their prompt tokens still to compute. */
  loadOf(workerId: string): { readonly requests: number; readonly prefill: number } {
    const [{ scheduler }] = this.kv.pools as [KvRouter['pools'][number]];
    const load = scheduler.loads().find((row) => row.workerId === workerId);
    return { requests: load?.activeRequests ?? 0, prefill: load?.activePrefillTokens ?? 0 };
  }

  get pending(): number {
    return this.kv.pools[0]?.scheduler.pendingRequests ?? 0;
  }
}
