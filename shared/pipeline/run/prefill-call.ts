import { type ServeError, workerError } from '../../errors/index.ts';
import type { Call, CallSink } from '../../planes/index.ts';
import {
  type CompletionUsage,
  type EngineOutput,
  type EngineRequest,
  encodeEngineRequest,
  RELEASE_PREFILL,
} from '../../protocol/index.ts';
import type { Reservation } from '../../router/index.ts';
import type { Span } from '../../telemetry/index.ts';
import { failureInFinish, isGivenUp, toldReason } from '../answer/worker-output.ts';
import type { PrefillPool, RoutableModel, Worker } from '../models/routable-model.ts';
import type { DispatchContext } from './run-context.ts';
import type { WatchedStream } from './stream-watch.ts';
import { Waiting } from './waiting.ts';
import { avoidAfter } from './worker-choice.ts';

/** The answer of a prefill worker. */
export interface PrefillReport {
  /** All its outputs, without the parameters of the handoff. */
  readonly outputs: readonly EngineOutput[];
  /** Parameters with which a decode worker fetches the blocks; undefined = the worker has sent none. */
  readonly disaggregatedParams: unknown;
  readonly usage: CompletionUsage | undefined;
  /** Whether the answer ends with its first token, so that nothing is left to decode. */
  readonly isWhole: boolean;
}

export interface PrefillCallOptions {
  readonly context: DispatchContext;
  readonly model: RoutableModel;
  readonly pool: PrefillPool['pool'];
  readonly reservation: Reservation<Worker>;
  /** The request as sent: one token to generate, and the rank. */
  readonly request: EngineRequest;
  readonly headers: Readonly<Record<string, string>>;
  /** Returns whether another prefill worker could be tried. */
  readonly hasOther: () => boolean;
  /** Span of this call, which ends with it; undefined if no spans are made. */
  readonly span?: Span | undefined;
}

/**
 * The prefill of a disaggregated request: one call to one prefill worker.
 *
 * | State | worker ends | worker fails | worker is silent | abandon | fetched |
 * |---|---|---|---|---|---|
 * | running | done | failed | failed | abandoned, the call sends STOP | - |
 * | abandoned | over; its blocks released if it has kept any | over | over | - | - |
 * | done, kept | - | - | failed, its blocks released | its blocks released | over |
 * | done | - | - | - | its blocks released | - |
 * | failed | - | - | - | - | - |
 */
export class PrefillCall implements CallSink, WatchedStream {
  /** Resolves with the report; rejects with a ServeError. Never settles after `abandon`. */
  readonly done: Promise<PrefillReport>;
  /** Resolves with the reason when the blocks are lost: the worker failed, or fell silent before `fetched`. */
  readonly lost: Promise<ServeError>;
  showedLife = false;
  readonly hasBegun = false; // the only token comes at the end
  readonly isPaused = false;
  /** `Clock.nowMs` when the worker ended its stream. */
  endedAtMs: number | undefined;
  failure: ServeError | undefined;
  readonly #options: PrefillCallOptions;
  readonly #outputs: EngineOutput[] = []; // few, because the request is for one token
  #params: unknown;
  #usage: CompletionUsage | undefined;
  #call: Call | undefined;
  #waiting: Waiting | undefined;
  #isOver = false;
  #isAbandoned = false;
  #resolve: (report: PrefillReport) => void = () => {};
  #reject: (error: ServeError) => void = () => {};
  #lose: (error: ServeError) => void = () => {};

  constructor(options: PrefillCallOptions) {
    this.#options = options;
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.lost = new Promise((resolve) => {
      this.#lose = resolve;
    });
    this.done.catch(() => undefined); // with a rendezvous no code may wait for `done`; `lost` reports the failure
  }

  get span(): Span | undefined {
    return this.#options.span;
  }

  get worker(): Worker {
    return this.#options.reservation.worker;
  }

  /** Data-parallel rank that computes the prompt; undefined = the worker's own choice. */
  get dpRank(): number | undefined {
    return this.#options.reservation.dpRank;
  }

  get pool(): PrefillPool['pool'] {
    return this.#options.pool;
  }

  get promptTokens(): number {
    const { input } = this.#options.request;
    return input.kind === 'tokens' ? input.tokenIds.length : 0;
  }

  start(): void {
    const { context, model, request, headers } = this.#options;
    const sent = { id: request.id, headers, ...encodeEngineRequest(request) };
    context.streamWatch?.add(this, this.worker, model);
    this.#waiting = new Waiting(context.observer, context.clock, 'prefill');
    this.#call = context.plane.call(this.worker.transport, sent, this);
  }

  get isDone(): boolean {
    return this.#isOver;
  }

  /** Watches the worker, which is done, until a decode worker has fetched the blocks. */
  keep(): void {
    const { context, model } = this.#options;
    context.streamWatch?.add(this, this.worker, model);
  }

