import type { Clock, Timer } from '../../clock/index.ts';
import { type ServeError, toServeError, toWire, type WireError, workerError } from '../../errors/index.ts';
import type { EngineOutput } from '../../protocol/index.ts';
import { bytesOf, type RecordPieces } from '../record-codec.ts';
import { INITIAL_CREDIT } from './client-call.ts';
import type { RequestPlaneObserver } from './observer.ts';
import type { IncomingCall, PlaneHandler } from './types.ts';

/** A receiver of the entries of a backlog when there is credit. */
type BacklogOutlet = Pick<AnswerWire, 'tokens' | 'item'>;

interface TokenRun {
  readonly choice: number;
  readonly ids: number[];
  sent: number;
}

const TOKENS_MAX = 1 << 20;
const ITEM_BYTES_MAX = 64 << 20;

/** Output of a worker for a stream without credit, in order. It holds at most 2^20 tokens and 64 MiB of items. */
class Backlog {
  #entries: (TokenRun | RecordPieces)[] = [];
  #tokens = 0;
  #itemBytes = 0;

  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }

  /** Keeps tokens. Returns false if the limit is reached and nothing was kept. */
  addTokens(choice: number, ids: ArrayLike<number>, start: number, count: number): boolean {
    if (this.#tokens + count > TOKENS_MAX) return false;
    this.#tokens += count;
    let run = this.#entries.at(-1);
    if (run === undefined || isRecord(run) || run.choice !== choice) {
      run = { choice, ids: [], sent: 0 };
      this.#entries.push(run);
    }
    for (let at = start; at < start + count; at++) run.ids.push(ids[at]!); // within the caller's range
    return true;
  }

  /** Keeps one encoded item. Returns false if the limit is reached and it was not kept. */
  addItem(record: RecordPieces): boolean {
    const bytes = bytesOf(record);
    if (this.#itemBytes + bytes > ITEM_BYTES_MAX) return false;
    this.#itemBytes += bytes;
    this.#entries.push(record);
    return true;
  }

  /** Sends as much as `credit` allows, oldest first, and returns the credit left. */
  drain(credit: number, streamId: number, outlet: BacklogOutlet): number {
    let left = credit;
    let done = 0;
    while (left > 0 && done < this.#entries.length) {
      const entry = this.#entries[done]!; // done < length
      if (isRecord(entry)) {
        this.#itemBytes -= bytesOf(entry);
        outlet.item(streamId, entry);
        left--;
        done++;
        continue;
      }
      const count = Math.min(left, entry.ids.length - entry.sent);
      outlet.tokens(streamId, entry.choice, entry.ids, entry.sent, count);
      entry.sent += count;
      this.#tokens -= count;
      left -= count;
      if (entry.sent === entry.ids.length) done++;
    }
    this.#entries.splice(0, done);
    return left;
  }

  clear(): void {
    this.#entries = [];
    this.#tokens = 0;
    this.#itemBytes = 0;
  }
}

function isRecord(entry: TokenRun | RecordPieces): entry is RecordPieces {
  return Array.isArray(entry);
}

const CREDIT_MAX = 2 ** 31;

/** Functions of the connection that a call at the worker uses. */
export interface AnswerWire {
  /** Whether the other end knows MOVE. */
  readonly hearsMoves: boolean;
  accept(streamId: number): void;
  askToMove(streamId: number): void;
  tokens(streamId: number, choice: number, ids: ArrayLike<number>, start: number, count: number): void;
  /** Encodes one item; throws an error that `IncomingCall.output` turns into a failure of the stream. */
  encodeItem(output: EngineOutput): RecordPieces;
  item(streamId: number, record: RecordPieces): void;
  end(streamId: number): void;
  /** Sends a terminal failure, before or after the stream was accepted. */
  fail(streamId: number, error: WireError, isAccepted: boolean): void;
  /** Called when the stream has ended at this side. */
  release(streamId: number): void;
  /** Whether the connection accepts no more now. `ServerCall.wireUnblocked` follows when it does again. */
  isBlocked(): boolean;
}

export type ServerCallRequest = Pick<IncomingCall, 'id' | 'endpoint' | 'headers' | 'deadlineMs' | 'body' | 'tokenIds'>;

interface ServerCallOptions {
  readonly wire: AnswerWire;
  readonly streamId: number;
  readonly request: ServerCallRequest;
  readonly clock: Clock;
  readonly observer: RequestPlaneObserver;
}

/**
 * The worker's side of one stream, the same on every transport.
 *
 * | State | output | end, fail | credit | KILL, lost, deadline |
 * |---|---|---|---|---|
 * | open | sent, or kept without credit | -> closed; -> ending when output is kept | sends what is kept | -> closed |
 * | ending | ignored | ignored | sends what is kept, then -> closed | -> closed |
 * | closed | ignored | ignored | ignored | ignored |
 */
export class ServerCall implements IncomingCall {
  readonly id: string;
  readonly endpoint: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly deadlineMs: number | undefined;
  readonly body: unknown;
  readonly tokenIds: Uint32Array | undefined;

  readonly #wire: AnswerWire;
  readonly #streamId: number;
  readonly #observer: RequestPlaneObserver;
  readonly #backlog = new Backlog();
  #isDraining = false;
  readonly #deadlineTimer: Timer | undefined;
  #state: 'open' | 'ending' | 'closed' = 'open';
  #isAccepted = false;
  #credit = INITIAL_CREDIT;
  #finalError: WireError | undefined;
  #isStopped = false;
  #wasMoved = false;
  #abortReason: ServeError | undefined;
  // Signals are created on first use, because most handlers need one of the two, and each costs microseconds.
  #aborter: AbortController | undefined;
  #stopper: AbortController | undefined;
  #waiters: (() => void)[] = [];

  constructor(options: ServerCallOptions) {
    const { request, clock } = options;
    this.id = request.id;
    this.endpoint = request.endpoint;
    this.headers = request.headers;
    this.deadlineMs = request.deadlineMs;
    this.body = request.body;
    this.tokenIds = request.tokenIds;
    this.#wire = options.wire;
    this.#streamId = options.streamId;
    this.#observer = options.observer;
    const { deadlineMs } = request;
    if (deadlineMs === undefined) return;
    this.#deadlineTimer = clock.after(deadlineMs, () =>
      this.#break(workerError('DeadlineExceeded', `no end within ${deadlineMs} ms`)),
    );
  }

  get isClosed(): boolean {
    return this.#state === 'closed';
  }

  get isStopped(): boolean {
    return this.#isStopped;
  }

  get wasMoved(): boolean {
    return this.#wasMoved;
  }

  get hearsMoves(): boolean {
    return this.#wire.hearsMoves;
  }

  get signal(): AbortSignal {
    if (this.#aborter === undefined) {
      this.#aborter = new AbortController();
      if (this.#abortReason !== undefined) this.#aborter.abort(this.#abortReason);
    }
    return this.#aborter.signal;
  }

  get stopped(): AbortSignal {
    if (this.#stopper === undefined) {
      this.#stopper = new AbortController();
      if (this.#isStopped) this.#stopper.abort(this.#stopReason());
    }
    return this.#stopper.signal;
  }

  /** Passes the call to its handler; an error or rejection fails the stream. */
  run(handler: PlaneHandler): void {
    try {
      const running = handler(this);
      if (running !== undefined) running.catch((thrown: unknown) => this.#failWith(thrown));
    } catch (thrown) {
      this.#failWith(thrown);
    }
  }

  askToMove(): void {
    if (this.#state === 'open' && this.#isAccepted && this.hearsMoves) this.#wire.askToMove(this.#streamId);
  }

  accept(): void {
    if (this.#isAccepted || this.#state === 'closed') return;
    this.#isAccepted = true;
    this.#wire.accept(this.#streamId);
  }

  tokens(choice: number, ids: ArrayLike<number>, start: number, count: number): void {
    if (this.#state !== 'open' || count <= 0) return;
    if (!this.#isAccepted) this.accept();
    if (count <= this.#credit && this.#backlog.isEmpty) {
      this.#credit -= count;
      this.#wire.tokens(this.#streamId, choice, ids, start, count);
      return;
    }
    if (this.#backlog.addTokens(choice, ids, start, count)) this.#drainBacklog();
    else this.#overflow();
  }

  output(output: EngineOutput): void {
    if (this.#state !== 'open') return;
    if (!this.#isAccepted) this.accept();
    let record: RecordPieces;
    try {
      record = this.#wire.encodeItem(output);
    } catch (thrown) {
      this.#break(toServeError(thrown));
      return;
    }
    if (this.#credit > 0 && this.#backlog.isEmpty) {
      this.#credit--;
      this.#wire.item(this.#streamId, record);
    } else if (!this.#backlog.addItem(record)) {
      this.#overflow();
    }
  }

  end(): void {
    this.#finish(undefined);
  }

  fail(error: ServeError): void {
    this.#finish(toWire(error));
  }

  isBlocked(): boolean {
    return this.#state === 'open' && (this.#credit === 0 || !this.#backlog.isEmpty || this.#wire.isBlocked());
  }

  onUnblocked(callback: () => void): void {
    if (this.isBlocked()) this.#waiters.push(callback);
    else queueMicrotask(callback);
  }

  /** Handles CREDIT. */
  grant(amount: number): void {
    if (this.#state === 'closed') return;
    this.#credit = Math.min(this.#credit + amount, CREDIT_MAX);
    this.#drainBacklog();
    this.wireUnblocked();
  }

  /** Continues when the connection accepts output again. */
  wireUnblocked(): void {
    if (this.#waiters.length === 0 || this.isBlocked()) return;
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const waiter of waiters) waiter();
  }

  /** Handles STOP. */
  stop(): void {
    if (this.#isStopped || this.#state === 'closed') return;
    this.#isStopped = true;
    this.#stopper?.abort(this.#stopReason());
  }

  /**
   * Handles KILL or the loss of the connection: no client waits any more. @param wasMoved whether another worker
   * continues
   */
  abort(reason: ServeError, wasMoved = false): void {
    if (this.#state === 'closed') return;
    this.#wasMoved = wasMoved;
    this.#observer.cancelled();
    this.#close(reason);
  }

  #finish(error: WireError | undefined): void {
    if (this.#state !== 'open') return;
    if (error === undefined && !this.#isAccepted) this.accept();
    this.#state = 'ending';
    this.#finalError = error;
    this.#endWhenDrained();
  }

  #failWith(thrown: unknown): void {
    this.#finish(toWire(thrown));
  }

  /** Sends what is kept, as far as there is credit. A wire may grant more credit while it takes output. */
  #drainBacklog(): void {
    if (this.#isDraining || this.#backlog.isEmpty) return;
    this.#isDraining = true;
    while (this.#credit > 0 && !this.#backlog.isEmpty) {
      const credit = this.#credit;
      this.#credit = 0;
      const left = this.#backlog.drain(credit, this.#streamId, this.#wire);
      this.#credit += left; // beside what was granted meanwhile
    }
    this.#isDraining = false;
    if (this.#state === 'ending') this.#endWhenDrained();
  }

  #endWhenDrained(): void {
    if (!this.#backlog.isEmpty) return;
    if (this.#finalError === undefined) this.#wire.end(this.#streamId);
    else this.#wire.fail(this.#streamId, this.#finalError, this.#isAccepted);
    this.#close(undefined);
  }

  #overflow(): void {
    this.#break(workerError('ResourceExhausted', 'the caller grants no credit and its output has reached the bound'));
  }

  /** Ends the stream at once from this side, and reports the reason to both the caller and the engine. */
  #break(error: ServeError): void {
    if (this.#state === 'closed') return;
    this.#wire.fail(this.#streamId, toWire(error), this.#isAccepted);
    this.#close(error);
  }

  #close(abortReason: ServeError | undefined): void {
    this.#state = 'closed';
    this.#deadlineTimer?.cancel();
    this.#backlog.clear();
    this.#wire.release(this.#streamId);
    if (abortReason !== undefined) {
      this.#abortReason = abortReason;
      this.#isStopped = true;
      this.#aborter?.abort(abortReason);
      this.#stopper?.abort(abortReason);
    }
    this.wireUnblocked();
  }

  #stopReason(): ServeError {
    return this.#abortReason ?? workerError('Cancelled', 'the caller asked to stop');
  }
}
