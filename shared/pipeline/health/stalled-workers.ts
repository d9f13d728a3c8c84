import type { Clock, Random, Timer } from '../../clock/index.ts';
import type { CallSink, RequestPlane } from '../../planes/request/index.ts';
import { encodeEngineRequest, healthCheckRequest } from '../../protocol/generation/index.ts';
import type { RoutableModel, Worker } from '../models/model-directory.ts';
import type { PipelineObserver } from '../types.ts';

type Probed = Pick<RoutableModel, 'primaryName' | 'card'>;

/** Sends one canary to a worker. Undefined where none can be made; otherwise resolves with whether it passed. */
export type Probe = (worker: Worker, model: Probed) => Promise<boolean> | undefined;

export interface StalledWorkersOptions {
  readonly clock: Clock;
  readonly probe: Probe;
  /** Pause between two canaries to a worker. */
  readonly pauseMs: number;
  /** Whether discovery still names the worker; one that it does not is forgotten. */
  isListed(workerId: string): boolean;
  /** A worker takes requests again. */
  onRecovered(): void;
  readonly observer: Pick<PipelineObserver, 'workerStalled' | 'workerRecovered' | 'canary'>;
}

/**
 * Workers that get no new request until a canary passes.
 *
 * | State | add | canary passes | canary fails | gone from discovery |
 * |---|---|---|---|---|
 * | fine | stalled, canary sent | - | - | - |
 * | stalled | - | fine | canary again after the pause | forgotten |
 */
export class StalledWorkers {
  readonly #options: StalledWorkersOptions;
  readonly #ids = new Set<string>(); // bounded by the workers in discovery
  readonly #pauses = new Set<Timer>();
  #isClosed = false;

  constructor(options: StalledWorkersOptions) {
    this.#options = options;
  }

  get ids(): ReadonlySet<string> {
    return this.#ids;
  }

  /** Does nothing where no canary could end it. */
  add(worker: Worker, model: Probed): void {
    if (this.#isClosed || this.#ids.has(worker.id)) return;
    const probing = this.#options.probe(worker, model);
    if (probing === undefined) return;
    this.#ids.add(worker.id);
    this.#options.observer.workerStalled?.(model.primaryName, worker.id);
    void this.#follow(worker, model, probing);
  }

  /** Sends no more canaries. */
  close(): void {
    this.#isClosed = true;
    for (const pause of this.#pauses) pause.cancel();
  }

  async #follow(worker: Worker, model: Probed, first: Promise<boolean>): Promise<void> {
    const { probe, observer, isListed, onRecovered } = this.#options;
    let probing: Promise<boolean> | undefined = first;
    while (probing !== undefined && isListed(worker.id)) {
      const hasPassed = await probing; // a probe never rejects
      if (this.#isClosed) return;
      observer.canary?.(hasPassed ? 'passed' : 'failed');
      if (hasPassed) break;
      await this.#pause();
      probing = probe(worker, model);
    }
    this.#ids.delete(worker.id);
    observer.workerRecovered?.(model.primaryName, worker.id);
    onRecovered();
  }

  #pause(): Promise<void> {
    const { clock, pauseMs } = this.#options;
    return new Promise((resolve) => {
      const timer = clock.after(pauseMs, () => {
        this.#pauses.delete(timer);
        resolve();
      });
      this.#pauses.add(timer);
    });
  }
}

interface CanaryOptions {
  readonly plane: RequestPlane;
  readonly clock: Clock;
  readonly random: Random;
  /** Until the first output. */
  readonly timeoutMs: number;
}

/** Probes by one-token requests over the request plane. */
export function canaryProbe({ plane, clock, random, timeoutMs }: CanaryOptions): Probe {
  return (worker, { primaryName, card }) => {
    const probed = { model: primaryName, input: card.model_input, types: card.model_type };
    const request = healthCheckRequest(`canary-${random.uuid()}`, probed);
    if (request === undefined) return undefined;
    const sent = { id: request.id, headers: {}, deadlineMs: timeoutMs, ...encodeEngineRequest(request) };
    return new Promise((resolve) => {
      const settle = (hasPassed: boolean): void => {
        timer.cancel();
        resolve(hasPassed);
      };
      const sink: CallSink = {
        accepted() {},
        tokens: () => settle(true),
        output: () => settle(true),
        end: () => settle(false), // nothing when an output came before
        fail: () => settle(false),
      };
      const timer = clock.after(timeoutMs, () => {
        call.kill();
        settle(false);
      });
      const call = plane.call(worker.transport, sent, sink);
    });
  };
}
