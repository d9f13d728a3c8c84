import { Worker } from 'node:worker_threads';
import type { Clock, Timer } from '../../clock/index.ts';
import { forAtMost, Semaphore } from '../../concurrency/index.ts';
import { ServeError } from '../../errors/index.ts';
import { PatternBudgetError, TextTooLongError } from '../patterns/steps.ts';
import type { TokenizerRecipe } from '../types.ts';
import type { EncodedSegments, EncodeJob, Segments } from './segments.ts';

/** Encodes one job at a time. */
export interface Lane {
  /**
   * Encodes a job. Rejects when the job failed or `signal` aborted it. A lane takes the next job once its promise has
   * settled.
   */
  encode(job: EncodeJob, signal: AbortSignal): Promise<EncodedSegments>;
  close(): Promise<void>;
}

interface EncodeQueueOptions {
  readonly clock: Clock;
  /** Opens a lane when there is work for one more. */
  readonly openLane: () => Lane;
  readonly lanesMax: number;
  /** Number of jobs that may wait; one more is refused. */
  readonly waitingMax: number;
  /** Limit from a job's arrival to its answer. */
  readonly timeoutMs: number;
}

/** Runs jobs in order of arrival on a bounded number of lanes, which are opened when they are first needed. */
export class EncodeQueue {
  readonly #options: EncodeQueueOptions;
  readonly #lanes = new Set<Lane>();
  readonly #idle: Lane[] = [];
  readonly #slots: Semaphore;
  /** Number of jobs that wait or hold a lane. */
  #jobs = 0;
  #isClosed = false;

  constructor(options: EncodeQueueOptions) {
    this.#options = options;
    this.#slots = new Semaphore(options.lanesMax);
  }

  /**
   * Encodes a job. Rejects with the signal's reason when it aborts, with `server_overloaded` when too many jobs wait,
   * with `deadline_exceeded` when it took too long, with `service_unavailable` after `close`.
   */
  async encode(job: EncodeJob, signal?: AbortSignal): Promise<EncodedSegments> {
    signal?.throwIfAborted();
    const { clock, timeoutMs, lanesMax, waitingMax } = this.#options;
    if (this.#isClosed) throw shuttingDown();
    if (this.#jobs >= lanesMax + waitingMax) {
      throw new ServeError('server_overloaded', 'Too many long prompts are waiting to be tokenized');
    }
    let encoded: EncodedSegments | undefined;
    await forAtMost({ clock, timeoutMs, signal }, async (limited) => {
      this.#jobs++;
      try {
        encoded = await this.#slots.run(() => this.#run(job, limited), limited);
      } finally {
        this.#jobs--;
      }
    });
    if (encoded === undefined) throw new ServeError('deadline_exceeded', 'Tokenizing the prompt took too long');
    return encoded;
  }

  /** Closes the lanes; jobs under way fail, and so do those that wait. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#lanes].map((lane) => lane.close()));
  }

  /** Runs a job on a lane. A lane whose job was abandoned is idle once it has stopped. */
  async #run(job: EncodeJob, signal: AbortSignal): Promise<EncodedSegments> {
    if (this.#isClosed) throw shuttingDown();
    const lane = this.#idle.pop() ?? this.#options.openLane();
    this.#lanes.add(lane);
    try {
      return await lane.encode(job, signal);
    } finally {
      this.#idle.push(lane);
    }
  }
}

function shuttingDown(): ServeError {
  return new ServeError('service_unavailable', 'The frontend is shutting down');
}

/** Data that a thread is started with. */
export interface ThreadStart {
  /** Shared memory that holds 1 once the thread's current work is no longer wanted. */
  readonly stop: Int32Array;
}

export interface ThreadRequest extends Segments {
  readonly tokenizer: number;
  /** Recipe of the tokenizer, sent with its first request. */
  readonly recipe?: TokenizerRecipe;
  /** Number of a tokenizer that the thread may free. */
  readonly forgotten?: number;
}

/**
 * Reason why a tokenizer cannot be used for a text: its patterns take too many steps, or it cannot hold a word of that
 * length.
 */
export type Refusal = 'costly' | 'too-long';

export type ThreadAnswer = EncodedSegments | { readonly error: string; readonly refusal?: Refusal | undefined };

function toError({ error, refusal }: Extract<ThreadAnswer, { readonly error: string }>): Error {
  switch (refusal) {
    case 'costly':
      return new PatternBudgetError();
    case 'too-long':
      return new TextTooLongError();
    case undefined:
      return new Error(`encoding thread: ${error}`);
  }
}

interface ThreadLaneOptions {
  readonly clock: Clock;
  /** Path of the bundle of `encode-thread.ts`. */
  readonly entry: string;
  /** Called when the thread ended by itself. Its job has failed; the next one gets a new thread. */
  readonly onLost: (reason: Error) => void;
}

/** Number of tokenizers that one thread keeps; each is a word cache of 6 MB at most. */
const TOKENIZERS_MAX = 8;
/** Time that a segment may still take after its job was abandoned; then the thread is ended. */
const STOP_GRACE_MS = 2000;

/** Lane on a thread, which starts with the first job and again after it was lost. */
export class ThreadLane implements Lane {
  readonly #options: ThreadLaneOptions;
  readonly #stop = new Int32Array(new SharedArrayBuffer(4));
  #thread: Worker | undefined;
  /** Numbers of the tokenizers that the thread has, oldest first. */
  #known = new Map<TokenizerRecipe, number>();
  #lastNumber = 0;
  /** Ends the job under way; undefined between jobs. */
  #settle: ((answer: ThreadAnswer | Error) => void) | undefined;

