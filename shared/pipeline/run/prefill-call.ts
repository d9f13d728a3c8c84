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
import type { WatchedStream } from './stalled-workers.ts';
import { Waiting } from './waiting.ts';
import { avoidAfter } from './worker-choice.ts';

/** What a prefill worker made of a prompt. */
export interface PrefillReport {
  /** Everything it said, the parameters of the handoff left out. */
  readonly outputs: readonly EngineOutput[];
  /** How the blocks can be had; undefined = it does not say. */
  readonly disaggregatedParams: unknown;
  readonly usage: CompletionUsage | undefined;
  /** The answer ends with its first token: nothing is left to decode. */
  readonly isWhole: boolean;
}

export interface PrefillCallOptions {
  readonly context: DispatchContext;
  readonly model: RoutableModel;
  readonly pool: PrefillPool['pool'];
  readonly reservation: Reservation<Worker>;
  /** As sent: one token, the rank named. */
  readonly request: EngineRequest;
  readonly headers: Readonly<Record<string, string>>;
  /** Whether another prefill worker could be tried. */
  readonly hasOther: () => boolean;
  /** Of this call, where spans are made; ends with it. */
  readonly span?: Span | undefined;
}

/**
 * The first call of a disaggregated request: one call to one prefill worker.
 *
 * | State | worker ends | worker fails | worker is silent | abandon | fetched |
 * |---|---|---|---|---|---|
 * | running | done | failed | failed | abandoned, worker told to stop | - |
 * | abandoned | over; its blocks released if it has kept any | over | over | - | - |
 * | done, kept | - | - | failed, its blocks released | its blocks released | over |
 * | done | - | - | - | its blocks released | - |
 * | failed | - | - | - | - | - |
 */
export class PrefillCall implements CallSink, WatchedStream {
  /** Resolves with the report; rejects with a ServeError. Never settles once the call is abandoned. */
  readonly done: Promise<PrefillReport>;
  /** Resolves with the reason when there is nothing to go on from: the worker failed, or fell silent before `fetched`. */
  readonly lost: Promise<ServeError>;
  showedLife = false;
  readonly hasBegun = false; // one token at the end is all that there is
  readonly isPaused = false;
  /** `Clock.nowMs` when the worker was done. */
  endedAtMs: number | undefined;
  failure: ServeError | undefined;
  readonly #options: PrefillCallOptions;
  readonly #outputs: EngineOutput[] = []; // of one token
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
    this.done.catch(() => undefined); // whoever waits for it is told; a call in the background has nobody who waits
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

  /** Its worker is done, and has to live until a decode worker has fetched the blocks. */
  keep(): void {
    const { context, model } = this.#options;
    context.streamWatch?.add(this, this.worker, model);
  }

  /** Its worker may do now as it likes. Idempotent. */
  fetched(): void {
    this.#options.context.streamWatch?.delete(this);
  }

  /** Nobody goes on from what the worker computes: it is told to free that. Idempotent. */
  abandon(): void {
    if (this.#isAbandoned) return;
    this.#isAbandoned = true;
    this.#options.reservation.release(); // its id may be booked again at once
    this.span?.set({ ended_by: 'abandoned' });
    this.span?.end(); // unless it has ended
    if (this.#isOver) this.fetched(); // or by nobody
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
    avoidAfter(this.#options.context, this.worker.id, error);
    this.#failWith(error);
  }

  timedOut(): void {
    this.#call?.kill();
    this.fail(workerError('ResponseTimeout'));
  }

  /** One token is not worth two workers at once: the prompt is begun anew where it can be, and stays where it cannot. */
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
    this.fetched(); // by nobody: its blocks cannot be had
    this.#release(); // should the worker come back
    this.#failWith(workerError('ResponseTimeout'));
  }

  /** What a worker said that ended without a failure, and is none the less one. */
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

  /** A request with the handoff of another one: frees what it holds. Nothing else ends before the worker's own time-out. */
  #release(): void {
    const { context, request } = this.#options;
    if (this.#params === undefined && request.bootstrapInfo === undefined) return;
    const release = encodeEngineRequest({
      ...request,
      input: { kind: 'tokens', tokenIds: new Uint32Array(1) }, // the prompt need not travel again
      annotations: [RELEASE_PREFILL],
      ...(this.#params === undefined ? {} : { prefillResult: { disaggregated_params: this.#params } }),
    });
    const sink: CallSink = { accepted() {}, tokens() {}, output() {}, end() {}, fail() {} }; // it helps or it does not
    const sent = { id: `release-${request.id}`, headers: {}, deadlineMs: RELEASE_MS, ...release };
    context.plane.call(this.worker.transport, sent, sink);
  }
}

const RELEASE_MS = 5000;
