import type { Clock } from '../../clock/index.ts';
import { ServeError } from '../../errors/index.ts';
import type { EncodedStretches, EncodeJob } from './stretches.ts';

/** Encodes one job at a time. */
export interface Lane {
  /** Rejects when the job failed or `signal` aborted it; a lane whose promise has settled takes the next job. */
  encode(job: EncodeJob, signal: AbortSignal): Promise<EncodedStretches>;
  close(): Promise<void>;
}

export interface EncodeQueueOptions {
  readonly clock: Clock;
  /** Makes a lane when there is work for one more. */
  readonly openLane: () => Lane;
  readonly lanesMax: number;
  /** Jobs that wait; one more is refused. */
  readonly waitingMax: number;
  /** From a job's arrival to its answer. */
  readonly deadlineMs: number;
}

interface Ticket {
  readonly job: EncodeJob;
  readonly stop: AbortController;
  resolve(encoded: EncodedStretches): void;
  reject(reason: unknown): void;
}

/** Jobs in order of arrival on a bounded number of lanes, which are made when they are first needed. */
export class EncodeQueue {
  readonly #options: EncodeQueueOptions;
  readonly #lanes = new Set<Lane>();
  readonly #idle: Lane[] = [];
  readonly #waiting: Ticket[] = [];
  #isClosed = false;

  constructor(options: EncodeQueueOptions) {
    this.#options = options;
  }

  /**
   * Rejects with the signal's reason when it aborts, with `server_overloaded` when too many jobs wait, with
   * `deadline_exceeded` when it took too long.
   */
  encode(job: EncodeJob, signal?: AbortSignal): Promise<EncodedStretches> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    const isFull = this.#waiting.length >= this.#options.waitingMax && !this.#hasFreeLane();
    if (isFull || this.#isClosed) {
      return Promise.reject(new ServeError('server_overloaded', 'Too many long prompts are waiting to be tokenized'));
    }
    return new Promise((resolve, reject) => {
      const ticket = this.#ticketFor(job, signal, resolve, reject);
      this.#waiting.push(ticket);
      this.#dispatch();
    });
  }

  /** Ends the lanes; jobs under way fail. */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (const ticket of this.#waiting.splice(0)) ticket.reject(closing());
    await Promise.all([...this.#lanes].map((lane) => lane.close()));
  }

  #hasFreeLane(): boolean {
    return this.#idle.length > 0 || this.#lanes.size < this.#options.lanesMax;
  }

  #ticketFor(
    job: EncodeJob,
    signal: AbortSignal | undefined,
    resolve: (encoded: EncodedStretches) => void,
    reject: (reason: unknown) => void,
  ): Ticket {
    const { clock, deadlineMs } = this.#options;
    const stop = new AbortController();
    const settle = (act: () => void): void => {
      timer.cancel();
      signal?.removeEventListener('abort', leave);
      act();
    };
    const ticket: Ticket = {
      job,
      stop,
      resolve: (encoded) => settle(() => resolve(encoded)),
      reject: (reason) => settle(() => reject(reason)),
    };
    const giveUp = (reason: unknown): void => {
      const at = this.#waiting.indexOf(ticket);
      if (at >= 0) this.#waiting.splice(at, 1);
      ticket.reject(reason);
      stop.abort(reason);
    };
    const leave = (): void => giveUp(signal?.reason);
    const timer = clock.after(deadlineMs, () => giveUp(tooSlow()));
    signal?.addEventListener('abort', leave, { once: true });
    return ticket;
  }

  #dispatch(): void {
    while (this.#waiting.length > 0) {
      const lane = this.#idle.pop() ?? this.#openLane();
      if (lane === undefined) return;
      this.#run(lane, this.#waiting.shift() as Ticket);
    }
  }

  #openLane(): Lane | undefined {
    if (this.#lanes.size >= this.#options.lanesMax) return undefined;
    const lane = this.#options.openLane();
    this.#lanes.add(lane);
    return lane;
  }

  #run(lane: Lane, ticket: Ticket): void {
    lane
      .encode(ticket.job, ticket.stop.signal)
      .then(ticket.resolve, ticket.reject)
      .finally(() => {
        if (this.#isClosed) return;
        this.#idle.push(lane);
        this.#dispatch();
      });
  }
}

function tooSlow(): ServeError {
  return new ServeError('deadline_exceeded', 'Tokenizing the prompt took too long');
}

function closing(): ServeError {
  return new ServeError('service_unavailable', 'The frontend is shutting down');
}
