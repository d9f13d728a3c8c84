import type { ServerHttp2Session, ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import type { CallHost, Http2Call } from './http2-call.ts';

/** Time for the last bytes to leave a connection that closes, in milliseconds. */
const LAST_WORDS_MS = 2000;

interface ConnectionOptions {
  /** Bytes that a client may send on a stream once one of its calls was let in; undefined = from the start. */
  readonly windowBytes: number | undefined;
  /** Hears when the first call is let in, and when the last of those is over. */
  readonly onQuiet: (isQuiet: boolean) => void;
}

/**
 * A connection and its calls.
 *
 * | It is late when, for its time | it is |
 * |---|---|
 * | no call has come: no handshake, no preface, no whole head | ended |
 * | a head is not whole, on a connection with calls | ended: whoever is in the midst of a head answers no ping |
 * | a message has not come | told of by its call, and asked to go where that was the only one |
 * | its client does not close it, having been asked to go | destroyed |
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
  /** Of the streams whose heads have come. */
  #highestStream = 0;
  /** Since when a head is coming that is not whole. */
  #headSinceMs: number | undefined;
  /** Since when nothing is left to do but to close. */
  #closingSinceMs: number | undefined;

  constructor(socket: Socket, address: string, nowMs: number, options: ConnectionOptions) {
    this.#socket = socket;
    this.address = address;
    this.#sinceMs = nowMs;
    this.#options = options;
  }

  /** A call of it was let in once. */
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

  /** Looks whether its client keeps us waiting. */
  look(nowMs: number, patienceMs: number): void {
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
    this.#lookAtHead(nowMs, patienceMs);
    let lateCount = 0;
    for (const call of this.#calls) if (call.look(nowMs, patienceMs)) lateCount++;
    if (lateCount > 0 && lateCount === this.#calls.size) this.retire();
  }

  /** Asks its client to go: calls under way go on. */
  retire(): void {
    const session = this.#session;
    if (session === undefined) this.#socket.destroy();
    else if (!session.destroyed) session.close();
  }

  /** Tells its client, and closes. */
  end(): void {
    const session = this.#session;
    if (session === undefined) this.#socket.destroy();
    else if (!session.destroyed) session.destroy();
  }

  destroy(): void {
    this.#session?.destroy();
    this.#socket.destroy();
  }

  /** A stream exists from the first byte of its head on, and nobody is told of it before it is whole. */
  #lookAtHead(nowMs: number, patienceMs: number): void {
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
      this.#highestStream = Math.max(this.#highestStream, last); // its head has come, and was refused
    });
  }
}
