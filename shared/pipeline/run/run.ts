import { isClientCancel, type ServeError, toServeError, workerError } from '../../errors/index.ts';
import {
  type CompletionUsage,
  type EngineOutput,
  type EngineRequest,
  encodeEngineRequest,
  type GenerationRequest,
  type GenerationSink,
  RETRY_HEADER,
} from '../../protocol/index.ts';
import type { Reservation, WorkerPool } from '../../router/index.ts';
import type { ResponseAssembler } from '../answer/response-assembler.ts';
import type { RoutableModel, Worker } from '../models/routable-model.ts';
import type { Preprocessed } from '../prompt/preprocess.ts';
import { mediaParts } from '../prompt/prompt-tokens.ts';
import { Attempt, MigrationBudget } from './attempt.ts';
import type { EncoderResult, EncodeStage } from './encode-stage.ts';
import { Handover, type HandoverHost } from './handover.ts';
import type { PrefillCall } from './prefill-call.ts';
import type { PrefillAsk, Prefilled, PrefillStage } from './prefill-stage.ts';
import { type RoutedRequest, type RunContext, routedRequest } from './run-context.ts';
import type { WatchedStream } from './stalled-workers.ts';
import { avoidAfter, phaseOf, WorkerChoice, WorkerEligibility } from './worker-choice.ts';

/** Header that says that the request began at another worker. */
const ANOTHER_ATTEMPT = { [RETRY_HEADER]: '1' };
/** Shortest time between two tries to hand a stream over. A worker that asks more often is ignored. */
const MOVES_EVERY_MS = 1000;

/** Dependencies that all runs of one pipeline share, with the stages before an attempt. */
export interface RunParts extends RunContext {
  /** Encodes media on encode workers; undefined = media are encoded where the prompt is computed. */
  readonly encode?: EncodeStage | undefined;
  /** Computes prompts on prefill workers; undefined = prompts are computed where they are decoded. */
  readonly prefill?: PrefillStage | undefined;
}

/**
 * One request at its worker, or on its way to the next one. The file is long because it is one state machine: every
 * step reads and changes the same few fields. When a client leaves, `#onAbort` ends the call to the worker.
 *
 * With prefill workers, choosing begins with a prefill (`PrefillStage`). Its call belongs to the attempt, and is
 * abandoned if the attempt ends before its decode worker has sent anything.
 *
 * | State | worker chosen | first output | failure that may move | other failure | end | client gone | asked to move |
 * |---|---|---|---|---|---|---|---|
 * | choosing | sent | - | - | failed | - | closed | - |
 * | sent | - | streaming | choosing | failed | ended | killed | a `Handover` begins, if another worker is left |
 * | streaming | - | - | choosing, with the tokens so far | failed | ended | killed | the same |
 *
 * A handover changes nothing before another worker has taken the stream. An end or a failure of the stream at its
 * worker ends the handover.
 */
export class RequestRun implements HandoverHost, WatchedStream {
  readonly #context: RunParts;
  readonly #request: GenerationRequest;
  readonly #model: RoutableModel;
  readonly #prompt: Preprocessed;
  readonly #response: ResponseAssembler;
  readonly #sink: GenerationSink;
  readonly #signal: AbortSignal;
  readonly #routed: RoutedRequest;
  readonly #choice: WorkerChoice;
  readonly #prefillers: WorkerEligibility;
  readonly #budget: MigrationBudget;
  /** Whether this request no longer uses prefill workers. */
  #isWithoutPrefill = false;
  #encoded: Promise<EncoderResult | undefined> | undefined;
  #attempt = new Attempt();
  #handover: Handover | undefined;
  #movesFromMs = 0;
  #attempts = 0;
  /** Worker of the last attempt that was sent. */
  #workerId: string | undefined;
  #hasOutput = false;
  #hasToldCached = false;
  #isPaused = false;
  #isClosed = false;
  showedLife = false;

