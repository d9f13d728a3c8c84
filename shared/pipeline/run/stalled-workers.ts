import type { Clock, Random, Timer } from '../../clock/index.ts';
import type { CallSink, RequestPlane } from '../../planes/index.ts';
import { type EngineRequest, encodeEngineRequest, healthCheckRequest } from '../../protocol/index.ts';
import { BoundedMap } from '../../records/index.ts';
import type { RoutableModel, Worker } from '../models/routable-model.ts';
import { isSameProcess, nameOfProcess } from '../models/worker-sets.ts';
import type { WorkerObserver } from '../pipeline.ts';

/** The outcome of a canary. `taken`: the worker has accepted it, but its engine has sent nothing. */
type Canary = 'passed' | 'taken' | 'failed';

/** Sends one canary to a worker. Returns undefined if none can be made for the model; never rejects. */
type Probe = (worker: Worker, model: RoutableModel) => Promise<Canary> | undefined;

interface StalledWorkersOptions {
  readonly clock: Clock;
  readonly probe: Probe;
  /** Pause between two canaries to a worker. */
  readonly pauseMs: number;
  /** Returns whether discovery still lists the worker at its address. If it does not, the worker is forgotten. */
  isListed(worker: Worker): boolean;
  /** Called when a worker may take requests again. */
  onRecovered(): void;
  readonly observer: Partial<WorkerObserver>;
}

/** The workers that are stalled now. */
export interface Stalled {
  readonly size: number;
  /** Returns whether a worker is stalled. A standby that takes over the id of a stalled worker is not. */
  has(worker: Worker): boolean;
}

/**
 * Workers that get no new request until a canary passes.
 *
 * | State | add | canary passes | canary fails | gone from discovery |
 * |---|---|---|---|---|
 * | fine | stalled, canary sent | - | - | - |
 * | stalled | - | fine | canary again after the pause | forgotten |
 */
export class StalledWorkers implements Stalled {
  readonly #options: StalledWorkersOptions;
  /** Workers by id, of two processes with one id the latest. Bounded by the workers in discovery. */
  readonly #workers = new Map<string, Worker>();
  readonly #pauses = new Set<Timer>();
  #isClosed = false;

  constructor(options: StalledWorkersOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#workers.size;
  }

