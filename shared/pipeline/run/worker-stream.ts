import { type ServeError, toServeError, workerError } from '../../errors/index.ts';
import type { EngineOutput, EngineRequest, GenerationSink } from '../../protocol/index.ts';
import type { Reservation } from '../../router/index.ts';
import type { ResponseAssembler } from '../answer/response-assembler.ts';
import type { Worker } from '../models/routable-model.ts';
import type { Preprocessed } from '../prompt/preprocess.ts';
import { Attempt } from './attempt.ts';
import { Handover, type StreamOwner } from './handover.ts';
import type { MigrationBudget } from './migration-budget.ts';
import type { PrefillCall } from './prefill-call.ts';
import type { RunContext } from './run-context.ts';
import type { RunReport } from './run-report.ts';
import type { WatchedStream } from './stream-watch.ts';
import type { WorkerSearch } from './worker-search.ts';

/** Shortest time between two tries to hand a stream over. A worker that asks more often is ignored. */
const MOVES_EVERY_MS = 1000;

/** The run of the request, which decides what follows the stream of a worker. */
export interface StreamRun {
  /** Called when the stream is over, before the response gets its last event. Leaves the worker. */
  close(): void;
  /** Called if the worker failed and another one may do better. @param lost prefill whose blocks are lost */
  tryAgain(error: ServeError, worker: Worker | undefined, lost: PrefillCall | undefined): void;
  failWith(error: ServeError): void;
}

interface StreamDeps {
  readonly context: RunContext;
  readonly run: StreamRun;
  readonly prompt: Preprocessed;
  readonly response: ResponseAssembler;
  readonly sink: GenerationSink;
  readonly search: WorkerSearch;
  readonly budget: MigrationBudget;
  readonly report: RunReport;
}

/**
 * The output of the workers of one request, on its way to the response. It goes on when another worker continues.
 *
 * A handover changes nothing before another worker has taken the stream. An end or a failure of the stream at its
 * worker ends the handover.
 */
export class WorkerStream implements StreamOwner, WatchedStream {
  /** The present attempt. */
  attempt = new Attempt();
  showedLife = false;
  isClosed = false;
  readonly #deps: StreamDeps;
  readonly #response: ResponseAssembler;
  readonly #sink: GenerationSink;
  readonly #budget: MigrationBudget;
  #handover: Handover | undefined;
  #movesFromMs = 0;
  #hasOutput = false;
  #isPaused = false;

