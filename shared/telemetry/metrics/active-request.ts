import type { Clock } from '../../clock/index.ts';
import type { ModelSeries, RouteSeries } from './model-series.ts';
import type { TurnClock } from './turn-clock.ts';
import type { createWorkerFigures, WorkerLabels } from './worker-figures.ts';

const MS_PER_SECOND = 1000;

/** How a request ended, for the counters. */
export type RequestOutcome =
  | { readonly status: 'success' }
  /** `errorType` is the label of the request counter: validation, not_found, overload, cancelled, ... */
  | { readonly status: 'error'; readonly errorType: string };

/** Tokens that were counted while a request ran. */
interface RunningTokens {
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Tokens of the prompt that the worker had cached; absent if it has not said. */
  readonly cachedTokens?: number;
}

interface RequestTimes {
  readonly clock: Clock;
  /** For tokens, which come many at a time. */
  readonly turnClock: TurnClock;
  readonly startedMs: number;
}

/** Shows the figures of the last request of a worker. */
type ShowWorker = ReturnType<typeof createWorkerFigures>['setWorker'];

/** Counts one request from the handler's entry to the end of its body. */
export type RequestMeter = Pick<ActiveRequest, keyof ActiveRequest>;

/**
 * The meter of one request. It counts straight onto the model's series, which are plain numbers: nothing has to be
 * folded in at the end, and a scrape in the middle of a stream sees what has happened so far.
 *
 * | State | first `outputTokens` or `piece` | later ones | `end` |
 * |---|---|---|---|
 * | queued | TTFT, no longer queued | | no longer queued, ended |
 * | answering | | inter-token latency | ended |
 * | ended | ignored | ignored | ignored |
 */
export class ActiveRequest {
  readonly #clock: Clock;
  readonly #turnClock: TurnClock;
  readonly #model: ModelSeries;
  readonly #route: RouteSeries;
  readonly #startedMs: number;
  readonly #showWorker: ShowWorker;
  #prefill: WorkerLabels | undefined;
  #decode: WorkerLabels | undefined;
  #promptTokens = 0;
  #promptEstimate = 0;
  /** Inter-token latency of the present worker's last output. */
  #itlMs: number | undefined;
  #lastOutputMs = 0;
  #ttftMs: number | undefined;
  #outputTokens = 0;
  #pieces = 0;
  /** Tokens that the pieces hold; undefined = the worker did not say. */
  #toldTokens: number | undefined;
  #moves = 0;
  #hasPromptTokens = false;
  #hasCachedTokens = false;
  #cachedTokens = 0;
  #hasEnded = false;

  constructor(
    { clock, turnClock, startedMs }: RequestTimes,
    model: ModelSeries,
    route: RouteSeries,
    showWorker: ShowWorker,
  ) {
    this.#showWorker = showWorker;
    this.#clock = clock;
    this.#turnClock = turnClock;
    this.#model = model;
    this.#route = route;
    this.#startedMs = startedMs;
    route.started.add();
    model.inflight.add(1);
    model.active.add(1);
    model.queued.add(1);
  }

  /** Milliseconds since the handler's entry to the first token, once there was one. */
  get ttftMs(): number | undefined {
    return this.#ttftMs;
  }

