import type { Clock, Timer } from '../../clock/index.ts';
import { fromWire, ServeError, toServeError, type WireError, workerError } from '../../errors/index.ts';
import { type EngineOutput, readEngineOutput } from '../../protocol/index.ts';
import type { RequestPlaneObserver } from './observer.ts';
import type { Call, CallSink } from './types.ts';

/** Tokens or items that a worker may send before it gets more credit. */
export const INITIAL_CREDIT = 256;
const CREDIT_GRANT = INITIAL_CREDIT / 2;

/** Requests of a call to the connection that carries it. */
export interface CallerWire {
  stop(streamId: number): void;
  /** @param isMoved whether another worker continues the request */
  kill(streamId: number, isMoved: boolean): void;
  credit(streamId: number, amount: number): void;
  /** Called when the stream has ended at this side. */
  release(streamId: number): void;
  /** Stops reading the stream, on a wire without credit. */
  pause?(streamId: number): void;
  /** Reads the stream again. */
  resume?(streamId: number): void;
}

export interface ClientCallOptions {
  readonly sink: CallSink;
  readonly clock: Clock;
  readonly observer: RequestPlaneObserver;
  readonly deadlineMs: number | undefined;
  /**
   * Whether the worker sends only what it has credit for. Without credit, the wire stops reading while the call is
   * paused. @default true
   */
  readonly hasCredit?: boolean;
}

/**
 * The caller's side of one stream, the same on every transport.
 *
 * | State | accepted, output | end, failure | kill |
 * |---|---|---|---|
 * | waiting (for PROLOGUE) | -> open | -> closed | -> closed, sink silent |
 * | open | to the sink | -> closed | -> closed, sink silent |
 * | closed | ignored | ignored | ignored |
 */
export class ClientCall implements Call {
  readonly #sink: CallSink;
  readonly #clock: Clock;
  readonly #observer: RequestPlaneObserver;
  readonly #createdMs: number;
  readonly #hasCredit: boolean;
  #sentMs: number;
  #state: 'waiting' | 'open' | 'closed' = 'waiting';
  #hasOutput = false;
  #wire: CallerWire | undefined;
  #streamId = 0;
  #consumed = 0;
  #isPaused = false;
  #isStopping = false;
  #answerTimer: Timer | undefined;
  #deadlineTimer: Timer | undefined;