  constructor(
    context: RunParts,
    request: GenerationRequest,
    model: RoutableModel,
    prompt: Preprocessed,
    response: ResponseAssembler,
    sink: GenerationSink,
    signal: AbortSignal,
  ) {
    this.#context = context;
    this.#request = request;
    this.#model = model;
    this.#prompt = prompt;
    this.#response = response;
    this.#sink = sink;
    this.#signal = signal;
    this.#routed = routedRequest(request, model, signal, prompt.media);
    this.#choice = new WorkerChoice(context, this.#routed, sink, request.stream);
    this.#prefillers = new WorkerEligibility(context, this.#routed);
    this.#budget = new MigrationBudget(context, model.primaryName, prompt.request, prompt.promptTokens);
  }

  start(): void {
    this.#signal.addEventListener('abort', this.#onAbort, { once: true });
    this.#begin(undefined);
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  get hasBegun(): boolean {
    return this.#attempt.hasBegun;
  }

  get promptTokens(): number {
    return this.#prompt.promptTokens;
  }

  accepted(): void {
    this.showedLife = true;
    if (this.#budget.arrived()) this.#response.moved();
  }

  tokens(choice: number, ids: ArrayLike<number>, start: number, count: number): void {
    if (this.#isClosed) return;
    if (this.#handover?.isHolding === true) {
      const kept = Array.from({ length: count }, (_, at) => ids[start + at] as number); // inside the caller's range
      this.#keepBack(() => this.tokens(choice, kept, 0, count));
      return;
    }
    this.#attempt.hasBegun = true;
    this.#noteOutput(count);
    this.#budget.keep(ids, start, count);
    try {
      this.#response.tokens(choice, ids, start, count);
    } catch (thrown) {
      this.#abandon(toServeError(thrown));
      return;
    }
    if (this.#isClosed) return; // there was no memory to keep the answer
    if (this.#response.endsBeforeWorker) this.#endHere();
    else this.#heedReader();
  }

  output(output: EngineOutput): void {
    if (this.#isClosed) return;
    if (this.#handover?.isHolding === true) {
      this.#keepBack(() => this.output(output));
      return;
    }
    if (saysSomething(output)) this.#attempt.hasBegun = true;
    this.#noteOutput(output.token_ids?.length ?? 0);
    if (output.prompt_media != null) this.#prompt.media?.learn(output.prompt_media);
    const cached = output.completion_usage?.prompt_tokens_details?.cached_tokens;
    if (cached !== undefined) this.#noteCached(cached, this.#model.pool);
    if (output.token_ids !== undefined) this.#budget.keep(output.token_ids, 0, output.token_ids.length);
    try {
      const failure = this.#response.output(output);
      if (failure !== undefined) throw failure;
    } catch (thrown) {
      this.#abandon(toServeError(thrown));
      return;
    }
    if (this.#isClosed) return; // there was no memory to keep the answer
    if (this.#response.endsBeforeWorker) this.#endHere();
    else this.#heedReader();
  }

  end(): void {
    this.#stay();
    if (this.#isClosed) return;
    this.#close();
    this.#response.end();
  }

  fail(error: ServeError): void {
    this.#stay();
    if (this.#response.isComplete) this.end(); // the answer is complete, so the worker's failure does not matter
    if (this.#isClosed) return;
    const worker = this.#attempt.reservation?.worker;
    const lost = this.#isHandoffLost(error) ? this.#attempt.prefillCall : undefined;
    this.#leave(error.worker ?? error.code);
    if (worker !== undefined) {
      avoidAfter(this.#context, worker.id, error);
      if (lost === undefined) this.#choice.eligibility.failedAt(worker.id);
      else this.#choice.eligibility.handoffLostAt(worker.id);
    }
    this.#goOn(error, lost);
  }

  timedOut(): void {
    this.#attempt.call?.kill();
    this.fail(workerError('ResponseTimeout'));
  }

  /** Moves a silent stream if another worker can take it. Otherwise it stays, because its worker may come back. */
  stalled(): void {
    if (this.#budget.isOpen && this.#choice.hasOtherThan(this.#attempt.reservation?.worker.id)) this.timedOut();
  }

  moveAsked(): void {
    const { call, reservation } = this.#attempt;
    if (this.#isClosed || this.#handover !== undefined || call === undefined || reservation === undefined) return;
    if (!this.#budget.isOpen || !this.#choice.hasOtherThan(reservation.worker.id)) return;
    const nowMs = this.#context.clock.nowMs();
    if (nowMs < this.#movesFromMs) return;
    this.#movesFromMs = nowMs + MOVES_EVERY_MS;
    const handover = new Handover({ context: this.#context, routed: this.#routed, from: this.#attempt, host: this });
    this.#handover = handover;
    reservation.release(); // the next reservation has the same id
    this.#handOver(handover).catch(() => this.handoverFailed(handover)); // no worker takes it now: this one asks again
  }

  handedOver({ attempt, sinceMs }: Handover): void {
    const { call, reservation: left } = this.#attempt;
    const { reservation, prefillCall } = attempt;
    if (left === undefined || reservation === undefined) return; // both exist: a stream at a worker, and a reservation
    this.#handover = undefined;
    this.#choice.eligibility.failedAt(left.worker.id);
    this.#budget.take(workerError('EngineShutdown'), left.worker.id, false, this.#hasOutput, sinceMs);
    if (this.#budget.continuation() !== this.#prompt.request) this.#response.carriedOn();
    this.#leave(undefined, 'moved');
    call?.kill('moved');
    this.#attempt = attempt;
    this.#tellWorkers(prefillCall, reservation);
    this.#tellSent(reservation);
    if (prefillCall?.isDone === true) prefillCall.keep();
    this.#context.streamWatch?.add(this, reservation.worker, this.#model);
    if (this.#isPaused) attempt.call?.pause();
    this.accepted();
  }

  handoverFailed(handover: Handover): void {
    if (this.#handover === handover) this.#stay();
  }

  /** Ends a handover: the stream goes on at its worker, with the output that was held back. */
  #stay(): void {
    const handover = this.#handover;
    if (handover === undefined) return;
    this.#handover = undefined;
    for (const say of handover.cancel()) say();
    if (!this.#isClosed && !this.#isPaused) this.#attempt.call?.resume();
  }

  #keepBack(say: () => void): void {
    this.showedLife = true;
    this.#handover?.keep(say);
  }

  /** Finds another worker, and asks it to go on after the last token that the client has. */
  async #handOver(handover: Handover): Promise<void> {
    const { attempt, routed, choice, prefillers } = handover;
    const isSplit = this.#isSplit;
    if (isSplit) this.#hold(handover); // the prefill is for the tokens so far
    const request = this.#budget.continuation();
    if (request === undefined) throw workerError('Unavailable', 'no token is left to make');
    const ask = { routed, eligibility: prefillers, mayRetry: () => false, couldRetry: () => false };
    const prefilled = await this.#prefill(await this.#encode(request), attempt, ask);
    if (prefilled.kind === 'whole') {
      prefilled.prefillCall.abandon();
      throw workerError('Unavailable', 'one token is left to make');
    }
    const reservation = await choice.choose(prefilled.request, attempt.prefillCall?.worker.scope.namespace);
    if (handover.isOver) return reservation.release();
    attempt.reservation = reservation;
    if (!isSplit) this.#hold(handover);
    if (!this.#budget.isOpen) throw workerError('Unavailable', 'it has grown too long to move');
    attempt.sent(this.#context, phaseOf(this.#model.pool.role));
    const now = this.#budget.continuation();
    if (now === undefined) throw workerError('Unavailable', 'no token is left to make');
    const headers = { ...this.#headersOf(attempt, reservation), ...ANOTHER_ATTEMPT };
    const whole = { ...prefilled.request, input: now.input, stop: now.stop };
    attempt.call = this.#context.plane.call(
      reservation.worker.transport,
      { id: request.id, headers, ...encodeEngineRequest(whole, reservation.dpRank) },
      handover,
    );
  }

  /** Holds back the output of the present worker from now on: at most one more credit window. */
  #hold(handover: Handover): void {
    if (handover.isOver) return;
    handover.hold();
    this.#attempt.call?.pause();
  }

  /** Tries again if that may help, otherwise fails. @param lost prefill whose blocks are lost */
  #goOn(error: ServeError, lost: PrefillCall | undefined): void {
    if (lost !== undefined) this.#prefillers.failedAt(lost.worker.id);
    if (!this.#mayGoOn(error, lost !== undefined)) {
      this.#failWith(error);
      return;
    }
    this.#attempt = new Attempt(this.#attempt);
    this.#begin(error);
  }

  #begin(cause: ServeError | undefined): void {
    this.#send(cause).catch((thrown: unknown) => this.#failWith(toServeError(thrown)));
  }

  /**
   * Sends the request to a worker. @param cause failure at the last worker, which the client gets if no other takes the
   * request
   */
  async #send(cause: ServeError | undefined): Promise<void> {
    const request = this.#budget.continuation();
    if (request === undefined) {
      this.#close();
      this.#response.finishAtLength();
      this.#response.end();
      return;
    }
    if (request !== this.#prompt.request) this.#response.carriedOn();
    const attempt = this.#attempt;
    let reservation: Reservation<Worker>;
    let whole: EngineRequest;
    try {
      const ask = {
        routed: this.#routed,
        eligibility: this.#prefillers,
        mayRetry: (error: ServeError) => this.#mayMove(error, false),
        couldRetry: () => this.#budget.isOpen,
      };
      const prefilled = await this.#prefill(await this.#encode(request), attempt, ask);
      if (prefilled.kind === 'whole') return this.#endWith(prefilled);
      whole = prefilled.request;
      reservation = await this.#choice.choose(whole, attempt.prefillCall?.worker.scope.namespace);
    } catch (thrown) {
      return this.#failWith(cause ?? toServeError(thrown));
    }
    if (this.#isClosed) return reservation.release();
    if (attempt.prefillCall?.failure !== undefined) {
      reservation.release();
      return this.#losePrefill(attempt.prefillCall.failure);
    }
    attempt.reservation = reservation;
    this.#tellWorkers(attempt.prefillCall, reservation);
    this.#tellSent(reservation);
    const headers = { ...this.#headersOf(attempt, reservation), ...(this.#attempts > 1 ? ANOTHER_ATTEMPT : {}) };
    this.showedLife = false;
    this.#context.streamWatch?.add(this, reservation.worker, this.#model);
    attempt.sent(this.#context, phaseOf(this.#model.pool.role));
    attempt.call = this.#context.plane.call(
      reservation.worker.transport,
      { id: request.id, headers, ...encodeEngineRequest(whole, reservation.dpRank) },
      this,
    );
    if (this.#isPaused) attempt.call.pause(); // the reader has not caught up since the last worker
  }

  /**
   * Has an encode worker encode the media, if there is one. It does so once for all attempts, because the result stays
   * valid when the worker that used it is gone.
   */
  async #encode(request: EngineRequest): Promise<EngineRequest> {
    const { encode } = this.#context;
    if (encode === undefined || mediaParts(this.#request.prompt) === undefined) return request;
    this.#encoded ??= encode.run(request, this.#routed);
    const encoderResult = await this.#encoded;
    return encoderResult === undefined ? request : { ...request, encoderResult };
  }

  #headersOf(attempt: Attempt, reservation: Reservation<Worker>): Readonly<Record<string, string>> {
    const { headers: own, span } = this.#routed;
    return { ...own, ...attempt.beginSpan(reservation, span), ...reservation.headers };
  }

  /** Whether a prefill worker computes the prompt. */
  get #isSplit(): boolean {
    return this.#context.prefill !== undefined && this.#model.pool.role === 'decode' && !this.#isWithoutPrefill;
  }

  /**
   * Has a prefill worker compute the prompt, if there is one. @param attempt the attempt that the prefill belongs to
   */
  async #prefill(request: EngineRequest, attempt: Attempt, ask: Omit<PrefillAsk, 'request'>): Promise<Prefilled> {
    const { prefill } = this.#context;
    if (prefill === undefined || !this.#isSplit) return { kind: 'here', request };
    const prefilled = await prefill.run({ request, ...ask });
    if (prefilled.kind !== 'away') return prefilled;
    const { prefillCall, report } = prefilled;
    if (this.#isClosed || ask.routed.signal.aborted) prefillCall.abandon();
    attempt.prefillCall = prefillCall;
    if (report !== undefined) this.#notePrefilled(prefillCall, report.usage);
    else
      prefillCall.done.then(
        ({ usage }) => this.#notePrefilled(prefillCall, usage),
        () => undefined, // `lost` reports it
      );
    void prefillCall.lost.then(
      (error) => this.#attempt.prefillCall === prefillCall && attempt.call !== undefined && this.#losePrefill(error),
    );
    return prefilled;
  }

  /**
   * Notes that the blocks of the prompt wait to be fetched. The client's usage shows the cached tokens of the prefill
   * worker, because the decode worker computes nothing of the prompt.
   */
  #notePrefilled(prefillCall: PrefillCall, usage: CompletionUsage | undefined): void {
    if (this.#isClosed || this.#attempt.prefillCall !== prefillCall) return;
    if (this.#attempt.outputTokens === 0) prefillCall.keep();
    if (usage === undefined) return;
    const cached = usage.prompt_tokens_details?.cached_tokens;
    if (cached !== undefined) this.#noteCached(cached, prefillCall.pool);
    this.#response.output({ completion_usage: usage });
  }

  /** Ends an answer whose first token, made by the prefill worker, is also its last. */
  #endWith({ outputs, prefillCall }: Extract<Prefilled, { kind: 'whole' }>): void {
    this.#tellWorkers(prefillCall, prefillCall);
    for (const output of outputs) this.output(output);
    this.end();
  }

  /** Starts again after a prefill failed while the decode worker waits for it. Does nothing if a token has come. */
  #losePrefill(error: ServeError): void {
    const { prefillCall, call, outputTokens } = this.#attempt;
    if (this.#isClosed || prefillCall === undefined || outputTokens > 0) return;
    this.#leave(error.worker ?? error.code);
    call?.kill();
    this.#goOn(error, prefillCall);
  }

  /** Returns whether the decode worker failed before it began, so that the blocks of the prompt may be gone. */
  #isHandoffLost({ worker: kind }: ServeError): boolean {
    if (this.#attempt.prefillCall === undefined || this.#attempt.outputTokens > 0) return false;
    return kind === 'Internal' || kind === 'Unknown' || kind === 'BackendProtocol';
  }

  #tellWorkers(
    prefillCall: PrefillCall | undefined,
    { worker, dpRank }: Pick<Reservation<Worker>, 'worker' | 'dpRank'>,
  ): void {
    if (this.#isClosed) return;
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

  #tellSent({ worker, dpRank, cachedTokens }: Reservation<Worker>): void {
    this.#workerId = worker.id;
    this.#attempts++;
    this.#context.observer.sent?.({
      requestId: this.#request.id,
      model: this.#model.primaryName,
      workerId: worker.id,
      prefillWorkerId: this.#attempt.prefillCall?.worker.id,
      dpRank,
      promptTokens: this.promptTokens,
      cachedTokens,
      attempt: this.#attempts,
    });
  }

  #noteOutput(tokens: number): void {
    const attempt = this.#attempt;
    this.showedLife = true;
    this.#hasOutput = true;
    attempt.outputTokens += tokens;
    const isFirst = attempt.outputTokens === tokens; // the first output of this worker
    if (isFirst) {
      attempt.answered();
      attempt.reservation?.prefillDone();
    }
    if (tokens === 0) return;
    if (isFirst) this.#noteFetched(attempt.prefillCall);
    attempt.reservation?.produced(attempt.outputTokens);
  }

  /** Notes at the first token that the decode worker has fetched the blocks of the prompt. */
  #noteFetched(prefillCall: PrefillCall | undefined): void {
    prefillCall?.fetched();
    const endedAtMs = prefillCall?.endedAtMs;
    if (endedAtMs !== undefined) this.#context.observer.kvTransferred?.(this.#context.clock.nowMs() - endedAtMs);
  }

  /** Reports cached tokens once: engines repeat their usage. */
  #noteCached(tokens: number, pool: WorkerPool): void {
    if (this.#hasToldCached) return;
    this.#hasToldCached = true;
    this.#context.observer.reused?.(pool, tokens);
  }

  /**
   * Returns whether to try again. After a lost prefill even a request that may not move tries again, at its decode
   * pool.
   */
  #mayGoOn(error: ServeError, isPrefillLost: boolean): boolean {
    if (this.#mayMove(error, isPrefillLost)) return true;
    const { prefill, observer } = this.#context;
    if (!isPrefillLost || this.#isWithoutPrefill || this.#signal.aborted || prefill?.isEnforced === true) return false;
    this.#isWithoutPrefill = true;
    observer.decodedAlone?.(this.#model.primaryName, error);
    return true;
  }

  /** Returns whether the request may move, and counts the move. */
  #mayMove(error: ServeError, isPrefillLost: boolean): boolean {
    return !this.#signal.aborted && this.#budget.take(error, this.#workerId, isPrefillLost, this.#hasOutput);
  }

  /** Stops granting credit while the client reads too slowly; at most one credit window more arrives. */
  #heedReader(): void {
    if (this.#isPaused || !this.#sink.isBlocked()) return;
    this.#isPaused = true;
    this.#attempt.call?.pause();
    this.#sink.onUnblocked(() => {
      this.#isPaused = false;
      if (this.#handover?.isHolding !== true) this.#attempt.call?.resume();
    });
  }

  /** Ends an answer before its worker does: at a stop string, or if the engine runs past the end. */
  #endHere(): void {
    const call = this.#attempt.call;
    this.#close();
    call?.resume();
    call?.stop();
    this.#response.end();
  }

  /** Fails after the worker broke the contract, or reported an error that would occur at any worker. */
  #abandon(error: ServeError): void {
    this.#attempt.call?.kill();
    if (this.#isHandoffLost(error)) {
      this.fail(error);
      return;
    }
    this.#failWith(error);
  }

  #failWith(error: ServeError): void {
    if (this.#isClosed) return;
    this.#close(isClientCancel(error) ? undefined : error.code);
    if (!this.#signal.aborted) this.#sink.fail(error);
  }

  readonly #onAbort = (): void => {
    if (this.#isClosed) return;
    const call = this.#attempt.call;
    this.#close();
    call?.kill();
  };

  #leave(error: string | undefined, why?: 'moved' | 'cancelled'): void {
    this.#context.streamWatch?.delete(this);
    this.#attempt.leave(error, why);
  }

  #close(error?: string): void {
    this.#isClosed = true;
    this.#handover?.cancel(); // no client gets what it held back
    this.#handover = undefined;
    if (this.#response.hasOverrun) this.#context.observer.overran?.(this.#model.primaryName, this.#workerId);
    this.#signal.removeEventListener('abort', this.#onAbort);
    this.#budget.over(this.#signal.aborted ? 'cancelled' : 'failure');
    const { tokens, ms } = this.#response.detokenized;
    if (tokens > 0) {
      this.#context.observer.detokenize?.(ms, tokens);
      this.#context.observer.stage?.('postprocess', ms);
    }
    this.#leave(error, error === undefined && this.#signal.aborted ? 'cancelled' : undefined);
    this.#context.hold?.over(this.#sink);
  }
}

/** Returns whether an output has a part of the answer. Workers of text models send it in bodies. */
function saysSomething({ token_ids: ids, text, body }: EngineOutput): boolean {
  return (ids !== undefined && ids.length > 0) || (text ?? '') !== '' || body !== undefined;
}