  /** Ids of the workers, for tests. */
  get ids(): ReadonlySet<string> {
    return new Set(this.#workers.keys());
  }

  has(worker: Worker): boolean {
    const stalled = this.#workers.get(worker.id);
    return stalled !== undefined && isSameProcess(stalled, worker);
  }

  /** Notes a worker as stalled. Does nothing if no canary can be made, because no canary could then clear it. */
  add(worker: Worker, model: RoutableModel): void {
    if (this.#isClosed || this.has(worker)) return;
    // The standby that has taken over the id is stalled, too, and stays noted
    if (this.#workers.has(worker.id) && !this.#options.isListed(worker)) return;
    const probing = this.#options.probe(worker, model);
    if (probing === undefined) return;
    this.#workers.set(worker.id, worker);
    this.#options.observer.workerStalled?.(model.primaryName, worker.id);
    void this.#follow(worker, model, probing);
  }

  /** Sends no more canaries. */
  close(): void {
    this.#isClosed = true;
    for (const pause of this.#pauses) pause.cancel();
  }

  async #follow(worker: Worker, model: RoutableModel, first: Promise<Canary>): Promise<void> {
    const { probe, observer, isListed, onRecovered } = this.#options;
    let probing: Promise<Canary> | undefined = first;
    while (probing !== undefined && isListed(worker)) {
      const hasPassed = (await probing) === 'passed';
      if (this.#isClosed) return;
      observer.canary?.(hasPassed ? 'passed' : 'failed');
      if (hasPassed) break;
      await this.#pause();
      probing = probe(worker, model);
    }
    if (this.has(worker)) this.#workers.delete(worker.id);
    observer.workerRecovered?.(model.primaryName, worker.id);
    onRecovered();
  }

  #pause(): Promise<void> {
    const { clock, pauseMs } = this.#options;
    return new Promise((resolve) => {
      const timer = clock.after(pauseMs, () => {
        this.#pauses.delete(timer);
        resolve();
      });
      this.#pauses.add(timer);
    });
  }
}

interface CanaryOptions {
  /** Returns the token with which texts of the model begin, if it is known. @default unknown for all models */
  bosTokenOf?(model: RoutableModel): Promise<number | undefined>;
  readonly plane: RequestPlane;
  readonly clock: Clock;
  readonly random: Random;
  /** Longest time until the first output. */
  readonly timeoutMs: number;
}

/** Returns a probe that sends requests for one token over the request plane. */
export function canaryProbe(options: CanaryOptions): Probe {
  const { random, bosTokenOf } = options;
  return (worker, model) => {
    const { card } = model;
    const probed = { model: card.display_name, input: card.model_input, types: card.model_type };
    const request = (bosTokenId?: number) => healthCheckRequest(`canary-${random.uuid()}`, { ...probed, bosTokenId });
    if (request() === undefined) return undefined;
    const unknown = (): undefined => undefined; // the code that tries to load the model has logged the failure
    const known = card.model_input === 'Tokens' && bosTokenOf !== undefined;
    const asked = known ? bosTokenOf(model).catch(unknown).then(request) : Promise.resolve(request());
    return asked.then((canary) => (canary === undefined ? 'failed' : sendCanary(worker, canary, options)));
  };
}

function sendCanary(worker: Worker, request: EngineRequest, { plane, clock, timeoutMs }: CanaryOptions) {
  const sent = { id: request.id, headers: {}, deadlineMs: timeoutMs, ...encodeEngineRequest(request) };
  return new Promise<Canary>((resolve) => {
    const settle = (canary: Canary): void => {
      timer.cancel();
      resolve(canary);
    };
    let onSilence: Canary = 'failed';
    const sink: CallSink = {
      accepted: () => {
        onSilence = 'taken';
      },
      tokens: () => settle('passed'),
      output: () => settle('passed'),
      end: () => settle('failed'), // without effect after an output
      fail: () => settle('failed'),
    };
    const timer = clock.after(timeoutMs, () => {
      call.kill();
      settle(onSilence);
    });
    const call = plane.call(worker.transport, sent, sink);
  });
}

/** A stream that may fall silent. */
export interface WatchedStream {
  /**
   * Set by the stream at every sign of life of its worker, and cleared by the watch. It costs only one store a token.
   */
  showedLife: boolean;
  /** Whether the client reads too slowly. Silence then says nothing about the worker. */
  readonly isPaused: boolean;
  /** Whether the present worker has begun to answer. */
  readonly hasBegun: boolean;
  readonly promptTokens: number;
  /** Whether the worker has sent everything and must only stay alive. No silence is too long then. @default false */
  readonly isDone?: boolean;
  /** Called when the stream has been silent for longer than `silenceMsMax`. It is then no longer watched. */
  timedOut(): void;
  /** Called when the worker is stalled, so that the stream may move; again after each further `stallMs` if it stays. */
  stalled(): void;
}

interface StreamWatchOptions {
  readonly clock: Clock;
  /** Longest silence of any stream (`DYN_HTTP_BACKEND_STREAM_TIMEOUT_SECS`), 0 = no bound. */
  readonly silenceMsMax: number;
  /** Silence after which a worker is in doubt (`STATOR_STREAM_STALL_SECS`), 0 = never. */
  readonly stallMs: number;
  readonly probe: Probe;
  readonly stalledWorkers: StalledWorkers;
  /** Time for a worker's first answer while no worker that has answered before can take its requests. @default 0 */
  readonly warmUpMs?: number | undefined;
  /**
   * Returns the model with its present workers; undefined = it is no longer served. @default the model of the stream
   */
  modelNow?(model: RoutableModel): RoutableModel | undefined;
}

interface Entry {
  readonly stream: WatchedStream;
  readonly worker: WatchedWorker;
  /** `Clock.nowMs` of the sweep that saw the last sign of life. */
  lastMs: number;
}

interface WatchedWorker {
  readonly worker: Worker;
  /** Name of the worker in `FirstAnswers`. */
  readonly name: string;
  readonly model: RoutableModel;
  readonly entries: Set<Entry>;
  /** `Clock.nowMs` of the sweep that saw the last sign of life of any of its streams. */
  lastMs: number;
  isProbed: boolean;
}

/** Processes in `FirstAnswers` at most; the oldest are forgotten. */
const REMEMBERED_MAX = 10_000;

/**
 * Remembers which processes of workers have ever answered this process, by `nameOfProcess`. An engine may need to
 * compile before its first answer, and so may a standby that takes over the id of a worker.
 */
class FirstAnswers {
  /** `Clock.nowMs` of the first request; undefined once it has answered. */
  readonly #askedMs = new BoundedMap<string, number | undefined>(REMEMBERED_MAX);

  asked(name: string, nowMs: number): void {
    if (!this.#askedMs.has(name)) this.#askedMs.set(name, nowMs);
  }

  answered(name: string): void {
    if (!this.has(name)) this.#askedMs.set(name, undefined);
  }

  has(name: string): boolean {
    return this.#askedMs.has(name) && this.#askedMs.get(name) === undefined;
  }

  /** Returns for how long the first answer has been awaited. */
  awaitedMs(name: string, nowMs: number): number {
    return nowMs - (this.#askedMs.get(name) ?? nowMs);
  }
}

/** Time that a prompt may take before silence counts. Engines compute several tokens in a millisecond. */
const PREFILL_MS_PER_TOKEN = 1;

/**
 * Notices streams whose worker has been silent for too long. One coarse timer serves all streams and runs only while
 * there are any. It notices a silence at most a quarter of the limit too late.
 *
 * | Silent for `stallMs` | other streams of the worker | effect |
 * |---|---|---|
 * | a stream that has begun | get output | the worker is stalled, the stream moves |
 * | a stream that has not begun | get output | it waits, because a full engine makes requests wait |
 * | every stream | - | a canary; if it fails and no stream has shown life, the worker is stalled and its streams move |
 * | every stream of a worker that has never answered | - | none while it accepts canaries, has time to warm up, and no worker that has answered can take over |
 */
export class StreamWatch {
  readonly #options: StreamWatchOptions;
  readonly #entries = new Map<WatchedStream, Entry>(); // bounded by the streams of the process
  readonly #workers = new Set<WatchedWorker>();
  /** The latest process with each id. */
  readonly #latest = new Map<string, WatchedWorker>();
  readonly #firstAnswers = new FirstAnswers();
  #timer: Timer | undefined;

  constructor(options: StreamWatchOptions) {
    this.#options = options;
  }

  add(stream: WatchedStream, worker: Worker, model: RoutableModel): void {
    const { clock, silenceMsMax, stallMs } = this.#options;
    const nowMs = clock.nowMs();
    let watched = this.#latest.get(worker.id);
    if (watched === undefined || !isSameProcess(watched.worker, worker)) {
      watched = { worker, name: nameOfProcess(worker), model, entries: new Set(), lastMs: nowMs, isProbed: false };
      this.#latest.set(worker.id, watched);
      this.#workers.add(watched);
    }
    this.#firstAnswers.asked(watched.name, nowMs);
    const entry: Entry = { stream, worker: watched, lastMs: nowMs };
    watched.entries.add(entry);
    this.#entries.set(stream, entry);
    const boundMs = Math.min(silenceMsMax || Number.POSITIVE_INFINITY, stallMs || Number.POSITIVE_INFINITY);
    this.#timer ??= clock.every(boundMs / 8, () => this.#sweep());
  }

  delete(stream: WatchedStream): void {
    const entry = this.#entries.get(stream);
    if (entry === undefined) return;
    this.#entries.delete(stream);
    entry.worker.entries.delete(entry);
    if (entry.worker.entries.size === 0) this.#forget(entry.worker);
    if (this.#entries.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #forget(watched: WatchedWorker): void {
    const { id } = watched.worker;
    this.#workers.delete(watched);
    if (this.#latest.get(id) === watched) this.#latest.delete(id);
  }

  #sweep(): void {
    const { clock, silenceMsMax, stallMs } = this.#options;
    const nowMs = clock.nowMs();
    for (const entry of this.#entries.values()) {
      const { stream, worker } = entry;
      if (stream.showedLife) worker.lastMs = nowMs;
      if (stream.showedLife || stream.hasBegun) this.#firstAnswers.answered(worker.name);
      if (stream.showedLife || stream.isPaused || stream.isDone) entry.lastMs = nowMs;
      stream.showedLife = false;
    }
    if (silenceMsMax > 0) this.#timeOut(nowMs - silenceMsMax);
    if (stallMs > 0) for (const worker of [...this.#workers]) this.#judge(worker, nowMs);
  }

  #timeOut(untilMs: number): void {
    for (const { stream, worker, lastMs } of [...this.#entries.values()]) {
      if (lastMs > untilMs) continue;
      this.delete(stream);
      this.#options.stalledWorkers.add(worker.worker, worker.model);
      stream.timedOut();
    }
  }

  #judge(worker: WatchedWorker, nowMs: number): void {
    const { stallMs } = this.#options;
    const entries = [...worker.entries];
    if (entries.every(({ stream }) => stream.isPaused)) worker.lastMs = nowMs; // it must not send anything
    const silentMs = nowMs - worker.lastMs;
    if (silentMs >= stallMs) {
      if (silentMs >= stallMs + longestPrefillMs(entries)) this.#doubt(worker, nowMs);
      return;
    }
    const silent = entries.filter(({ stream, lastMs }) => stream.hasBegun && nowMs - lastMs >= stallMs);
    if (silent.length > 0) this.#stall(worker, silent);
  }

  /** Sends a canary to a worker whose streams are all silent: perhaps there is only nothing to send yet. */
  #doubt(worker: WatchedWorker, sinceMs: number): void {
    if (worker.isProbed) return;
    const probing = this.#options.probe(worker.worker, worker.model);
    if (probing === undefined) return;
    worker.isProbed = true;
    void probing.then((canary) => {
      worker.isProbed = false;
      if (canary === 'passed') this.#firstAnswers.answered(worker.name);
      if (this.#hasStalled(worker, canary, sinceMs)) this.#stall(worker, [...worker.entries]);
      else this.#countAnew(worker);
    });
  }

  /** Whether a worker that got a canary is stalled. @param sinceMs time of the canary, after which it may show life */
  #hasStalled(worker: WatchedWorker, canary: Canary, sinceMs: number): boolean {
    if (canary === 'passed') return false;
    const isSilent = worker.lastMs <= sinceMs && ![...worker.entries].some(({ stream }) => stream.showedLife);
    const isExcused = canary === 'taken' && this.#isWarmingUp(worker);
    return isSilent && !isExcused;
  }

  #countAnew(worker: WatchedWorker): void {
    worker.lastMs = this.#options.clock.nowMs();
    for (const entry of worker.entries) entry.lastMs = worker.lastMs;
  }

  /**
   * Whether a worker may still warm up: it has never answered, has time left, and no worker that has could replace it.
   */
  #isWarmingUp({ worker, name, model }: WatchedWorker): boolean {
    const { clock, warmUpMs = 0, stalledWorkers, modelNow } = this.#options;
    if (this.#firstAnswers.has(name)) return false;
    if (this.#firstAnswers.awaitedMs(name, clock.nowMs()) >= warmUpMs) return false;
    const members = membersOf(worker, modelNow?.(model) ?? model);
    return !members.some((member) => this.#firstAnswers.has(nameOfProcess(member)) && !stalledWorkers.has(member));
  }

  #stall({ worker, model }: WatchedWorker, entries: readonly Entry[]): void {
    const nowMs = this.#options.clock.nowMs();
    this.#options.stalledWorkers.add(worker, model);
    for (const entry of entries) {
      entry.lastMs = nowMs; // a stream that stays gets the next call after another `stallMs`
      if (!entry.stream.isPaused) entry.stream.stalled();
    }
  }
}

/** Returns the workers of the model that have the same role as `worker`. */
function membersOf(worker: Worker, { workers, prefill, encoders = [] }: RoutableModel): readonly Worker[] {
  const pools = [workers, prefill?.workers ?? [], encoders];
  return pools.find((pool) => pool.some(({ id }) => id === worker.id)) ?? workers;
}

/** Returns the time that the longest prompt not yet computed may take. */
function longestPrefillMs(entries: readonly Entry[]): number {
  let tokens = 0;
  for (const { stream } of entries) if (!stream.hasBegun) tokens = Math.max(tokens, stream.promptTokens);
  return tokens * PREFILL_MS_PER_TOKEN;
}
