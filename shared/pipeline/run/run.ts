import { isClientCancel, type ServeError, toServeError } from '../../errors/index.ts';
import type { CompletionUsage, GenerationRequest, GenerationSink } from '../../protocol/index.ts';
import type { ResponseAssembler } from '../answer/response-assembler.ts';
import type { RoutableModel, Worker } from '../models/routable-model.ts';
import type { Preprocessed } from '../prompt/preprocess.ts';
import { Attempt } from './attempt.ts';
import { MigrationBudget } from './migration-budget.ts';
import type { PrefillCall } from './prefill-call.ts';
import { type RoutedRequest, routedRequest } from './run-context.ts';
import { RunReport } from './run-report.ts';
import { type Found, type PrefilledAway, type RunDeps, type SearchOwner, WorkerSearch } from './worker-search.ts';
import { type StreamRun, WorkerStream } from './worker-stream.ts';

/**
 * One request at its worker, or on its way to the next one. `WorkerSearch` finds the workers, and `WorkerStream` takes
 * their output. When a client leaves, `#onAbort` ends the call to the worker.
 *
 * A call to a prefill worker belongs to the attempt, and is abandoned if the attempt ends before its decode worker has
 * sent anything.
 *
 * | State | worker chosen | first output | failure that may move | other failure | end | client gone | asked to move |
 * |---|---|---|---|---|---|---|---|
 * | choosing | sent | - | - | failed | - | closed | - |
 * | sent | - | streaming | choosing | failed | ended | killed | a `Handover` begins, if another worker is left |
 * | streaming | - | - | choosing, with the tokens so far | failed | ended | killed | the same |
 */
export class RequestRun implements SearchOwner, StreamRun {
  readonly #context: RunDeps;
  readonly #prompt: Preprocessed;
  readonly #response: ResponseAssembler;
  readonly #sink: GenerationSink;
  readonly #signal: AbortSignal;
  readonly #search: WorkerSearch;
  readonly #report: RunReport;
  readonly #budget: MigrationBudget;
  readonly #stream: WorkerStream;

