import { constants, type ServerHttp2Stream } from 'node:http2';
import type { Clock, Timer } from '../clock/index.ts';
import { flushAtEndOfTurn, spendOfTurn } from '../concurrency/index.ts';
import { MessageIntake, type MessageRoom } from './message-intake.ts';
import type { CallListener, GrpcCall } from './methods.ts';
import { deadlineExceeded, GrpcStatus, STATUS, statusMessage, statusOf, timeoutMsOf } from './status.ts';

/** Written and not yet gone, from which on the client counts as slow. */
const UNREAD_BYTES_MAX = 64 * 1024;
/** Messages up to this size leave in one write with their neighbours of the same turn. */
const JOINED_BYTES_MAX = 16 * 1024;

/** How long a client may go on after its call is over. */
const LINGER_MS = 2000;
const DISCARDED_BYTES_MAX = 4 * 1024 * 1024;
/** A message that comes more slowly ends its call. */
const BYTES_A_SECOND_MIN = 16 * 1024;

const HEAD = { ':status': 200, 'content-type': 'application/grpc', 'grpc-accept-encoding': 'identity' } as const;

/** The connection of a call. */
export interface CallHost {
  /** Somebody who may asks for its message: its client is let in. */
  accepted(): void;
  closed(call: Http2Call): void;
}

export interface Http2CallOptions {
  readonly clock: Clock;
  readonly messageBytesMax: number;
  readonly room: MessageRoom;
  readonly host: CallHost;
  /** Anybody may call it: nobody is let in by its messages. */
  readonly isOpenToAll: boolean;
  /** Names and values of the header block, in turn. */
  readonly headers: readonly string[];
  readonly path: string;
}

/** A call on a stream of HTTP/2. */
export class Http2Call implements GrpcCall {
  readonly path: string;
  readonly #stream: ServerHttp2Stream;
  readonly #clock: Clock;
  readonly #headers: readonly string[];
  readonly #intake: MessageIntake;
  readonly #host: CallHost;
  readonly #isOpenToAll: boolean;
  /** Made when first needed. */
  #closing: AbortController | undefined;
  readonly #timer: Timer | undefined;
  #onMessage: ((message: Buffer | undefined) => void) | undefined;
  #isAccepted = false;
  #hasReceived = false;
  /** Since when its client is waited for; undefined while it is not, or was not looked at since. */
  #waitsSinceMs: number | undefined;
  #isDelivering = false;
  #hasHead = false;
  #isOver = false;
  /** Ended, and not by who serves it. */
  #isGone = false;
  /** Its time is over. */
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
    stream.on('error', () => {}); // `close` follows, and says as much
    stream.once('close', () => this.#closed());
    const timeout = this.header('grpc-timeout');
    const timeoutMs = timeout === undefined ? undefined : timeoutMsOf(timeout);
    if (timeoutMs !== undefined) this.#timer = clock.after(timeoutMs, () => this.#late());
    this.#settle();
  }

  /** It was let in, and is under way. */
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
      const name = this.#headers[at]!; // names and values come in turn
      if (!name.startsWith(':') && !name.endsWith('-bin') && !names.includes(name)) names.push(name); // a few hundred at most
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
   * Ends the call when its client lets it wait for a message for too long: for its first one, for the rest of one, and where
   * anybody may call for any. A message that comes has `patienceMs`, and a second more for so many of its bytes.
   * @returns whether it did
   */
  look(nowMs: number, patienceMs: number): boolean {
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

  /** Hands over what is whole while somebody asks; a loop, since who gets a message may ask for the next at once. */
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

  /** Counts what has come and waits; there may be no room for it. */
  #settle(): void {
    try {
      this.#intake.settle();
    } catch (thrown) {
      this.end(statusOf(thrown));
      this.#gone();
    }
  }

  /** The next message; undefined after the last one. */
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

  /** What was written in this turn leaves; called at its end. */
  flush(): void {
    if (this.#isOver) return;
    const frames = this.#pending;
    this.#pending = [];
    this.#pendingBytes = 0;
    if (this.#stream.destroyed || this.#stream.closed) return; // `close` follows, and says as much
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

  /** The client has said all: what has come of it may not have been read. */
  #isSilent(): boolean {
    return this.#stream.state.state === constants.NGHTTP2_STREAM_STATE_HALF_CLOSED_REMOTE;
  }

  /**
   * What the client says from here on is for nobody. Its stream is reset when it goes on for long: at once, the reset would
   * overtake the status at some clients.
   * @param isSilent it says nothing more
   */
  #stopClient(isSilent: boolean): void {
    const stream = this.#stream;
    if (stream.destroyed) return;
    stream.resume(); // it ends with what its client says
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
    this.end(statusOf(deadlineExceeded())); // unless who serves it has said so
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

  /** Tells its listeners that no client waits for the call any more. */
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

/** Small neighbours in one piece. */
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
