import type { EngineLoad } from '../../engines/index.ts';
import type { WorkerMetrics } from '../../telemetry/index.ts';
import type { ServedCall } from './served-call.ts';

export interface AdmissionOptions {
  /** Requests that the engine has at once (`--engine-request-limit`); undefined = no limit. */
  readonly requestLimit: number | undefined;
  /** Requests that wait for one of those to end (`DYN_DYNAMO_REQUEST_QUEUE_LIMIT`). */
  readonly queueLimit: number;
  readonly metrics: Pick<WorkerMetrics, 'atEngine' | 'queued'>;
}

/**
 * Lets so many requests through to the engine at once; so many more wait in the order they came. Whoever asks `hasRoom` before each one turns the rest away.
 *
 * | Request | enters | ends or is cancelled |
 * |---|---|---|
 * | finds a place | to the engine | the oldest that waits goes to the engine |
 * | finds none | waits | forgotten |
 */
export class Admission {
  readonly #options: AdmissionOptions;
  readonly #running = new Set<ServedCall>();
  readonly #waiting = new Set<ServedCall>(); // in order of arrival

  constructor(options: AdmissionOptions) {
    this.#options = options;
  }

  /** Whether one more request may run or wait. */
  get hasRoom(): boolean {
    const { requestLimit, queueLimit } = this.#options;
    return requestLimit === undefined || this.#running.size + this.#waiting.size < requestLimit + queueLimit;
  }

  enter(call: ServedCall): void {
    const { requestLimit = Number.POSITIVE_INFINITY, metrics } = this.#options;
    if (this.#running.size < requestLimit) {
      this.#run(call);
      return;
    }
    this.#waiting.add(call);
    metrics.queued(1);
  }

  /** The request is over, whether it ran, waited or never entered. */
  leave(call: ServedCall): void {
    const { metrics } = this.#options;
    if (this.#waiting.delete(call)) metrics.queued(-1);
    if (!this.#running.delete(call)) return;
    metrics.atEngine(-1);
    const [next] = this.#waiting;
    if (next === undefined) return;
    this.#waiting.delete(next);
    metrics.queued(-1);
    this.#run(next);
  }

  /** `loads` with what waits here, of which the engine knows nothing. */
  countedIn(loads: readonly EngineLoad[]): readonly EngineLoad[] {
    if (this.#waiting.size === 0) return loads;
    return loads.map((load) => {
      const own = [...this.#waiting].filter(({ dpRank }) => dpRank === load.dpRank);
      const tokens = own.reduce((sum, { promptTokens }) => sum + promptTokens, 0);
      return {
        ...load,
        waitingRequests: load.waitingRequests + own.length,
        activePrefillTokens: load.activePrefillTokens + tokens,
      };
    });
  }

  #run(call: ServedCall): void {
    this.#running.add(call);
    this.#options.metrics.atEngine(1);
    call.run();
  }
}