  /** @param elsewhere as in `RoutedRequest`, whatever the client has received */
  constructor(
    context: RunDeps,
    request: GenerationRequest,
    model: RoutableModel,
    prompt: Preprocessed,
    response: ResponseAssembler,
    sink: GenerationSink,
    signal: AbortSignal,
    elsewhere?: RoutedRequest['elsewhere'],
  ) {
    this.#context = context;
    this.#prompt = prompt;
    this.#response = response;
    this.#sink = sink;
    this.#signal = signal;
    const routed: RoutedRequest = {
      ...routedRequest(request, model, signal, prompt.media),
      elsewhere: elsewhere && (() => (this.#stream.hasOutput ? undefined : elsewhere())),
    };
    const search = new WorkerSearch(context, this, request, routed, sink);
    const report = new RunReport(context, request, model, response, sink, prompt);
    const budget = new MigrationBudget(context, model.primaryName, prompt.request, prompt.promptTokens);
    this.#search = search;
    this.#report = report;
    this.#budget = budget;
    this.#stream = new WorkerStream({ context, run: this, prompt, response, sink, search, budget, report });
  }

  start(): void {
    this.#signal.addEventListener('abort', this.#onAbort, { once: true });
    this.#begin(undefined);
  }

  #begin(cause: ServeError | undefined): void {
    this.#send(cause).catch((thrown: unknown) => this.failWith(toServeError(thrown)));
  }

  /**
   * Finds a worker and sends the request to it. @param cause failure at the last worker, which the client gets if no
   * other takes the request
   */
  async #send(cause: ServeError | undefined): Promise<void> {
    const request = this.#budget.continuation();
    if (request === undefined) return this.#endAtLength();
    if (request !== this.#prompt.request) this.#response.carriedOn();
    const { attempt } = this.#stream;
    const retries = {
      mayRetry: (error: ServeError) => this.#mayMove(error, false),
      couldRetry: () => this.#budget.isOpen,
    };
    let found: Found;
    try {
      found = await this.#search.find(request, attempt, retries);
    } catch (thrown) {
      const error = toServeError(thrown);
      return this.#goElsewhere(error) ? undefined : this.failWith(cause ?? error);
    }
    if (found.kind === 'whole') return this.#endWith(found);
    const { reservation } = found;
    if (this.#stream.isClosed) return reservation.release();
    attempt.reservation = reservation; // before anything that may fail: leaving the attempt releases it
    const failure = attempt.prefillCall?.failure;
    if (failure === undefined) this.#stream.send(found.request, reservation);
    else this.#losePrefill(failure);
  }

  /** Has another worker set serve the request if its own has no worker left. Returns false if none can. */
  #goElsewhere(error: ServeError): boolean {
    const { routed, choice } = this.#search;
    if (this.#stream.isClosed || error.code !== 'service_unavailable' || choice.hasUntried) return false;
    const serve = routed.elsewhere?.();
    if (serve === undefined) return false;
    this.close();
    serve();
    return true;
  }

  tryAgain(error: ServeError, worker: Worker | undefined, lost: PrefillCall | undefined): void {
    this.#stream.leave(error.worker ?? error.code);
    this.#search.failedAt(worker, error, lost);
    if (!this.#mayTryAgain(error, lost !== undefined)) {
      this.failWith(error);
      return;
    }
    this.#stream.attempt = new Attempt(this.#stream.attempt);
    this.#begin(error);
  }

  /**
   * Returns whether to try again. After a lost prefill even a request that may not move tries again, at its decode
   * pool.
   */
  #mayTryAgain(error: ServeError, isPrefillLost: boolean): boolean {
    if (this.#mayMove(error, isPrefillLost)) return true;
    return isPrefillLost && !this.#signal.aborted && this.#search.goWithoutPrefill(error);
  }

  /** Returns whether the request may move, and counts the move. */
  #mayMove(error: ServeError, isPrefillLost: boolean): boolean {
    const { hasOutput } = this.#stream;
    return !this.#signal.aborted && this.#budget.take(error, this.#report.workerId, isPrefillLost, hasOutput);
  }

  prefilledAway(attempt: Attempt, { prefillCall, report }: PrefilledAway): void {
    if (this.#stream.isClosed) prefillCall.abandon();
    if (report !== undefined) this.#notePrefilled(prefillCall, report.usage);
    else
      prefillCall.done.then(
        ({ usage }) => this.#notePrefilled(prefillCall, usage),
        () => undefined, // `lost` reports it
      );
    void prefillCall.lost.then((error) => {
      // Before the call exists, `#send` and `Handover` look at the failure.
      if (this.#stream.attempt === attempt && attempt.call !== undefined) this.#losePrefill(error);
    });
  }

  /**
   * Notes that the blocks of the prompt wait to be fetched. The client's usage shows the cached tokens of the prefill
   * worker, because the decode worker computes nothing of the prompt.
   */
  #notePrefilled(prefillCall: PrefillCall, usage: CompletionUsage | undefined): void {
    const { isClosed, attempt } = this.#stream;
    if (isClosed || attempt.prefillCall !== prefillCall) return;
    if (attempt.outputTokens === 0) prefillCall.keep();
    if (usage === undefined) return;
    const cached = usage.prompt_tokens_details?.cached_tokens;
    if (cached !== undefined) this.#report.cached(cached, prefillCall.pool);
    this.#response.output({ completion_usage: usage });
  }

  /** Starts again after a prefill failed while the decode worker waits for it. Does nothing if a token has come. */
  #losePrefill(error: ServeError): void {
    const { isClosed, attempt } = this.#stream;
    const { prefillCall, call, outputTokens } = attempt;
    if (isClosed || prefillCall === undefined || outputTokens > 0) return;
    call?.kill();
    this.tryAgain(error, undefined, prefillCall);
  }

  /** Ends an answer whose first token, made by the prefill worker, is also its last. */
  #endWith({ outputs, prefillCall }: Extract<Found, { kind: 'whole' }>): void {
    if (this.#stream.isClosed) return;
    this.#report.workers(prefillCall, prefillCall);
    for (const output of outputs) this.#stream.output(output);
    this.#stream.end();
  }

  /** Ends an answer that has all its tokens although its last worker failed. */
  #endAtLength(): void {
    this.close();
    this.#response.finishAtLength();
    this.#response.end();
  }

  failWith(error: ServeError): void {
    if (this.#stream.isClosed) return;
    this.close(isClientCancel(error) ? undefined : error.code);
    if (!this.#signal.aborted) this.#sink.fail(error);
  }

  readonly #onAbort = (): void => {
    if (this.#stream.isClosed) return;
    const { call } = this.#stream.attempt;
    this.close();
    call?.kill();
  };

  close(error?: string): void {
    const { aborted } = this.#signal;
    this.#stream.close(error, error === undefined && aborted ? 'cancelled' : undefined);
    this.#signal.removeEventListener('abort', this.#onAbort);
    this.#budget.over(aborted ? 'cancelled' : 'failure');
    this.#report.over();
    this.#context.hold?.over(this.#sink);
  }
}