  constructor(deps: StreamDeps) {
    this.#deps = deps;
    this.#response = deps.response;
    this.#sink = deps.sink;
    this.#budget = deps.budget;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** Whether the client has received a part of the answer. */
  get hasOutput(): boolean {
    return this.#hasOutput;
  }

  get hasBegun(): boolean {
    return this.attempt.hasBegun;
  }

  get promptTokens(): number {
    return this.#deps.prompt.promptTokens;
  }

  /** Sends the request to the worker of `reservation`. */
  send(request: EngineRequest, reservation: Reservation<Worker>): void {
    const { context, search, report } = this.#deps;
    this.#begin(reservation);
    this.showedLife = false;
    const { attempt } = this;
    attempt.send(context, { request, routed: search.routed, isRetry: report.isRetry }, reservation, this);
    if (this.#isPaused) attempt.call?.pause(); // the reader has not caught up since the last worker
  }

  /** Leaves the present worker. @param error reason of a failure; undefined if the attempt did not fail */
  leave(error: string | undefined, why?: 'moved' | 'cancelled'): void {
    this.#deps.context.streamWatch?.delete(this);
    this.attempt.leave(error, why);
  }

  /** Ends the stream and leaves the worker. The response gets no event of that. */
  close(error: string | undefined, why?: 'cancelled'): void {
    this.isClosed = true;
    this.#handover?.cancel(); // no client gets what it held back
    this.#handover = undefined;
    this.leave(error, why);
  }

  accepted(): void {
    this.showedLife = true;
    if (this.#budget.arrived()) this.#response.moved();
  }

  tokens(choice: number, ids: ArrayLike<number>, start: number, count: number): void {
    if (this.isClosed) return;
    if (this.#handover?.isHolding === true) {
      const kept = Array.from({ length: count }, (_, at) => ids[start + at] as number); // inside the caller's range
      this.#holdBack(() => this.tokens(choice, kept, 0, count));
      return;
    }
    this.attempt.hasBegun = true;
    this.#noteOutput(count);
    this.#budget.keep(ids, start, count);
    try {
      this.#response.tokens(choice, ids, start, count);
    } catch (thrown) {
      this.#abandon(toServeError(thrown));
      return;
    }
    if (this.isClosed) return; // there was no memory to keep the answer
    if (this.#response.endsBeforeWorker) this.#endHere();
    else this.#heedReader();
  }

  output(output: EngineOutput): void {
    if (this.isClosed) return;
    if (this.#handover?.isHolding === true) {
      this.#holdBack(() => this.output(output));
      return;
    }
    if (saysSomething(output)) this.attempt.hasBegun = true;
    this.#noteOutput(output.token_ids?.length ?? 0);
    if (output.prompt_media != null) this.#deps.prompt.media?.learn(output.prompt_media);
    const cached = output.completion_usage?.prompt_tokens_details?.cached_tokens;
    if (cached !== undefined) this.#deps.report.cached(cached);
    if (output.token_ids !== undefined) this.#budget.keep(output.token_ids, 0, output.token_ids.length);
    try {
      const failure = this.#response.output(output);
      if (failure !== undefined) throw failure;
    } catch (thrown) {
      this.#abandon(toServeError(thrown));
      return;
    }
    if (this.isClosed) return; // there was no memory to keep the answer
    if (this.#response.endsBeforeWorker) this.#endHere();
    else this.#heedReader();
  }

  end(): void {
    this.#stay();
    if (this.isClosed) return;
    this.#deps.run.close();
    this.#response.end();
  }

  fail(error: ServeError): void {
    this.#stay();
    if (this.#response.isComplete) this.end(); // the answer is complete, so the worker's failure does not matter
    if (this.isClosed) return;
    this.#deps.run.tryAgain(error, this.attempt.reservation?.worker, this.#handoffLostBy(error));
  }

  timedOut(): void {
    this.attempt.call?.kill();
    this.fail(workerError('ResponseTimeout'));
  }

  /** Moves a silent stream if another worker can take it. Otherwise it stays, because its worker may come back. */
  stalled(): void {
    const worker = this.attempt.reservation?.worker;
    if (worker !== undefined && this.#mayLeave(worker)) this.timedOut();
  }

  moveAsked(): void {
    const { call, reservation } = this.attempt;
    if (this.isClosed || this.#handover !== undefined || call === undefined || reservation === undefined) return;
    if (!this.#mayLeave(reservation.worker)) return;
    const nowMs = this.#deps.context.clock.nowMs();
    if (nowMs < this.#movesFromMs) return;
    this.#movesFromMs = nowMs + MOVES_EVERY_MS;
    this.#handover = new Handover(this.#deps.context, this.#deps.search, this.#budget, this.attempt, this);
    reservation.release(); // the next reservation has the same id
    this.#handover.start();
  }

  handedOver({ attempt, sinceMs }: Handover): void {
    const { call, reservation: left } = this.attempt;
    const { reservation, prefillCall } = attempt;
    if (left === undefined || reservation === undefined) return; // both exist: a stream at a worker, and a reservation
    this.#handover = undefined;
    this.#deps.search.choice.eligibility.failedAt(left.worker);
    this.#budget.take(workerError('EngineShutdown'), left.worker.id, false, this.#hasOutput, sinceMs);
    if (this.#budget.continuation() !== this.#deps.prompt.request) this.#response.carriedOn();
    this.leave(undefined, 'moved');
    call?.kill('moved');
    this.attempt = attempt;
    this.#begin(reservation);
    if (prefillCall?.isDone === true) prefillCall.keep();
    if (this.#isPaused) attempt.call?.pause();
    this.accepted();
  }

  handoverFailed(handover: Handover): void {
    if (this.#handover === handover) this.#stay();
  }

  /** Begins an attempt at the worker of `reservation`. */
  #begin(reservation: Reservation<Worker>): void {
    const { context, report, search } = this.#deps;
    report.sent(this.attempt.prefillCall, reservation);
    context.streamWatch?.add(this, reservation.worker, search.routed.model);
  }

  /** Whether the stream may leave its worker while that one still has it: a move and another worker are left. */
  #mayLeave(worker: Worker): boolean {
    return this.#budget.isOpen && this.#deps.search.choice.hasOtherThan(worker);
  }

  /** Ends a handover: the stream goes on at its worker, with the output that was held back. */
  #stay(): void {
    const handover = this.#handover;
    if (handover === undefined) return;
    this.#handover = undefined;
    for (const say of handover.cancel()) say();
    if (!this.isClosed && !this.#isPaused) this.attempt.call?.resume();
  }

  #holdBack(say: () => void): void {
    this.showedLife = true;
    this.#handover?.keep(say);
  }

  /** Returns the prefill whose blocks may be gone, because the decode worker failed with `error` before it began. */
  #handoffLostBy({ worker: kind }: ServeError): PrefillCall | undefined {
    if (this.attempt.outputTokens > 0) return undefined;
    const isLost = kind === 'Internal' || kind === 'Unknown' || kind === 'BackendProtocol';
    return isLost ? this.attempt.prefillCall : undefined;
  }

  #noteOutput(tokens: number): void {
    const attempt = this.attempt;
    this.showedLife = true;
    this.#hasOutput = true;
    attempt.outputTokens += tokens;
    const isFirst = attempt.outputTokens === tokens; // the first output of this worker
    if (isFirst) {
      attempt.answered();
      attempt.reservation?.prefillDone();
    }
    if (tokens === 0) return;
    if (isFirst && attempt.prefillCall !== undefined) this.#deps.report.fetched(attempt.prefillCall);
    attempt.reservation?.produced(attempt.outputTokens);
  }

  /** Stops granting credit while the client reads too slowly; at most one credit window more arrives. */
  #heedReader(): void {
    if (this.#isPaused || !this.#sink.isBlocked()) return;
    this.#isPaused = true;
    this.attempt.call?.pause();
    this.#sink.onUnblocked(() => {
      this.#isPaused = false;
      if (this.#handover?.isHolding !== true) this.attempt.call?.resume();
    });
  }

  /** Ends an answer before its worker does: at a stop string, or if the engine runs past the end. */
  #endHere(): void {
    const call = this.attempt.call;
    this.#deps.run.close();
    call?.resume();
    call?.stop();
    this.#response.end();
  }

  /** Fails after the worker broke the contract, or reported an error that would occur at any worker. */
  #abandon(error: ServeError): void {
    this.attempt.call?.kill();
    if (this.#handoffLostBy(error) !== undefined) this.fail(error);
    else this.#deps.run.failWith(error);
  }
}

/** Returns whether an output has a part of the answer. Workers of text models send it in bodies. */
function saysSomething({ token_ids: ids, text, body }: EngineOutput): boolean {
  return (ids !== undefined && ids.length > 0) || (text ?? '') !== '' || body !== undefined;
}
