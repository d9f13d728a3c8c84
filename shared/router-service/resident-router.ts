import { assertNever } from '../errors/index.ts';
import {
  poolName,
  type Reservation,
  type RoutableWorker,
  type RouteRequest,
  type Router,
  type WorkerPool,
} from '../router/index.ts';
import type { Inhibition } from '../scheduler/index.ts';
import type { Logger, MetricRegistry } from '../telemetry/index.ts';
import { RESERVATION_HEADER } from '../worker-events/index.ts';
import { type ChosenWorker, queryOf, type ReservationStage } from './messages.ts';
import type { ResidentAnswer, ResidentClient, UnansweredReason } from './resident-client.ts';
import type { ResidentLine } from './residents.ts';

/** A router with an index of its own in this process. */
export interface EmbeddedRouter<Worker extends RoutableWorker = RoutableWorker> {
  readonly router: Router<Worker>;
  /** Whether its index is loaded and recent enough for decisions. */
  isFresh(pool: WorkerPool): boolean;
}

export interface ResidentRouterOptions<Worker extends RoutableWorker = RoutableWorker> {
  readonly client: Pick<ResidentClient, 'choose'>;
  /** Router with an index in this process. @default none: a process that is frozen between requests keeps no index */
  readonly embedded?: EmbeddedRouter<Worker> | undefined;
  /** Router that decides if no other can. */
  readonly stateless: Router<Worker>;
  readonly inhibition: Inhibition;
  readonly metrics: FallbackMetrics;
  readonly logger: Logger;
}

/** The workers of a pool, as last set. */
interface ListedPool<Worker> {
  readonly workers: readonly Worker[];
  readonly byId: ReadonlyMap<string, Worker>;
}

/**
 * A router that lets the resident router decide. If that one does not answer, it decides itself:
 *
 *   resident --silent, lost, standby--> embedded index, if fresh --> stateless hashing
 *
 * It starts with the resident for each request, so that the first request after an outage goes there again. A request
 * that the resident rejects fails. A request that the resident does not answer does not fail for that reason.
 */
export class ResidentRouter<Worker extends RoutableWorker = RoutableWorker> implements Router<Worker> {
  readonly mode = 'kv';
  readonly #options: ResidentRouterOptions<Worker>;
  readonly #pools = new Map<string, ListedPool<Worker>>(); // bounded by the models in discovery, two roles each
  #source: DecisionSource | undefined;

  constructor(options: ResidentRouterOptions<Worker>) {
    this.#options = options;
  }

  setWorkers(pool: WorkerPool, workers: readonly Worker[]): void {
    const { embedded, stateless } = this.#options;
    embedded?.router.setWorkers(pool, workers);
    stateless.setWorkers(pool, workers);
    if (this.#pools.get(poolName(pool))?.workers === workers) return;
    this.#pools.set(poolName(pool), { workers, byId: new Map(workers.map((worker) => [worker.id, worker])) });
  }

  removePool(pool: WorkerPool): void {
    const { embedded, stateless } = this.#options;
    embedded?.router.removePool(pool);
    stateless.removePool(pool);
    this.#pools.delete(poolName(pool));
  }

  async choose(request: RouteRequest, signal: AbortSignal): Promise<Reservation<Worker>> {
    const { client, inhibition } = this.#options;
    const workers = this.#pools.get(poolName(request.pool))?.workers ?? [];
    const query = queryOf(request, inhibition.among(workers, request.avoided));
    const { prompt } = query;
    const answer = await client.choose(query, signal);
    const held = this.#take(answer, request);
    if (typeof held === 'object') return held;
    this.#options.metrics.fellBack(held);
    return this.#fallBack(held, { ...request, prompt }, signal);
  }

  /**
   * Returns the reservation from the resident's answer, or the reason why there is none. @throws ServeError if the
   * resident rejects the request
   */
  #take(answer: ResidentAnswer, { id, pool, excluded }: RouteRequest): Reservation<Worker> | FallbackReason {
    switch (answer.kind) {
      case 'rejected':
        this.#decidedBy('resident');
        throw answer.error;
      case 'unanswered':
        return answer.reason;
      case 'decided': {
        const { chosen, line } = answer;
        const worker = this.#pools.get(poolName(pool))?.byId.get(chosen.workerId);
        if (worker === undefined || excluded.has(worker.id)) {
          line.change({ requestId: id, reservationId: chosen.reservationId, stage: 'end' });
          return 'unknown_worker';
        }
        this.#decidedBy('resident');
        return new RemoteReservation(worker, chosen, id, line);
      }
      default:
        return assertNever(answer);
    }
  }

