import type { ServeError } from '../../errors/index.ts';
import type { EngineRequest, GenerationRequest, GenerationSink } from '../../protocol/index.ts';
import type { Reservation } from '../../router/index.ts';
import type { Worker } from '../models/routable-model.ts';
import { mediaParts } from '../prompt/prompt-tokens.ts';
import type { Attempt } from './attempt.ts';
import type { EncoderResult, EncodeStage } from './encode-stage.ts';
import type { PrefillCall } from './prefill-call.ts';
import type { PrefillAsk, Prefilled, PrefillStage } from './prefill-stage.ts';
import type { RoutedRequest, RunContext } from './run-context.ts';
import { avoidAfter, WorkerChoice, WorkerEligibility } from './worker-choice.ts';

/** Dependencies that all runs of one pipeline share, with the stages before an attempt. */
export interface RunDeps extends RunContext {
  /** Encodes media on encode workers; undefined = media are encoded where the prompt is computed. */
  readonly encode?: EncodeStage | undefined;
  /** Computes prompts on prefill workers; undefined = prompts are computed where they are decoded. */
  readonly prefill?: PrefillStage | undefined;
}

/** One search: the workers that it may take, and the signal that ends it. */
export interface SearchAsk extends Omit<PrefillAsk, 'request'> {
  readonly choice: WorkerChoice;
}

/** A worker for a request, which has passed its stages; or a whole answer, after which nothing is left to decode. */
export type Found =
  | { readonly kind: 'worker'; readonly request: EngineRequest; readonly reservation: Reservation<Worker> }
  | Extract<Prefilled, { kind: 'whole' }>;

/** A prompt that a prefill worker has computed, or computes at the same time as the decode worker waits for it. */
export type PrefilledAway = Extract<Prefilled, { kind: 'away' }>;

/** Owner of the request. */
export interface SearchOwner {
  /** Called if a prefill worker computes the prompt for `attempt`. */
  prefilledAway(attempt: Attempt, prefilled: PrefilledAway): void;
}

/**
 * Finds workers for one request: its encode worker and its prefill worker, if the fleet has these roles, then the
 * worker that decodes. Remembers the workers that failed the request.
 */
export class WorkerSearch {
  readonly routed: RoutedRequest;
  readonly choice: WorkerChoice;
  readonly #deps: RunDeps;
  readonly #owner: SearchOwner;
  readonly #request: GenerationRequest;
  readonly #prefillers: WorkerEligibility;
  /** Whether this request no longer uses prefill workers. */
  #isWithoutPrefill = false;
  #encoded: Promise<EncoderResult | undefined> | undefined;

  /** @param sink identity of the request in the `ColdStartQueue` */
  constructor(
    deps: RunDeps,
    owner: SearchOwner,
    request: GenerationRequest,
    routed: RoutedRequest,
    sink: GenerationSink,
  ) {
    this.#deps = deps;
    this.#owner = owner;
    this.#request = request;
    this.routed = routed;
    this.choice = new WorkerChoice(deps, routed, sink, request.stream);
    this.#prefillers = new WorkerEligibility(deps, routed);
  }

  /** Whether a prefill worker computes the prompt. */
  get isSplit(): boolean {
    return this.#deps.prefill !== undefined && this.routed.model.pool.role === 'decode' && !this.#isWithoutPrefill;
  }

  /** Finds a worker among those that have not failed the request. Rejects as the stages and `WorkerChoice` do. */
  find(request: EngineRequest, attempt: Attempt, retries: Pick<SearchAsk, 'mayRetry' | 'couldRetry'>): Promise<Found> {
    const { routed, choice } = this;
    return this.findFor(request, attempt, { routed, choice, eligibility: this.#prefillers, ...retries });
  }

  /** Finds a worker as `ask` says. @param attempt the attempt that a prefill belongs to */
  async findFor(request: EngineRequest, attempt: Attempt, ask: SearchAsk): Promise<Found> {
    const prefilled = await this.#prefill(await this.#encode(request), attempt, ask);
    if (prefilled.kind === 'whole') return prefilled;
    const reservation = await ask.choice.choose(prefilled.request, attempt.prefillCall?.worker.scope.namespace);
    return { kind: 'worker', request: prefilled.request, reservation };
  }

  /**
   * Excludes workers after a failure, so that the next search passes over them.
   *
   * @param worker decode worker; undefined = none had been chosen
   * @param lost prefill whose blocks the decode worker could not get
   */
  failedAt(worker: Worker | undefined, error: ServeError, lost: PrefillCall | undefined): void {
    if (lost !== undefined) this.#prefillers.failedAt(lost.worker);
    if (worker === undefined) return;
    avoidAfter(this.#deps, worker, error);
    if (lost === undefined) this.choice.eligibility.failedAt(worker);
    else this.choice.eligibility.handoffLostAt(worker);
  }

  /**
   * Has the decode worker compute the prompt from now on, after a prefill was lost. Returns whether that is possible.
   */
  goWithoutPrefill(error: ServeError): boolean {
    const { prefill, observer } = this.#deps;
    if (this.#isWithoutPrefill || prefill?.isEnforced === true) return false;
    this.#isWithoutPrefill = true;
    observer.decodedAlone?.(this.routed.model.primaryName, error);
    return true;
  }

  /**
   * Has an encode worker encode the media, if there is one. It does so once for all attempts, because the result stays
   * valid when the worker that used it is gone.
   */
  async #encode(request: EngineRequest): Promise<EngineRequest> {
    const { encode } = this.#deps;
    if (encode === undefined || mediaParts(this.#request.prompt) === undefined) return request;
    this.#encoded ??= encode.run(request, this.routed);
    const encoderResult = await this.#encoded;
    return encoderResult === undefined ? request : { ...request, encoderResult };
  }

  /** Has a prefill worker compute the prompt, if there is one. */
  async #prefill(request: EngineRequest, attempt: Attempt, ask: SearchAsk): Promise<Prefilled> {
    const { prefill } = this.#deps;
    if (prefill === undefined || !this.isSplit) return { kind: 'here', request };
    const prefilled = await prefill.run({ ...ask, request });
    if (prefilled.kind !== 'away') return prefilled;
    if (ask.routed.signal.aborted) prefilled.prefillCall.abandon();
    attempt.prefillCall = prefilled.prefillCall;
    this.#owner.prefilledAway(attempt, prefilled);
    return prefilled;
  }
}