  /** Stops watching the worker, because it no longer needs to keep the blocks. Idempotent. */
  fetched(): void {
    this.#options.context.streamWatch?.delete(this);
  }

  /** Tells the worker to stop and to free its blocks, because no decode worker will fetch them. Idempotent. */
  abandon(): void {
    if (this.#isAbandoned) return;
    this.#isAbandoned = true;
    this.#options.reservation.release(); // now, because the next reservation may have the same id
    this.span?.set({ ended_by: 'abandoned' });
    this.span?.end(); // without effect if it has ended
    if (this.#isOver) this.fetched(); // ends the watch
    if (!this.#isOver) this.#call?.stop();
    else if (this.failure === undefined) this.#release();
  }

  accepted(): void {
    this.showedLife = true;
  }

  tokens(index: number, ids: ArrayLike<number>, start: number, count: number): void {
    const token_ids = Array.from({ length: count }, (_, at) => ids[start + at] as number); // inside the caller's range
    this.output({ token_ids, index });
  }

  output(output: EngineOutput): void {
    this.showedLife = true;
    this.#waiting?.end(true);
    this.#waiting = undefined;
    const { disaggregated_params: params, ...said } = output;
    if (params != null) this.#params = params;
    if (output.completion_usage != null) this.#usage = output.completion_usage;
    this.#outputs.push(said);
  }

  end(): void {
    if (this.#isOver) return;
    this.#close();
    this.endedAtMs = this.#options.context.clock.nowMs();
    if (this.#isAbandoned) {
      this.#release();
      return;
    }
    const failure = this.#failureSaid();
    if (failure !== undefined) {
      this.#failWith(failure);
      return;
    }
    const reason = this.#outputs.findLast(({ finish_reason }) => finish_reason != null)?.finish_reason;
    const isWhole = reason != null && toldReason(reason) !== 'length';
    this.span?.end();
    this.#resolve({ outputs: this.#outputs, disaggregatedParams: this.#params, usage: this.#usage, isWhole });
  }

  fail(error: ServeError): void {
    if (this.#isOver) return;
    this.#close();
    avoidAfter(this.#options.context, this.worker, error);
    this.#failWith(error);
  }

  timedOut(): void {
    this.#call?.kill();
    this.fail(workerError('ResponseTimeout'));
  }

  /** Starts the prompt again at another prefill worker, if there is one. A handover is not worth it for one token. */
  moveAsked(): void {
    if (this.#isOver || this.#isAbandoned || !this.#options.hasOther()) return;
    this.#call?.kill('moved');
    this.fail(workerError('EngineShutdown', 'the worker is about to end'));
  }

  stalled(): void {
    if (!this.#isOver) {
      this.timedOut();
      return;
    }
    this.fetched(); // ends the watch: no worker can fetch the blocks any more
    this.#release(); // in case the worker comes back
    this.#failWith(workerError('ResponseTimeout'));
  }

  /** Returns the failure that the outputs report although the stream has ended normally. */
  #failureSaid(): ServeError | undefined {
    const last = this.#outputs.at(-1);
    if (last === undefined) return workerError('StreamIncomplete', 'the prefill worker said nothing');
    for (const { finish_reason: reason } of this.#outputs) {
      const failure = failureInFinish(reason);
      if (failure !== undefined) return failure;
      if (isGivenUp(reason)) return workerError('StreamIncomplete', 'the prefill worker dropped the request');
    }
    return undefined;
  }

  #failWith(error: ServeError): void {
    this.failure = error;
    this.span?.end(error.worker ?? error.code);
    this.#reject(error);
    this.#lose(error);
  }

  #close(): void {
    this.#isOver = true;
    this.#waiting?.end(false);
    this.#waiting = undefined;
    const { context, reservation } = this.#options;
    context.streamWatch?.delete(this);
    reservation.prefillDone();
    reservation.release();
  }

  /** Sends the request that frees the blocks of the handoff. Otherwise the worker holds them until its own timeout. */
  #release(): void {
    const { context, request } = this.#options;
    if (this.#params === undefined && request.bootstrapInfo === undefined) return;
    const release = encodeEngineRequest({
      ...request,
      input: { kind: 'tokens', tokenIds: new Uint32Array(1) }, // the prompt need not travel again
      annotations: [RELEASE_PREFILL],
      ...(this.#params === undefined ? {} : { prefillResult: { disaggregated_params: this.#params } }),
    });
    const sink: CallSink = { accepted() {}, tokens() {}, output() {}, end() {}, fail() {} }; // ignores the answer
    const sent = { id: `release-${request.id}`, headers: {}, deadlineMs: RELEASE_MS, ...release };
    context.plane.call(this.worker.transport, sent, sink);
  }
}

const RELEASE_MS = 5000;
