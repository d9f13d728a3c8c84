import { untilAborted } from '../../concurrency/index.ts';
import { ServeError, workerError } from '../../errors/index.ts';
import type { EngineRequest, ServingWorkers } from '../../protocol/index.ts';
import type { RouteRequest } from '../../router/index.ts';
import type { ExplanationRecord } from '../../scheduler/index.ts';
import type { Worker } from '../models/routable-model.ts';
import type { PrefillStage } from './prefill-stage.ts';
import type { RoutedRequest, RunContext } from './run-context.ts';
import { WorkerEligibility } from './worker-choice.ts';

/** Returns what a router would decide now, without a reservation. */
type Explain = (request: RouteRequest) => Promise<ExplanationRecord>;

/** A worker and rank that would take one stage of a request. */
interface Place {
  readonly worker: Worker;
  readonly dpRank: number;
}

/** Says where a request would go now. It sends and reserves nothing, and the request waits in no queue. */
export class DryRun {
  readonly #context: RunContext & { readonly prefill?: PrefillStage | undefined };
  readonly #explain: Explain;

  constructor(context: RunContext & { readonly prefill?: PrefillStage | undefined }, explain: Explain) {
    this.#context = context;
    this.#explain = explain;
  }

  /** Rejects with the failure that the request itself would have, and with the signal's reason when it aborts. */
  async run(request: EngineRequest, routed: RoutedRequest): Promise<ServingWorkers> {
    const prefill = await this.#prefillPlace(request, routed);
    const toDecode = prefill === undefined ? request : this.#stage.decodeRequest(request, prefill);
    const { pool, workers } = this.#context.poolOf(routed.model);
    const namespace = prefill?.worker.scope.namespace;
    const strangers = namespace === undefined ? [] : workers.filter(({ scope }) => scope.namespace !== namespace);
    const eligibility = new WorkerEligibility(this.#context, routed);
    const unreachable = strangers.map(({ id }) => id);
    const decode = await this.#placeOf(eligibility.route(toDecode, { pool, workers }, unreachable), workers, routed);
    const first = prefill ?? decode;
    return {
      prefillWorkerId: first.worker.id,
      prefillDpRank: first.dpRank,
      decodeWorkerId: decode.worker.id,
      decodeDpRank: decode.dpRank,
    };
  }

  get #stage(): PrefillStage {
    if (this.#context.prefill === undefined) throw new TypeError('no prompt is computed apart here');
    return this.#context.prefill;
  }

  /** Chooses a prefill worker; undefined if the decode worker would compute the prompt. */
  async #prefillPlace(request: EngineRequest, routed: RoutedRequest): Promise<Place | undefined> {
    const { prefill } = this.#context;
    if (prefill === undefined || routed.model.pool.role !== 'decode') return undefined;
    const eligibility = new WorkerEligibility(this.#context, routed);
    const asked = await prefill.asks({ request, routed, eligibility });
    if (asked === undefined) return undefined;
    try {
      return await this.#placeOf(asked.route, asked.workers, routed);
    } catch (thrown) {
      if (prefill.isEnforced || !(thrown instanceof ServeError) || thrown.status < 500) throw thrown;
      return undefined; // after a prefill that fails, the decode worker computes the prompt
    }
  }

  async #placeOf(route: RouteRequest, workers: readonly Worker[], { signal }: RoutedRequest): Promise<Place> {
    const explanation = await untilAborted(this.#explain(route), signal);
    const { chosen } = explanation;
    const worker = workers.find(({ id }) => id === chosen?.worker_id);
    if (chosen === null || worker === undefined) throw failureOf(explanation);
    return { worker, dpRank: chosen.dp_rank };
  }
}

function failureOf({ rejection, failure }: ExplanationRecord): ServeError {
  if (rejection === undefined) return workerError('Unavailable', failure ?? undefined);
  const { code, message, param } = rejection;
  return new ServeError(code, message, { param });
}
