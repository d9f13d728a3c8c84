import type { ServerHttp2Session, ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import type { CallHost, Http2Call } from './http2-call.ts';

/** Time for the last bytes to leave a connection that closes, in milliseconds. */
const LAST_WORDS_MS = 2000;

interface ConnectionOptions {
  /** Window of a stream after one of its calls was accepted, in bytes; undefined = it does not change then. */
  readonly windowBytes: number | undefined;
  /** Called with false when the first call is accepted, and with true when the last accepted call ends. */
  readonly onQuiet: (isQuiet: boolean) => void;
}

/**
 * A connection and its calls. The server waits for the client for a limited time, and then acts:
 *
 * | What the client owes | What the server does when it is late |
 * |---|---|
 * | the first call: a handshake, a preface, a whole head | closes the connection |
 * | the rest of a head, on a connection with calls | closes it, because a client within a head answers no ping |
 * | a message | ends the call; sends GOAWAY if all calls of the connection are late |
 * | to close the connection after GOAWAY | destroys the socket |
 */
export class Connection implements CallHost {
  readonly address: string;
  readonly #socket: Socket;
  readonly #sinceMs: number;
  readonly #options: ConnectionOptions;
  readonly #calls = new Set<Http2Call>();
  #session: ServerHttp2Session | undefined;
  #acceptedCount = 0;
  #isTrusted = false;
  /** Highest id of the streams whose heads have arrived completely. */
  #highestStream = 0;
  /** Time at which part of a head was first seen; undefined if no head is incomplete. */
  #headSinceMs: number | undefined;
  /** Time at which the session was first seen closed and without calls. */
  #closingSinceMs: number | undefined;

  constructor(socket: Socket, address: string, nowMs: number, options: ConnectionOptions) {
    this.#socket = socket;
    this.address = address;
    this.#sinceMs = nowMs;
    this.#options = options;
  }

  /** Whether a call of this connection has ever been accepted. */
  get isTrusted(): boolean {
    return this.#isTrusted;
  }

  began(session: ServerHttp2Session): void {
    this.#session = session;
  }

  called(call: Http2Call | undefined, { id = 0 }: ServerHttp2Stream): void {
    this.#highestStream = Math.max(this.#highestStream, id);
    if (call !== undefined) this.#calls.add(call);
  }

  accepted(): void {
    if (++this.#acceptedCount === 1) this.#options.onQuiet(false);
    if (this.#isTrusted) return;
    this.#isTrusted = true;
    const { windowBytes } = this.#options;
    const session = this.#session;
    if (windowBytes === undefined || session === undefined || session.destroyed) return;
    session.settings({ initialWindowSize: windowBytes });
  }

  closed(call: Http2Call): void {
    this.#calls.delete(call);
    if (call.isAccepted && --this.#acceptedCount === 0) this.#options.onQuiet(true);
  }

  /** Acts if the client has kept the server waiting for longer than `patienceMs`. */
  checkProgress(nowMs: number, patienceMs: number): void {
    const session = this.#session;
    const isClosing = session?.closed === true || session?.destroyed === true;
    if (isClosing && this.#calls.size === 0) {
      this.#closingSinceMs ??= nowMs;
      if (nowMs - this.#closingSinceMs >= LAST_WORDS_MS) this.#socket.destroy();
      return;
    }
    if (this.#highestStream === 0 && nowMs - this.#sinceMs >= patienceMs) {
      this.end();
      return;
    }
    this.#checkHead(nowMs, patienceMs);
    let lateCount = 0;
    for (const call of this.#calls) if (call.checkProgress(nowMs, patienceMs)) lateCount++;
    if (lateCount > 0 && lateCount === this.#calls.size) this.retire();
  }

  /** Asks the client to leave (GOAWAY). Calls under way continue. */
  retire(): void {
    const session = this.#session;
    if (session === undefined) this.#socket.destroy();
    else if (!session.destroyed) session.close();
  }

  /** Closes the connection at once, with a GOAWAY to the client. Ends its calls. */
  end(): void {
    const session = this.#session;
    if (session === undefined) this.#socket.destroy();
    else if (!session.destroyed) session.destroy();
  }

  destroy(): void {
    this.#session?.destroy();
    this.#socket.destroy();
  }

  /**
   * Closes the connection if a head stays incomplete for too long. A stream exists from the first byte of its head, but
   * Node reports it only when the head is complete. So a stream id above the highest reported one shows an incomplete
   * head.
   */
  #checkHead(nowMs: number, patienceMs: number): void {
    const session = this.#session;
    if (session === undefined || session.destroyed || session.closed) return;
    const { lastProcStreamID: last = 0 } = session.state;
    if (last <= this.#highestStream) {
      this.#headSinceMs = undefined;
      return;
    }
    if (this.#headSinceMs !== undefined) {
      if (nowMs - this.#headSinceMs >= patienceMs) this.end();
      return;
    }
    this.#headSinceMs = nowMs;
    session.ping(() => {
      this.#highestStream = Math.max(this.#highestStream, last); // its head has arrived, and Node refused it
    });
  }
}