  constructor(options: ClientCallOptions) {
    this.#sink = options.sink;
    this.#clock = options.clock;
    this.#observer = options.observer;
    this.#createdMs = options.clock.nowMs();
    this.#sentMs = this.#createdMs; // some calls end before they are sent
    this.#hasCredit = options.hasCredit ?? true;
    this.#observer.inflight(1);
    if (options.deadlineMs === undefined) return;
    this.#deadlineTimer = options.clock.after(options.deadlineMs, () =>
      this.abandon(workerError('DeadlineExceeded', `no end within ${options.deadlineMs} ms`)),
    );
  }

  get isClosed(): boolean {
    return this.#state === 'closed';
  }

  /** Ties the call to the stream that carries it, once its request has been written. */
  attach(wire: CallerWire, streamId: number): void {
    this.#wire = wire;
    this.#streamId = streamId;
    if (this.#isStopping) wire.stop(streamId);
    if (this.#isPaused) wire.pause?.(streamId);
  }

  /** Notes that the request is on an open connection, so that its PROLOGUE is due within `requestTimeoutMs`. */
  sent(requestTimeoutMs: number): void {
    if (this.#state !== 'waiting') return;
    this.#sentMs = this.#clock.nowMs();
    this.#observer.queued((this.#sentMs - this.#createdMs) / 1000);
    this.awaits('not accepted', requestTimeoutMs);
  }

  /**
   * Waits for the next sign of the worker in place of the one before, until the call is accepted.
   * @param absence failure if none comes, as the begin of a sentence @example 'not accepted'
   */
  awaits(absence: string, withinMs: number): void {
    if (this.#state !== 'waiting') return;
    this.#answerTimer?.cancel();
    this.#answerTimer = this.#clock.after(withinMs, () =>
      this.abandon(workerError('ConnectionTimeout', `${absence} within ${withinMs} ms`)),
    );
  }

  stop(): void {
    if (this.#state === 'closed' || this.#isStopping) return;
    this.#isStopping = true;
    this.#wire?.stop(this.#streamId);
  }

  kill(why?: 'moved'): void {
    if (this.#state === 'closed') return;
    this.#wire?.kill(this.#streamId, why === 'moved');
    this.#close();
  }

  pause(): void {
    if (this.#state === 'closed' || this.#isPaused) return;
    this.#isPaused = true;
    this.#wire?.pause?.(this.#streamId);
  }

  resume(): void {
    if (this.#state === 'closed' || !this.#isPaused) return;
    this.#isPaused = false;
    this.#wire?.resume?.(this.#streamId);
    this.#grantConsumed();
  }

  /** Handles PROLOGUE. */
  accept(): void {
    if (this.#state !== 'waiting') return;
    this.#state = 'open';
    this.#answerTimer?.cancel();
    this.#observer.acknowledged((this.#clock.nowMs() - this.#sentMs) / 1000);
    this.#sink.accepted();
  }

  /** Handles tokens of one choice. */
  tokens(choice: number, ids: ArrayLike<number>, start: number, count: number): void {
    if (!this.#hasOutput) this.#noteFirstOutput();
    if (this.#state !== 'open') return;
    if (!this.#consume(count)) return;
    this.#sink.tokens(choice, ids, start, count);
  }

  /** Handles MOVE. */
  moveAsked(): void {
    if (this.#state === 'open') this.#sink.moveAsked?.();
  }

  /** Handles a DATA item. */
  output(output: EngineOutput): void {
    if (!this.#hasOutput) this.#noteFirstOutput();
    if (this.#state !== 'open') return;
    if (!this.#consume(1)) return;
    this.#sink.output(output);
  }

  /** Handles a DATA item as it came off the wire. If it is not an output, only this stream ends. */
  item(data: unknown): void {
    const output = readEngineOutput(data);
    if (typeof output === 'string') this.abandon(workerError('BackendProtocol', output));
    else this.output(output);
  }

  end(): void {
    this.accept();
    if (this.#state === 'closed') return;
    this.#close();
    this.#sink.end();
  }

  /** Handles a failure that the worker reported. */
  failRemote(error: WireError): void {
    this.fail(fromWire(error));
  }

  /** Ends the stream with `error`. The worker knows it already, or cannot be reached. */
  fail(error: ServeError): void {
    if (this.#state === 'closed') return;
    this.#close();
    this.#sink.fail(error);
  }

  /** Works like `fail`, on a later turn. */
  failLater(error: ServeError): void {
    queueMicrotask(() => this.fail(error));
  }

  /** Runs the part of `RequestPlane.call` that sends the request; its errors fail the call on a later turn. */
  guard(send: () => void): void {
    try {
      send();
    } catch (thrown) {
      this.failLater(thrown instanceof ServeError ? thrown : workerError('Internal', thrown));
    }
  }

  /** Ends the stream at both sides with `error`. */
  abandon(error: ServeError): void {
    if (this.#state === 'closed') return;
    this.#wire?.kill(this.#streamId, false);
    this.fail(error);
  }

  /**
   * Handles an error of the sink. The sink gets nothing more except the failure, and other streams of the connection
   * continue.
   */
  sinkThrew(thrown: unknown): void {
    try {
      this.abandon(toServeError(thrown));
    } catch (again) {
      queueMicrotask(() => {
        throw again; // a defect of the sink surfaces as an uncaught error, and the frames after it are still read
      });
    }
  }

  #noteFirstOutput(): void {
    this.#hasOutput = true;
    this.accept();
    if (this.#state === 'open') this.#observer.firstOutput((this.#clock.nowMs() - this.#sentMs) / 1000);
  }

  /**
   * Counts the received amounts against the granted credit. Returns false if the worker sends more. Its stream then
   * ends, because the data for a reader that waits would have no bound.
   */
  #consume(count: number): boolean {
    if (!this.#hasCredit) return true;
    this.#consumed += count;
    if (this.#consumed > INITIAL_CREDIT) {
      this.abandon(workerError('BackendProtocol', `sent ${this.#consumed} tokens or items without credit for them`));
      return false;
    }
    if (this.#consumed >= CREDIT_GRANT) this.#grantConsumed();
    return true;
  }

  #grantConsumed(): void {
    if (this.#isPaused || this.#consumed === 0) return;
    this.#wire?.credit(this.#streamId, this.#consumed);
    this.#consumed = 0;
  }

  #close(): void {
    this.#state = 'closed';
    this.#answerTimer?.cancel();
    this.#deadlineTimer?.cancel();
    this.#wire?.release(this.#streamId);
    this.#observer.inflight(-1);
  }
}