  constructor(options: ThreadLaneOptions) {
    this.#options = options;
  }

  encode(job: EncodeJob, signal: AbortSignal): Promise<EncodedSegments> {
    return new Promise((resolve, reject) => {
      const { recipe } = job.tokenizer;
      if (recipe === undefined) throw new TypeError('this tokenizer exists only in its own thread');
      let impatient: Timer | undefined;
      const onAbort = (): void => {
        Atomics.store(this.#stop, 0, 1);
        impatient = this.#options.clock.after(STOP_GRACE_MS, () => this.#end(new Error('stopped')));
      };
      this.#settle = (answer) => {
        this.#settle = undefined;
        this.#thread?.unref();
        impatient?.cancel();
        signal.removeEventListener('abort', onAbort);
        if (answer instanceof Error) reject(answer);
        else if ('error' in answer) reject(toError(answer));
        else resolve(answer);
      };
      Atomics.store(this.#stop, 0, 0);
      signal.addEventListener('abort', onAbort, { once: true });
      this.#thread ??= this.#start();
      this.#thread.ref(); // a job keeps the process running
      this.#thread.postMessage(this.#requestFor(recipe, job));
    });
  }

  async close(): Promise<void> {
    await this.#drop(new Error('closed'))?.terminate();
  }

  #start(): Worker {
    const thread = new Worker(this.#options.entry, { workerData: { stop: this.#stop } satisfies ThreadStart });
    const lost = (reason: Error): void => {
      if (this.#thread !== thread) return;
      this.#options.onLost(reason);
      this.#drop(reason);
    };
    thread.on('message', (answer: ThreadAnswer) => this.#settle?.(answer));
    thread.on('error', lost);
    thread.on('exit', (code) => lost(new Error(`the encoding thread ended with code ${code}`)));
    return thread;
  }

  #end(reason: Error): void {
    this.#drop(reason)?.terminate().catch(this.#options.onLost);
  }

  /** Gives up the thread and fails its job. */
  #drop(reason: Error): Worker | undefined {
    const thread = this.#thread;
    this.#thread = undefined;
    this.#known = new Map();
    this.#settle?.(reason);
    return thread;
  }

  #requestFor(recipe: TokenizerRecipe, { texts, addSpecialTokens, enoughTokens }: EncodeJob): ThreadRequest {
    const work = { texts, addSpecialTokens, enoughTokens };
    const known = this.#known.get(recipe);
    if (known !== undefined) return { ...work, tokenizer: known };
    const tokenizer = this.#lastNumber++;
    const [oldest] = this.#known;
    const isFull = this.#known.size >= TOKENIZERS_MAX;
    if (isFull && oldest !== undefined) this.#known.delete(oldest[0]);
    this.#known.set(recipe, tokenizer);
    return { ...work, tokenizer, recipe, ...(isFull && oldest !== undefined ? { forgotten: oldest[1] } : {}) };
  }
}
