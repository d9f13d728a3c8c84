import type { Clock, Timer } from '../../clock/index.ts';
import { BoundedMap } from '../../records/index.ts';
import type { RoutableModel, Worker } from '../models/routable-model.ts';
import { isSameProcess, nameOfProcess } from '../models/worker-sets.ts';
import type { Canary, Probe, StalledWorkers } from './stalled-workers.ts';

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
