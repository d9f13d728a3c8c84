import type { Clock } from '../../clock/index.ts';
import type { RouterMetrics } from '../../telemetry/index.ts';
import { type Reservation, type RoutableWorker, type RouteRequest, type Router, withChoose } from '../router.ts';

type RequestMetrics = Pick<RouterMetrics, 'firstToken' | 'tokens' | 'ended'>;

export interface MeteredRouterOptions {
  readonly metrics: RequestMetrics;
  readonly clock: Clock;
  /** A request asks for a worker. */
  onAsked(request: RouteRequest): void;
}

/** `router`, with what becomes of its requests counted. */
export function meterRouter<Worker extends RoutableWorker>(
  router: Router<Worker>,
  { metrics, clock, onAsked }: MeteredRouterOptions,
): Router<Worker> {
  const meter = (reservation: Reservation<Worker>) => new MeteredReservation(reservation, metrics, clock);
  return withChoose(router, (request, signal) => {
    onAsked(request);
    return router.choose(request, signal).then(meter);
  });
}

class MeteredReservation<Worker extends RoutableWorker> implements Reservation<Worker> {
  readonly worker: Worker;
  readonly dpRank: number | undefined;
  readonly overlapBlocks: number;
  readonly cachedTokens: number;
  readonly headers: Readonly<Record<string, string>> | undefined;
  readonly #inner: Reservation<Worker>;
  readonly #metrics: RequestMetrics;
  readonly #clock: Clock;
  /** Decision, then each output. */
  #lastMs: number;
  #outputTokens = 0;
  #isFirst = true;
  #isReleased = false;

  constructor(inner: Reservation<Worker>, metrics: RequestMetrics, clock: Clock) {
    this.worker = inner.worker;
    this.dpRank = inner.dpRank;
    this.overlapBlocks = inner.overlapBlocks;
    this.cachedTokens = inner.cachedTokens;
    this.headers = inner.headers;
    this.#inner = inner;
    this.#metrics = metrics;
    this.#clock = clock;
    this.#lastMs = clock.nowMs();
  }

  prefillDone(): void {
    this.#inner.prefillDone();
    if (!this.#isFirst) return;
    this.#isFirst = false;
    const nowMs = this.#clock.nowMs();
    this.#metrics.firstToken(nowMs - this.#lastMs);
    this.#lastMs = nowMs;
  }

  produced(outputTokens: number): void {
    this.#inner.produced(outputTokens);
    const before = this.#outputTokens;
    this.#outputTokens = outputTokens;
    if (before === 0 || outputTokens <= before) return; // the first output is the first token, however many it brings
    const nowMs = this.#clock.nowMs();
    this.#metrics.tokens(nowMs - this.#lastMs, outputTokens - before);
    this.#lastMs = nowMs;
  }

  release(): void {
    this.#inner.release();
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#metrics.ended(this.#outputTokens);
  }
}
