import type { EngineRequest, GenerationRequest, GenerationSink } from '../../protocol/index.ts';
import type { Reservation } from '../../router/index.ts';
import type { Worker } from '../models/routable-model.ts';
import type { PrefillStage } from './prefill-stage.ts';
import type { RoutedRequest, RunContext } from './run-context.ts';
import { WorkerEligibility } from './worker-choice.ts';

/** A worker with one of its ranks. */
interface Place {
  readonly worker: Worker;
  /** Data-parallel rank; undefined = the worker chooses. */
  readonly dpRank: number | undefined;
}

/** Places that are reserved for a request which another process sends. */
export interface Placement {
  /** Worker that answers. */
  readonly decode: Place;
  /** Worker that computes the prompt; undefined = the one that answers. */
  readonly prefill: Place | undefined;
  /** Further workers that could answer, none of which is busy. In no order. */
  readonly others: readonly Worker[];
  /** Prompt tokens; undefined = only the worker can count them. */
  readonly promptTokens: number | undefined;
  /** Hears that the first part of the answer has come, so that the prompt is computed. Idempotent. */
  begun(): void;
  /** Gives the places back. Idempotent. */
  release(): void;
}

/** Returns whether a worker may answer a request. */
type Admits = (worker: Worker) => boolean;

export interface PlaceOptions {
  /** Aborts when no client waits for the answer any more. */
  readonly signal: AbortSignal;
  readonly admits: Admits;
}

/** The part of a pipeline that reserves workers for requests which another process sends to them. */
export interface Placer {
  /**
   * Makes the prompt of `request`, and reserves the workers for it. Waits as `Pipeline.generate` does while the model
   * has no worker, or all are busy. Rejects with the ServeError with which `generate` fails, with `service_unavailable`
   * if `admits` admits no worker, and with the signal's reason when it aborts.
   * @param holder identity of the request in the queue of requests that wait for workers
   */
  place(request: GenerationRequest, holder: GenerationSink, options: PlaceOptions): Promise<Placement>;
}

/** Reserves the workers of requests that another process sends to them. */
export class Placing {
  readonly #context: RunContext & { readonly prefill?: PrefillStage | undefined };

  constructor(context: RunContext & { readonly prefill?: PrefillStage | undefined }) {
    this.#context = context;
  }

  /**
   * Reserves a worker for `request`, and before that one for its prompt if the model has prefill workers.
   * Rejects as `Router.choose` does: with `service_unavailable` if `admits` admits no worker.
   */
  async run(request: EngineRequest, routed: RoutedRequest, admits: Admits): Promise<Omit<Placement, 'promptTokens'>> {
    const prefill = await this.#choosePrefill(request, routed);
    try {
      const toDecode = prefill === undefined ? request : this.#context.prefill!.decodeRequest(request, prefill);
      const { pool, workers } = this.#context.poolOf(routed.model);
      const namespace = prefill?.worker.scope.namespace;
      const isOut = (worker: Worker): boolean =>
        !admits(worker) || (namespace !== undefined && worker.scope.namespace !== namespace);
      const eligibility = new WorkerEligibility(this.#context, routed);
      const outside = workers.filter(isOut).map(({ id }) => id);
      const route = eligibility.route(toDecode, { pool, workers }, outside);
      const decode = await eligibility.choose('route', route);
      const others = workers.filter(
        ({ id }) => id !== decode.worker.id && !route.excluded.has(id) && route.busy?.has(id) !== true,
      );
      return placed(decode, prefill, others);
    } catch (thrown) {
      prefill?.release();
      throw thrown;
    }
  }

  /** Reserves a prefill worker. Returns undefined if the worker that answers computes the prompt. */
  async #choosePrefill(request: EngineRequest, routed: RoutedRequest): Promise<Reservation<Worker> | undefined> {
    const { prefill } = this.#context;
    if (prefill === undefined || routed.model.pool.role !== 'decode') return undefined;
    const eligibility = new WorkerEligibility(this.#context, routed);
    const asked = await prefill.asks({ request, routed, eligibility });
    return asked && eligibility.choose('prefill_routing', asked.route);
  }
}

function placed(
  decode: Reservation<Worker>,
  prefill: Reservation<Worker> | undefined,
  others: readonly Worker[],
): Omit<Placement, 'promptTokens'> {
  return {
    decode,
    prefill,
    others,
    begun: () => {
      prefill?.release();
      decode.prefillDone();
    },
    release: () => {
      prefill?.release();
      decode.release();
    },
  };
}
