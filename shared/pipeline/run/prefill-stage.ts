import type { Random } from '../../clock/index.ts';
import { untilAborted } from '../../concurrency/index.ts';
import { ServeError, toServeError, workerError } from '../../errors/index.ts';
import type { BootstrapInfo, EngineOutput, EngineRequest, RoutingHints } from '../../protocol/index.ts';
import type { Reservation, RouteRequest } from '../../router/index.ts';
import {
  BYPASS_ANNOTATION,
  bootstrapRoom,
  decodeOverride,
  outOfReach,
  prefillStop,
  requirePrefillWorker,
  withTransferPolicy,
} from '../../scheduler/index.ts';
import type { PrefillPool, RoutableModel, Worker } from '../models/routable-model.ts';
import { isSameProcess } from '../models/worker-sets.ts';
import { dispatchSpan, traceHeaders } from './attempt.ts';
import { PrefillCall, type PrefillReport } from './prefill-call.ts';
import type { DispatchContext, RoutedRequest } from './run-context.ts';
import type { WorkerEligibility } from './worker-choice.ts';

/** Whether a decode worker should compute the prompt itself (conditional disaggregation). */
export type Bypass = (
  prefill: { readonly request: RouteRequest; readonly workers: readonly Worker[] },
  decode: { readonly request: RouteRequest; readonly workers: readonly Worker[] },
) => Promise<boolean>;

export interface PrefillStageOptions extends DispatchContext {
  readonly random: Random;
  /** Whether a failed prefill fails its request (`--enforce-disagg`). */
  readonly isEnforced: boolean;
  /** Undefined if every prompt goes to a prefill worker. */
  readonly bypasses: Bypass | undefined;
  /** Returns the model as it is now; undefined if another one has its name. */
  modelNow(model: RoutableModel): RoutableModel | undefined;
}

/** One request whose prompt a prefill worker could compute. */
export interface PrefillQuestion {
  readonly request: EngineRequest;
  readonly routed: RoutedRequest;
  /** Prefill workers that may still take it. The stage excludes those that fail the request. */
  readonly eligibility: WorkerEligibility;
}

/** One request whose prompt a prefill worker should compute. */
export interface PrefillAsk extends PrefillQuestion {
  /** Returns whether another prefill worker may be tried after `error`, and if so counts a move. */
  mayRetry(error: ServeError): boolean;
  /** Returns whether another prefill worker may be tried, without counting a move. */
  couldRetry(): boolean;
}

/**
 * The outcome of the stage. `here`: the decode worker computes the prompt. `away`: it fetches the blocks from the
 * prefill worker. `whole`: the answer is complete, and there is nothing to decode.
 */
export type Prefilled =
  | { readonly kind: 'here'; readonly request: EngineRequest }
  | {
      readonly kind: 'away';
      readonly request: EngineRequest;
      readonly prefillCall: PrefillCall;
      readonly report?: PrefillReport;
    }
  | { readonly kind: 'whole'; readonly prefillCall: PrefillCall; readonly outputs: readonly EngineOutput[] };

/**
 * Has prompts computed by prefill workers.
 *
 *     request ──> prefill worker: one token ──(disaggregated_params)──> decode worker: the answer
 *
 *     with a rendezvous:           prefill worker ─┐  both at the same time, with one room;
 *                      request ──> decode worker ──┘  the engines meet there
 */
export class PrefillStage {
  readonly #options: PrefillStageOptions;

  constructor(options: PrefillStageOptions) {
    this.#options = options;
  }

  get isEnforced(): boolean {
    return this.#options.isEnforced;
  }

