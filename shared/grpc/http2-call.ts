import { constants, type ServerHttp2Stream } from 'node:http2';
import type { Clock, Timer } from '../clock/index.ts';
import { flushAtEndOfTurn, spendOfTurn } from '../concurrency/index.ts';
import { MessageIntake, type MessageRoom } from './message-intake.ts';
import type { CallListener, GrpcCall } from './methods.ts';
import { deadlineExceeded, GrpcStatus, STATUS, statusMessage, statusOf, timeoutMsOf } from './status.ts';

/** Number of written and unsent bytes above which the client counts as slow. */
const UNREAD_BYTES_MAX = 64 * 1024;
/** Largest message that is sent together with its neighbours of the same turn of the event loop, in bytes. */
const JOINED_BYTES_MAX = 16 * 1024;

/** Time for which a client may still send after its call has ended, in milliseconds. */
const LINGER_MS = 2000;
/** Most bytes that a client may still send after its call has ended. */
const DISCARDED_BYTES_MAX = 4 * 1024 * 1024;
/** Lowest rate at which a message may arrive; a slower one ends its call. */
const BYTES_A_SECOND_MIN = 16 * 1024;

const HEAD = { ':status': 200, 'content-type': 'application/grpc', 'grpc-accept-encoding': 'identity' } as const;

/** The connection of a call, as the call sees it. */
export interface CallHost {
  /**
   * Called when a method that checks its caller asks for the message, which means that the client has passed the check.
   */
  accepted(): void;
  /** Called when the stream of the call has closed. */
  closed(call: Http2Call): void;
}

export interface Http2CallOptions {
  readonly clock: Clock;
  readonly messageBytesMax: number;
  readonly room: MessageRoom;
  readonly host: CallHost;
  /** Whether any client may call the method. If so, its calls do not make the connection trusted. */
  readonly isOpenToAll: boolean;
  /** Names and values of the header block, alternating. */
  readonly headers: readonly string[];
  readonly path: string;
}

/** One gRPC call on a stream of HTTP/2. */
export class Http2Call implements GrpcCall {
  readonly path: string;
  readonly #stream: ServerHttp2Stream;
  readonly #clock: Clock;
  readonly #headers: readonly string[];
  readonly #intake: MessageIntake;
  readonly #host: CallHost;
  readonly #isOpenToAll: boolean;
  /** Source of the signal `closed`. It is created when a caller first reads the signal. */
  #closing: AbortController | undefined;
  readonly #timer: Timer | undefined;
  #onMessage: ((message: Buffer | undefined) => void) | undefined;
  #isAccepted = false;
  #hasReceived = false;
  /** Time at which `look` first saw the call wait for its client; undefined if it has not, or no longer waits. */
  #waitsSinceMs: number | undefined;
  #isDelivering = false;
  #hasHead = false;
  #isOver = false;
  /** Whether the call has ended for a reason other than its method's `end`. */
  #isGone = false;
  /** Whether the client's `grpc-timeout` has passed. */
  #isLate = false;
  #listeners: readonly CallListener[] = [];
  #ending: GrpcStatus | 'ok' | undefined;
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  #waiters: (() => void)[] = [];

