import type { Clock, Random, Timer } from '../../clock/index.ts';
import type { CallSink, RequestPlane } from '../../planes/index.ts';
import { type EngineRequest, encodeEngineRequest, healthCheckRequest } from '../../protocol/index.ts';
import type { RoutableModel, Worker } from '../models/routable-model.ts';
import { isSameProcess } from '../models/worker-sets.ts';
import type { WorkerObserver } from '../pipeline.ts';

/** The outcome of a canary. `taken`: the worker has accepted it, but its engine has sent nothing. */
export type Canary = 'passed' | 'taken' | 'failed';

/** Sends one canary to a worker. Returns undefined if none can be made for the model; never rejects. */
export type Probe = (worker: Worker, model: RoutableModel) => Promise<Canary> | undefined;

interface StalledWorkersOptions {
  readonly clock: Clock;
  readonly probe: Probe;
  /** Pause between two canaries to a worker. */
  readonly pauseMs: number;
  /** Returns whether discovery still lists the worker at its address. If it does not, the worker is forgotten. */
  isListed(worker: Worker): boolean;
  /** Called when a worker may take requests again. */
  onRecovered(): void;
  readonly observer: Partial<WorkerObserver>;
}

/** The workers that are stalled now. */
export interface Stalled {
  readonly size: number;
  /** Returns whether a worker is stalled. A standby that takes over the id of a stalled worker is not. */
  has(worker: Worker): boolean;
}

/**
 * Workers that get no new request until a canary passes.
 *
 * | State | add | canary passes | canary fails | gone from discovery |
 * |---|---|---|---|---|
 * | fine | stalled, canary sent | - | - | - |
 * | stalled | - | fine | canary again after the pause | forgotten |
 */
export class StalledWorkers implements Stalled {
  readonly #options: StalledWorkersOptions;
  /** Workers by id, of two processes with one id the latest. Bounded by the workers in discovery. */
  readonly #workers = new Map<string, Worker>();
  readonly #pauses = new Set<Timer>();
  #isClosed = false;

  constructor(options: StalledWorkersOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#workers.size;
  }

  /** Ids of the workers, for tests. */
  get ids(): ReadonlySet<string> {
    return new Set(this.#workers.keys());
  }

  has(worker: Worker): boolean {
    const stalled = this.#workers.get(worker.id);
    return stalled !== undefined && isSameProcess(stalled, worker);
  }

  /** Notes a worker as stalled. Does nothing if no canary can be made, because no canary could then clear it. */
  add(worker: Worker, model: RoutableModel): void {
    if (this.#isClosed || this.has(worker)) return;
    // The standby that has taken over the id is stalled, too, and stays noted
    if (this.#workers.has(worker.id) && !this.#options.isListed(worker)) return;
    const probing = this.#options.probe(worker, model);
    if (probing === undefined) return;
    this.#workers.set(worker.id, worker);
    this.#options.observer.workerStalled?.(model.primaryName, worker.id);
    void this.#follow(worker, model, probing);
  }

  /** Sends no more canaries. */
  close(): void {
    this.#isClosed = true;
    for (const pause of this.#pauses) pause.cancel();
  }

  async #follow(worker: Worker, model: RoutableModel, first: Promise<Canary>): Promise<void> {
    const { probe, observer, isListed, onRecovered } = this.#options;
    let probing: Promise<Canary> | undefined = first;
    while (probing !== undefined && isListed(worker)) {
      const hasPassed = (await probing) === 'passed';
      if (this.#isClosed) return;
      observer.canary?.(hasPassed ? 'passed' : 'failed');
      if (hasPassed) break;
      await this.#pause();
      probing = probe(worker, model);
    }
    if (this.has(worker)) this.#workers.delete(worker.id);
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
  /** Returns the token with which texts of the model begin, if it is known. @default unknown for all models */
  bosTokenOf?(model: RoutableModel): Promise<number | undefined>;
  readonly plane: RequestPlane;
  readonly clock: Clock;
  readonly random: Random;
  /** Longest time until the first output. */
  readonly timeoutMs: number;
}

/** Returns a probe that sends requests for one token over the request plane. */
export function canaryProbe(options: CanaryOptions): Probe {
  const { random, bosTokenOf } = options;
  return (worker, model) => {
    const { card } = model;
    const probed = { model: card.display_name, input: card.model_input, types: card.model_type };
    const request = (bosTokenId?: number) => healthCheckRequest(`canary-${random.uuid()}`, { ...probed, bosTokenId });
    if (request() === undefined) return undefined;
    const unknown = (): undefined => undefined; // the code that tries to load the model has logged the failure
    const known = card.model_input === 'Tokens' && bosTokenOf !== undefined;
    const asked = known ? bosTokenOf(model).catch(unknown).then(request) : Promise.resolve(request());
    return asked.then((canary) => (canary === undefined ? 'failed' : sendCanary(worker, canary, options)));
  };
}

function sendCanary(worker: Worker, request: EngineRequest, { plane, clock, timeoutMs }: CanaryOptions) {
  const sent = { id: request.id, headers: {}, deadlineMs: timeoutMs, ...encodeEngineRequest(request) };
  return new Promise<Canary>((resolve) => {
    const settle = (canary: Canary): void => {
      timer.cancel();
      resolve(canary);
    };
    let onSilence: Canary = 'failed';
    const sink: CallSink = {
      accepted: () => {
        onSilence = 'taken';
      },
      tokens: () => settle('passed'),
      output: () => settle('passed'),
      end: () => settle('failed'), // without effect after an output
      fail: () => settle('failed'),
    };
    const timer = clock.after(timeoutMs, () => {
      call.kill();
      settle(onSilence);
    });
    const call = plane.call(worker.transport, sent, sink);
  });
}
