import type { GenerationRequest, GenerationSink } from '../../protocol/index.ts';
import type { Reservation, WorkerPool } from '../../router/index.ts';
import type { ResponseAssembler } from '../answer/response-assembler.ts';
import type { RoutableModel, Worker } from '../models/routable-model.ts';
import type { MediaPrompt } from '../prompt/media-prompt.ts';
import type { Preprocessed } from '../prompt/preprocess.ts';
import type { PrefillCall } from './prefill-call.ts';
import type { RunContext } from './run-context.ts';

/** Reports the course of one run: to the observer of the pipeline, and its workers to the client. */
export class RunReport {
  readonly #context: RunContext;
  readonly #request: GenerationRequest;
  readonly #model: RoutableModel;
  readonly #response: ResponseAssembler;
  readonly #sink: GenerationSink;
  readonly #promptTokens: number;
  /** Prompt of a chat that its worker renders. */
  readonly #media: MediaPrompt | undefined;
  #attempts = 0;
  #hasToldCached = false;
  #workerId: string | undefined;

  constructor(
    context: RunContext,
    request: GenerationRequest,
    model: RoutableModel,
    response: ResponseAssembler,
    sink: GenerationSink,
    { promptTokens, media }: Preprocessed,
  ) {
    this.#context = context;
    this.#request = request;
    this.#model = model;
    this.#response = response;
    this.#sink = sink;
    this.#promptTokens = media?.plainTokens ?? promptTokens;
    this.#media = media;
  }

  /** Worker of the last attempt that was sent; undefined = none was. */
  get workerId(): string | undefined {
    return this.#workerId;
  }

  /** Reports the workers that answer, also to a client that asked for them. */
  workers(
    prefillCall: PrefillCall | undefined,
    { worker, dpRank }: Pick<Reservation<Worker>, 'worker' | 'dpRank'>,
  ): void {
    const decode = { workerId: worker.id, dpRank, workerType: 'decode' } as const;
    const prefill =
      prefillCall && ({ workerId: prefillCall.worker.id, dpRank: prefillCall.dpRank, workerType: 'prefill' } as const);
    this.#response.servedBy(prefill ?? decode, decode);
    if (!this.#request.extraFields.includes('worker_id')) return;
    const prefillDpRank = (prefill ?? decode).dpRank;
    this.#sink.worker({
      prefillWorkerId: (prefill ?? decode).workerId,
      decodeWorkerId: worker.id,
      ...(prefillDpRank === undefined ? {} : { prefillDpRank }),
      ...(dpRank === undefined ? {} : { decodeDpRank: dpRank }),
    });
  }

  /** Reports an attempt that goes to the worker of a reservation. */
  sent(prefillCall: PrefillCall | undefined, reservation: Reservation<Worker>): void {
    const { worker, dpRank, cachedTokens } = reservation;
    this.workers(prefillCall, reservation);
    this.#workerId = worker.id;
    this.#attempts++;
    this.#context.observer.sent?.({
      requestId: this.#request.id,
      model: this.#model.primaryName,
      workerId: worker.id,
      prefillWorkerId: prefillCall?.worker.id,
      dpRank,
      promptTokens: this.#promptTokens,
      cachedTokens,
      attempt: this.#attempts,
    });
  }

  /** Whether the attempt that was sent last is not the first one. */
  get isRetry(): boolean {
    return this.#attempts > 1;
  }

  /** Reports at the first token that the decode worker has fetched the blocks of the prompt. */
  fetched(prefillCall: PrefillCall): void {
    prefillCall.fetched();
    const { endedAtMs } = prefillCall;
    if (endedAtMs !== undefined) this.#context.observer.kvTransferred?.(this.#context.clock.nowMs() - endedAtMs);
  }

  /** Reports cached tokens once: engines repeat their usage. @param pool where they were cached */
  cached(tokens: number, pool: WorkerPool = this.#model.pool): void {
    if (this.#hasToldCached) return;
    this.#hasToldCached = true;
    this.#context.observer.reused?.(pool, tokens);
  }

  /**
   * Reports the time that detokenization took, whether the worker sent more than the answer, and whether its engine
   * made another prompt of a chat than this process.
   */
  over(): void {
    const { observer } = this.#context;
    if (this.#response.hasOverrun) observer.overran?.(this.#model.primaryName, this.#workerId);
    if (this.#media !== undefined) this.#compare(this.#media);
    const { tokens, ms } = this.#response.detokenized;
    if (tokens === 0) return;
    observer.detokenize?.(ms, tokens);
    observer.stage?.('postprocess', ms);
  }

  #compare({ plainTokens }: MediaPrompt): void {
    const { reportedPromptTokens: counted } = this.#response;
    if (plainTokens === undefined || counted === undefined || counted === plainTokens) return;
    this.#context.observer.promptDiffers?.(this.#model.primaryName, plainTokens, counted);
  }
}