  /**
   * Runs the stage. Rejects with a ServeError if the request must fail, and with the signal's reason when it aborts.
   */
  async run(ask: PrefillAsk): Promise<Prefilled> {
    const { observer, isEnforced, modelNow } = this.#options;
    const { request, routed } = ask;
    const { model, signal } = routed;
    const prefill = modelNow(model)?.prefill;
    if (prefill === undefined) {
      if (model.card.needs.length === 0) return { kind: 'here', request }; // an adapter that only decode workers have
      if (isEnforced) throw workerError('Unavailable', 'no prefill worker is left');
      observer.decodedAlone?.(model.primaryName);
      return { kind: 'here', request };
    }
    if (!isDivisible(request)) return { kind: 'here', request };
    this.#refuseWhereNobodyDecodes(model);
    if (await this.#isBypassed(ask, prefill)) return { kind: 'here', request: bypassed(request) };
    for (;;) {
      try {
        return await this.#once(ask, prefill);
      } catch (thrown) {
        const error = toServeError(thrown);
        if (signal.aborted || error.status < 500) throw error; // no other worker could do better
        if (this.#hasUntried(ask, prefill) && ask.mayRetry(error)) continue;
        if (isEnforced) throw error;
        observer.decodedAlone?.(model.primaryName, error);
        return { kind: 'here', request };
      }
    }
  }

  /**
   * Returns the request with which `run` would ask the router, and the workers for it; undefined if the decode worker
   * would compute the prompt. Rejects with the errors of `run` up to that point.
   */
  async asks(
    ask: PrefillQuestion,
  ): Promise<{ readonly route: RouteRequest; readonly workers: readonly Worker[] } | undefined> {
    const { request, routed } = ask;
    const prefill = this.#options.modelNow(routed.model)?.prefill;
    if (prefill === undefined && this.isEnforced && routed.model.card.needs.length > 0) {
      throw workerError('Unavailable', 'no prefill worker is left');
    }
    if (prefill === undefined || !isDivisible(request) || (await this.#isBypassed(ask, prefill))) return undefined;
    return { route: this.#route(ask, prefill), workers: prefill.workers };
  }

  async #once(ask: PrefillAsk, { pool, workers }: PrefillPool): Promise<Prefilled> {
    const { request, routed, eligibility } = ask;
    const reservation = await eligibility.choose('prefill_routing', this.#route(ask, { pool, workers }));
    const bootstrapInfo = this.#meetingOf(reservation);
    const span = dispatchSpan(routed.span, 'prefill', reservation);
    const prefillCall = new PrefillCall({
      context: this.#options,
      model: routed.model,
      pool,
      reservation,
      request: { ...prefillRequest(request, reservation), ...(bootstrapInfo && { bootstrapInfo }) },
      headers: { ...routed.headers, ...traceHeaders(span) },
      hasOther: () =>
        ask.couldRetry() && this.#hasUntried(ask, { pool, workers: this.#others(routed.model, reservation.worker) }),
      span,
    });
    prefillCall.start();
    const decode = this.decodeRequest(request, reservation);
    if (bootstrapInfo !== undefined) return { kind: 'away', request: { ...decode, bootstrapInfo }, prefillCall };
    try {
      const report = await untilAborted(prefillCall.done, routed.signal);
      if (report.isWhole) return { kind: 'whole', prefillCall, outputs: report.outputs };
      return handoffOf(request, decode, prefillCall, report);
    } catch (thrown) {
      if (routed.signal.aborted) prefillCall.abandon();
      eligibility.failedAt(prefillCall.worker);
      throw thrown;
    }
  }

  #route({ request, routed, eligibility }: PrefillQuestion, { pool, workers }: PrefillPool): RouteRequest {
    if (this.#options.router.mode === 'direct') requirePrefillWorker(request.routing);
    const remote = this.#remote(request, routed.model, workers);
    return eligibility.route(request, { pool, workers }, remote, prefillRouting(request.routing, workers));
  }

  /** Returns the ids of `workers` whose blocks no decode worker may fetch. */
  #remote(request: EngineRequest, model: RoutableModel, workers: readonly Worker[]): readonly string[] {
    return outOfReach(workers, request.routing, (this.#options.modelNow(model) ?? model).workers);
  }

  /** Refuses a request if all decode workers are busy, so that its prompt is not computed in vain. */
  #refuseWhereNobodyDecodes(model: RoutableModel): void {
    const { workers } = this.#options.modelNow(model) ?? model;
    const busy = this.#options.busyOf(model, workers);
    if (busy === undefined || busy.size === 0 || workers.some(({ id }) => !busy.has(id))) return;
    throw new ServeError('server_overloaded', 'Service temporarily overloaded');
  }

  async #isBypassed(ask: PrefillQuestion, prefill: PrefillPool): Promise<boolean> {
    const { bypasses, modelNow } = this.#options;
    const now = modelNow(ask.routed.model);
    if (bypasses === undefined || now === undefined) return false;
    const toPrefill = this.#route(ask, prefill);
    const toDecode = {
      ...toPrefill,
      pool: now.pool,
      routing: ask.request.routing,
      excluded: NO_WORKERS,
      busy: undefined,
    };
    return bypasses({ request: toPrefill, workers: prefill.workers }, { request: toDecode, workers: now.workers });
  }

  #hasUntried({ request, routed, eligibility }: PrefillAsk, { workers }: PrefillPool): boolean {
    const excluded = eligibility.excluded(workers, this.#remote(request, routed.model, workers));
    return workers.some(({ id }) => !excluded.has(id));
  }

  /** Returns the present prefill workers without `worker`. */
  #others(model: RoutableModel, worker: Worker): readonly Worker[] {
    const { workers = [] } = this.#options.modelNow(model)?.prefill ?? {};
    return workers.filter((each) => !isSameProcess(each, worker));
  }

  /** Returns where the two engines of a request meet, if the prefill worker has a rendezvous. */
  #meetingOf({ worker, dpRank: rank }: Reservation<Worker>): BootstrapInfo | undefined {
    const { rendezvous, dataParallelSize: size } = worker;
    if (rendezvous === undefined) return undefined;
    const room = bootstrapRoom(this.#options.random, rank === undefined ? undefined : { rank, size });
    return { bootstrap_host: rendezvous.host, bootstrap_port: rendezvous.port, bootstrap_room: room };
  }

  /** Returns the request for a decode worker that gets the blocks of its prompt from `worker`. */
  decodeRequest(
    request: EngineRequest,
    { worker, dpRank }: Pick<Reservation<Worker>, 'worker' | 'dpRank'>,
  ): EngineRequest {
    const rank = dpRank === undefined ? {} : { prefill_dp_rank: dpRank };
    const { routing } = request;
    const near = worker.kvTransfer && {
      routing_constraints: withTransferPolicy(routing.routing_constraints, worker.kvTransfer),
    };
    return {
      ...request,
      routing: { ...routing, prefill_worker_id: worker.id, ...rank, ...near },
      routerConfigOverride: decodeOverride(request.routerConfigOverride, this.#options.bypasses !== undefined),
    };
  }
}

const NO_WORKERS: ReadonlySet<string> = new Set();

/**
 * Whether a prefill worker can compute the prompt: only prompts of tokens, and not if the client wants their log
 * probabilities, which exist only at the worker that computes the prompt.
 */
function isDivisible({ input, output, embedding }: EngineRequest): boolean {
  return input.kind === 'tokens' && output.prompt_logprobs === undefined && embedding === undefined;
}

function bypassed(request: EngineRequest): EngineRequest {
  return { ...request, annotations: [...request.annotations, BYPASS_ANNOTATION] };
}

/** Returns the request for a prefill worker: one token of one choice. With `min_tokens` it may not be an end token. */
function prefillRequest(request: EngineRequest, { dpRank }: Reservation<Worker>): EngineRequest {
  const { n: _, best_of: __, ...sampling } = request.sampling;
  const mustGoOn = (request.stop.min_tokens ?? 0) > 0;
  const { dp_rank: ___, ...routing } = request.routing;
  return {
    ...request,
    sampling,
    stop: { ...prefillStop(request.stop), ...(mustGoOn ? { min_tokens: 1 } : {}) },
    routing: dpRank === undefined ? routing : { ...routing, dp_rank: dpRank },
  };
}

/** Returns the routing hints for the prefill pool, without those that name decode workers. */
export function prefillRouting(routing: RoutingHints, workers: readonly Worker[]): RoutingHints {
  const { backend_instance_id: _, decode_worker_id: __, dp_rank: ___, allowed_worker_ids: allowed, ...rest } = routing;
  const isMeant = allowed !== undefined && workers.some(({ id }) => allowed.includes(id));
  return isMeant ? { ...rest, allowed_worker_ids: allowed } : rest;
}

/**
 * Returns the request for the decode worker, with the parameters to fetch the blocks. Empty parameters mean that the
 * prompt is too short for a block. @throws ServeError if the prefill worker has sent no parameters
 */
function handoffOf(
  request: EngineRequest,
  decode: EngineRequest,
  prefillCall: PrefillCall,
  report: PrefillReport,
): Prefilled {
  const params = report.disaggregatedParams;
  if (typeof params !== 'object' || params === null) {
    throw workerError('BackendProtocol', 'the prefill worker gave no disaggregated_params');
  }
  const bootstrapInfo = meetingIn(params);
  if (bootstrapInfo !== undefined) return { kind: 'away', request: { ...decode, bootstrapInfo }, prefillCall, report };
  if (Object.keys(params).length === 0) return { kind: 'here', request };
  const details = report.usage?.prompt_tokens_details;
  const prefillResult = {
    disaggregated_params: params,
    ...(details == null ? {} : { prompt_tokens_details: details }),
  };
  return { kind: 'away', request: { ...decode, prefillResult }, prefillCall, report };
}

function meetingIn(params: object): BootstrapInfo | undefined {
  const { bootstrap_host, bootstrap_port, bootstrap_room } = params as Readonly<Record<string, unknown>>;
  if (typeof bootstrap_host !== 'string' || typeof bootstrap_port !== 'number') return undefined;
  if (typeof bootstrap_room !== 'string' && typeof bootstrap_room !== 'number') return undefined;
  return { bootstrap_host, bootstrap_port, bootstrap_room: `${bootstrap_room}` };
}