  constructor(stream: ServerHttp2Stream, options: Http2CallOptions) {
    const { clock, headers, host, isOpenToAll, messageBytesMax: bytesMax, path, room } = options;
    this.path = path;
    this.#stream = stream;
    this.#clock = clock;
    this.#headers = headers;
    this.#host = host;
    this.#isOpenToAll = isOpenToAll;
    this.#intake = new MessageIntake(stream, { bytesMax, room, onArrival: () => this.#deliver() });
    stream.on('error', () => {}); // `close` follows and is handled
    stream.once('close', () => this.#closed());
    const timeout = this.header('grpc-timeout');
    const timeoutMs = timeout === undefined ? undefined : timeoutMsOf(timeout);
    if (timeoutMs !== undefined) this.#timer = clock.after(timeoutMs, () => this.#late());
    this.#settle();
  }

  /** Whether a method that checks its caller has asked for the message of this call. */
  get isAccepted(): boolean {
    return this.#isAccepted;
  }

  get closed(): AbortSignal {
    if (this.#closing === undefined) {
      this.#closing = new AbortController();
      if (this.#isGone) this.#closing.abort();
    }
    return this.#closing.signal;
  }

  get isOver(): boolean {
    return this.#isOver || this.#ending !== undefined;
  }

  watch(listener: CallListener): () => void {
    if (this.#isLate) listener.late();
    else if (this.#isGone) listener.left();
    else this.#listeners = [...this.#listeners, listener]; // most calls have one
    return () => {
      this.#listeners = this.#listeners.filter((each) => each !== listener);
    };
  }

  header(name: string): string | undefined {
    const headers = this.#headers;
    for (let at = 0; at < headers.length; at += 2) {
      if (headers[at] === name) return headers[at + 1];
    }
    return name === 'host' ? this.header(':authority') : undefined;
  }

  headerNames(): readonly string[] {
    const names: string[] = [];
    for (let at = 0; at < this.#headers.length; at += 2) {
      const name = this.#headers[at]!; // names and values alternate
      // The search of `names` is short: a head holds a few hundred entries at most.
      if (!name.startsWith(':') && !name.endsWith('-bin') && !names.includes(name)) names.push(name);
    }
    return names;
  }

  receive(onMessage: (message: Buffer | undefined) => void): void {
    this.#onMessage = onMessage;
    if (!this.#isAccepted && !this.#isOpenToAll && !this.isOver) {
      this.#isAccepted = true;
      this.#host.accepted();
    }
    this.#deliver();
  }

  /**
   * Ends the call if its client is late with a message: with the first one, with the rest of one, or, for a method that
   * is open to all, with any. A message has `patienceMs`, and one second more for each `BYTES_A_SECOND_MIN` received.
   * @returns whether it ended the call
   */
  checkProgress(nowMs: number, patienceMs: number): boolean {
    const { isEmpty, isEnded, heldBytes } = this.#intake;
    const isWaiting = !this.#hasReceived || !isEmpty || this.#isOpenToAll;
    if (!isWaiting || this.#onMessage === undefined || isEnded || this.isOver) {
      this.#waitsSinceMs = undefined;
      return false;
    }
    this.#waitsSinceMs ??= nowMs;
    if (nowMs - this.#waitsSinceMs < patienceMs + (heldBytes / BYTES_A_SECOND_MIN) * 1000) return false;
    this.end(new GrpcStatus(STATUS.DEADLINE_EXCEEDED, 'The message did not arrive in time'));
    this.#gone();
    return true;
  }

  /**
   * Passes complete messages on while the method asks for them. It is a loop, because `onMessage` may ask for the next
   * one at once.
   */
  #deliver(): void {
    if (this.#isDelivering) return;
    this.#isDelivering = true;
    while (this.#onMessage !== undefined && !this.#isOver && this.#ending === undefined) {
      const next = this.#next();
      if (next === 'none') break;
      const onMessage = this.#onMessage;
      this.#onMessage = undefined;
      this.#hasReceived = true;
      this.#waitsSinceMs = undefined;
      try {
        onMessage(next);
      } catch (thrown) {
        this.end(statusOf(thrown));
      }
    }
    this.#isDelivering = false;
    if (this.isOver) {
      this.#intake.clear();
      return;
    }
    if (this.#onMessage === undefined) this.#intake.pause();
    else this.#intake.resume();
    this.#settle();
  }

  /** Counts the bytes that wait against the room for messages. Ends the call if there is no room for them. */
  #settle(): void {
    try {
      this.#intake.settle();
    } catch (thrown) {
      this.end(statusOf(thrown));
      this.#gone();
    }
  }

  /** Returns the next message, undefined after the last one, or 'none' if none is whole yet. */
  #next(): Buffer | undefined | 'none' {
    try {
      const message = this.#intake.next();
      if (message !== undefined) return message;
      if (!this.#intake.isEnded) return 'none';
      if (this.#intake.isEmpty) return undefined;
      throw new GrpcStatus(STATUS.INTERNAL, 'the stream ends in the middle of a message');
    } catch (thrown) {
      this.end(statusOf(thrown));
      this.#gone();
      return 'none';
    }
  }

  write(frame: Buffer | readonly Buffer[]): void {
    if (this.isOver) return;
    if (this.#pending.length === 0) flushAtEndOfTurn(this);
    for (const piece of Buffer.isBuffer(frame) ? [frame] : frame) {
      this.#pending.push(piece);
      this.#pendingBytes += piece.length;
      spendOfTurn(piece.length);
    }
  }

  isBlocked(): boolean {
    return this.#pendingBytes + this.#stream.writableLength > UNREAD_BYTES_MAX;
  }

  onUnblocked(callback: () => void): void {
    if (this.#isOver || !this.isBlocked()) {
      queueMicrotask(callback);
      return;
    }
    this.#waiters.push(callback);
    if (this.#waiters.length === 1 && this.#pendingBytes === 0) this.#stream.once('drain', () => this.#unblocked());
  }

  end(status?: GrpcStatus): void {
    if (this.isOver) return;
    this.#ending = status ?? 'ok';
    if (this.#pending.length === 0) this.flush();
  }

  /** Sends the frames that were written in this turn of the event loop, at its end. */
  flush(): void {
    if (this.#isOver) return;
    const frames = this.#pending;
    this.#pending = [];
    this.#pendingBytes = 0;
    if (this.#stream.destroyed || this.#stream.closed) return; // `close` follows and is handled
    const ending = this.#ending;
    if (frames.length === 0 && !this.#hasHead && ending instanceof GrpcStatus) {
      this.#over();
      const isSilent = this.#isSilent();
      this.#stream.respond({ ...HEAD, ...trailersOf(ending) }, { endStream: true });
      this.#stopClient(isSilent);
      return;
    }
    if (!this.#hasHead) {
      this.#hasHead = true;
      this.#stream.respond(HEAD, { waitForTrailers: true });
    }
    for (const bytes of joined(frames)) this.#stream.write(bytes);
    if (ending !== undefined) this.#endWith(ending);
    else if (this.#waiters.length > 0) {
      if (this.isBlocked()) this.#stream.once('drain', () => this.#unblocked());
      else this.#unblocked();
    }
  }

  #endWith(ending: GrpcStatus | 'ok'): void {
    this.#over();
    const stream = this.#stream;
    stream.once('wantTrailers', () => {
      const isSilent = this.#isSilent();
      stream.sendTrailers(ending === 'ok' ? { 'grpc-status': '0' } : trailersOf(ending));
      this.#stopClient(isSilent);
    });
    stream.end();
  }

  /** Whether the client has ended its side of the stream. Some of what it sent may still be unread. */
  #isSilent(): boolean {
    return this.#stream.state.state === constants.NGHTTP2_STREAM_STATE_HALF_CLOSED_REMOTE;
  }

  /**
   * Discards what the client sends after the call has ended. Resets the stream if the client continues for `LINGER_MS`
   * or sends too much. An immediate reset would overtake the status at some clients.
   * @param isSilent whether the client has ended its side
   */
  #stopClient(isSilent: boolean): void {
    const stream = this.#stream;
    if (stream.destroyed) return;
    stream.resume(); // the stream ends only when it has been read to its end
    if (isSilent) return;
    let discarded = 0;
    const reset = (): void => stream.close(constants.NGHTTP2_NO_ERROR);
    const timer = this.#clock.after(LINGER_MS, reset);
    stream.once('close', () => timer.cancel());
    this.#intake.discard((bytes) => {
      discarded += bytes;
      if (discarded > DISCARDED_BYTES_MAX) reset();
    });
  }

  #late(): void {
    this.#isLate = true;
    for (const listener of this.#listeners) listener.late();
    this.end(statusOf(deadlineExceeded())); // without effect if a listener has ended the call
    this.#gone();
  }

  #unblocked(): void {
    const waiters = this.#waiters;
    this.#waiters = [];
    for (const run of waiters) run();
  }

  #over(): void {
    this.#isOver = true;
    this.#timer?.cancel();
    this.#intake.clear();
    this.#unblocked();
  }

  #closed(): void {
    const wasOver = this.#isOver;
    this.#pending = [];
    this.#over();
    this.#host.closed(this);
    if (!wasOver) this.#gone();
  }

  /** Tells the listeners that no client waits for the call any more. */
  #gone(): void {
    this.#isGone = true;
    this.#closing?.abort();
    for (const listener of this.#listeners) listener.left();
  }
}

function trailersOf({ code, message, trailers }: GrpcStatus): Record<string, string> {
  return {
    ...trailers,
    'grpc-status': String(code),
    ...(message === '' ? {} : { 'grpc-message': statusMessage(message) }),
  };
}

/** Returns the frames with small neighbours joined into one piece. */
function joined(frames: readonly Buffer[]): readonly Buffer[] {
  if (frames.length < 2) return frames;
  const pieces: Buffer[] = [];
  let run: Buffer[] = [];
  const close = (): void => {
    if (run.length > 0) pieces.push(run.length === 1 ? run[0]! : Buffer.concat(run));
    run = [];
  };
  for (const frame of frames) {
    if (frame.length <= JOINED_BYTES_MAX) run.push(frame);
    else {
      close();
      pieces.push(frame);
    }
  }
  close();
  return pieces;
}