  async #fallBack(reason: FallbackReason, request: RouteRequest, signal: AbortSignal): Promise<Reservation<Worker>> {
    const { embedded, stateless } = this.#options;
    if (embedded?.isFresh(request.pool)) {
      this.#decidedBy('embedded', reason);
      return embedded.router.choose(request, signal);
    }
    this.#decidedBy('stateless', reason);
    return stateless.choose(request, signal);
  }

  /** Counts a decision, and logs each change of the source. */
  #decidedBy(source: DecisionSource, reason?: FallbackReason): void {
    const { metrics, logger } = this.#options;
    metrics.decided(source);
    const before = this.#source;
    if (before === source) return;
    this.#source = source;
    if (source !== 'resident') logger.warn('routing without the resident router', { source, reason });
    else if (before !== undefined) logger.info('the resident router decides again');
  }
}

/** A place that a router in another process holds. */
class RemoteReservation<Worker extends RoutableWorker> implements Reservation<Worker> {
  readonly worker: Worker;
  readonly dpRank: number | undefined;
  readonly overlapBlocks: number;
  readonly cachedTokens: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly #requestId: string;
  readonly #reservationId: string;
  readonly #line: Pick<ResidentLine, 'change'>;
  #stage: ReservationStage | undefined;
  #outputTokens = 0;

  constructor(worker: Worker, chosen: ChosenWorker, requestId: string, line: Pick<ResidentLine, 'change'>) {
    this.worker = worker;
    this.dpRank = chosen.dpRank;
    this.overlapBlocks = chosen.overlapBlocks;
    this.cachedTokens = chosen.cachedTokens;
    this.headers = { [RESERVATION_HEADER]: chosen.reservationId };
    this.#requestId = requestId;
    this.#reservationId = chosen.reservationId;
    this.#line = line;
  }

  prefillDone(): void {
    if (this.#stage === undefined) this.#tell('prefill_done');
  }

  /** Keeps the number for the end: a message for each token would cost more than it is worth. */
  produced(outputTokens: number): void {
    this.#outputTokens = outputTokens;
  }

  release(): void {
    if (this.#stage !== 'end') this.#tell('end');
  }

  #tell(stage: ReservationStage): void {
    this.#stage = stage;
    const outputTokens = stage === 'end' ? this.#outputTokens : 0;
    this.#line.change({ requestId: this.#requestId, reservationId: this.#reservationId, stage, outputTokens });
  }
}

/** Source of a decision. */
export type DecisionSource = 'resident' | 'embedded' | 'stateless';

/** Reason why the resident router did not decide. `unknown_worker`: it chose one that this process does not know. */
export type FallbackReason = UnansweredReason | 'no_resident' | 'unknown_worker';

/** Metrics of a process that asks resident routers. */
export interface FallbackMetrics {
  decided(source: DecisionSource): void;
  fellBack(reason: FallbackReason): void;
}

const SOURCES: readonly DecisionSource[] = ['resident', 'embedded', 'stateless'];
const REASONS: readonly FallbackReason[] = ['no_resident', 'standby', 'lost', 'silent', 'unknown_worker'];

export function createFallbackMetrics(registry: MetricRegistry): FallbackMetrics {
  const decisions = registry.counter(
    'stator_router_decisions_total',
    'Routing decisions by where they were made.',
    'source',
  );
  const fallbacks = registry.counter(
    'stator_router_fallbacks_total',
    'Requests that the resident router did not decide, by reason.',
    'reason',
  );
  const degraded = registry.gauge('stator_router_degraded', '1 while the last decision was not the resident router’s.');
  for (const source of SOURCES) decisions.with(source);
  for (const reason of REASONS) fallbacks.with(reason);
  return {
    decided(source) {
      decisions.with(source).add();
      degraded.with().set(source === 'resident' ? 0 : 1);
    },
    fellBack: (reason) => fallbacks.with(reason).add(),
  };
}