  /** Tokens of its prompt and of its answer so far. */
  get usage(): RunningTokens {
    const promptTokens = this.#hasPromptTokens ? this.#promptTokens : this.#promptEstimate;
    const completionTokens = this.#outputTokens + (this.#toldTokens ?? this.#pieces);
    return { promptTokens, completionTokens, ...(this.#hasCachedTokens ? { cachedTokens: this.#cachedTokens } : {}) };
  }

  /** Worker that answers it, or answered last; undefined before it went to a worker. */
  get workerId(): string | undefined {
    return this.#decode?.workerId;
  }

  /** How often it went on at another worker. */
  get moves(): number {
    return this.#moves;
  }

  /** The prompt was tokenized. */
  promptTokens(count: number): void {
    if (this.#hasEnded || this.#hasPromptTokens) return; // a request that moves to another worker is one request
    this.#hasPromptTokens = true;
    this.#promptTokens = count;
    this.#model.inputTokens.observe(count);
  }

  /** Adds the estimated tokens of a prompt that only its worker can count. The worker's count replaces the estimate. */
  promptEstimate(count: number): void {
    this.#promptEstimate += count;
  }

  /** The worker reported how much of the prompt it had cached. */
  cachedTokens(count: number): void {
    if (this.#hasEnded || this.#hasCachedTokens) return;
    this.#hasCachedTokens = true;
    this.#cachedTokens = count;
    this.#model.cachedTokens.observe(count);
  }

  /** Who computes its prompt and who goes on from there, mostly the same one; again after a migration. */
  servedBy(prefill: WorkerLabels, decode: WorkerLabels): void {
    if (this.#hasEnded) return;
    this.#showLatency(); // of the worker before
    this.#prefill = prefill;
    this.#decode = decode;
  }

  /** It goes on at another worker. */
  moved(): void {
    this.#moves++;
  }

  /**
   * One engine output with `count` tokens arrived: the first sets TTFT, later ones count inter-token latency per token.
   */
  outputTokens(count: number): void {
    if (count <= 0 || this.#hasEnded) return;
    this.#arrived(count);
    this.#outputTokens += count;
    this.#model.outputTokens.value += count;
  }

  /** A piece of text arrived whose tokens its worker counts: for TTFT and inter-token latency it is one token. */
  piece(): void {
    if (this.#hasEnded) return;
    this.#arrived(1);
    this.#pieces++;
  }

  /**
   * The worker says how many tokens the pieces so far hold; as long as it does not, each counts as one. Adds up over
   * prompts.
   */
  piecesHold(tokens: number): void {
    this.#toldTokens = (this.#toldTokens ?? 0) + tokens;
  }

  /** Ends the request and counts its outcome. Later calls do nothing. */
  end(outcome: RequestOutcome): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#showLatency();
    const model = this.#model;
    const pieceTokens = this.#toldTokens ?? this.#pieces; // only now is it known what they hold
    model.outputTokens.value += pieceTokens;
    if (this.#ttftMs === undefined) model.queued.add(-1);
    else model.outputLength.observe(this.#outputTokens + pieceTokens);
    model.inflight.add(-1);
    model.active.add(-1);
    model.duration.observe((this.#clock.nowMs() - this.#startedMs) / MS_PER_SECOND);
    this.#route.ended(outcome.status === 'success' ? undefined : outcome.errorType).add();
  }

  #arrived(tokens: number): void {
    const nowMs = this.#turnClock.nowMs();
    if (this.#ttftMs === undefined) this.#firstToken(nowMs);
    else {
      this.#itlMs = (nowMs - this.#lastOutputMs) / tokens;
      this.#model.itl.observe(this.#itlMs / MS_PER_SECOND, tokens);
    }
    this.#lastOutputMs = nowMs;
  }

  #firstToken(nowMs: number): void {
    this.#ttftMs = Math.max(0, nowMs - this.#startedMs); // the turn's time may lie before a start in the same turn
    this.#model.ttft.observe(this.#ttftMs / MS_PER_SECOND);
    this.#model.queued.add(-1);
    if (this.#prefill === undefined) return;
    this.#showWorker(this.#prefill, { lastTtftMs: this.#ttftMs, lastInputTokens: this.#promptTokens });
  }

  /** Once for all outputs of a worker: looking its series up for each of them would cost too much. */
  #showLatency(): void {
    if (this.#decode === undefined || this.#itlMs === undefined) return;
    this.#showWorker(this.#decode, { lastItlMs: this.#itlMs });
    this.#itlMs = undefined;
  }
}
