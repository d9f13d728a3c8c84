import type { IncomingMessage } from 'node:http';
import type { WebSocket } from 'ws';
import type { Clock, Timer } from '../../../clock/index.ts';
import { type Flushable, flushAtEndOfTurn, spendOfTurn } from '../../../concurrency/index.ts';
import { LIMITS, type LimitName, openAiErrorBody, reasonOf, toServeError } from '../../../errors/index.ts';
import type { HttpApp } from '../../http/app.ts';
import { EventRoom } from './event-room.ts';
import type { SocketMemory } from './socket-memory.ts';
import { TurnExchange } from './turn-exchange.ts';
import { errorEvent, TurnSink } from './turn-sink.ts';

/** Longest life of a connection, in milliseconds, as OpenAI documents it. */
const AGE_MS_MAX = 60 * 60 * 1000;
/**
 * Interval between two pings, in milliseconds. A client that stays silent for two intervals has gone; so has one that
 * reads nothing for ten.
 */
const PING_MS = 30_000;
const SILENT_PINGS_MAX = 2;
const UNREAD_PINGS_MAX = 10;
/** Longest time for an event to arrive completely, in milliseconds, as for an HTTP body. */
const EVENT_MS_MAX = 300_000;
/** Pings that a client may send in `PING_MS`; more are not a sign of life. */
const PINGS_MAX = 1000;
/** How long a client has to close the connection, in milliseconds; it has longer while it reads what is left. */
const GOODBYE_MS = 2000;
/** Bytes that may wait for a slow client before its response waits. */
const HIGH_WATER_BYTES = 64 * 1024;

const AGED = {
  message: 'Responses websocket connection limit reached (60 minutes). Create a new websocket connection to continue.',
  type: 'invalid_request_error',
  param: null,
  code: 'websocket_connection_limit_reached',
};

/** Codes with which a connection is closed (RFC 6455). */
const CLOSE = { goingAway: 1001, notText: 1003, notAllowed: 1008, tryLater: 1013 } as const;

const GOODBYES = {
  drain: [CLOSE.goingAway, 'the server is shutting down'],
  age: [CLOSE.goingAway, '60 minutes are over'],
  room: [CLOSE.tryLater, 'another address needs one of your idle connections'],
} as const;

export interface ResponseSocketDeps {
  readonly app: HttpApp;
  readonly webSocket: WebSocket;
  /** Request that asked for the socket. */
  readonly request: IncomingMessage;
  readonly memory: SocketMemory;
  readonly clock: Clock;
  readonly onLimit: (limit: LimitName) => void;
}

/**
 * One WebSocket. Events of its client become requests of the app, one at a time, and their responses become events.
 *
 * | State | event | response over | drain, 60 minutes | client gone |
 * |---|---|---|---|---|
 * | idle | answering | - | closing | closed |
 * | answering | waits, 64 at most | the next one, or idle | closing once it is over | cancelled, closed |
 * | closing | ignored | - | - | closed |
 */
export class ResponseSocket implements Flushable {
  readonly #deps: ResponseSocketDeps;
  readonly #room: EventRoom;
  readonly #timers: Timer[] = [];
  readonly #waiting: Uint8Array[] = [];
  #sink: TurnSink | undefined;
  #endsWith: 'drain' | 'age' | 'room' | undefined;
  #isClosing = false;
  #isCorked = false;
  #pings = 0;
  #silentPings = 0;
  /** Counts at the last check: bytes that have arrived, and bytes that wait for the client. */
  #read = 0;
  #left = 0;
  /** Time since which it has been idle. */
  idleSinceMs: number;

  constructor(deps: ResponseSocketDeps) {
    const { clock, app, webSocket, request } = deps;
    this.#deps = deps;
    this.#room = new EventRoom(app.sockets.bodies, clock);
    this.idleSinceMs = clock.nowMs();
    request.socket.once('finish', () => this.#goodbyeSaid());
    // This listener must run before those of the WebSocket.
    request.socket.prependListener('data', (chunk: Uint8Array) => this.#arrived(chunk.length));
    webSocket
      .on('message', (data: Buffer, isBinary: boolean) => this.#event(data, isBinary))
      .on('ping', (data: Buffer) => this.#pinged(data))
      .on('pong', (data: Buffer) => this.#room.arrivedControl(data.length))
      .on('error', (error: Error & { code?: string }) => {
        if (error.code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH') deps.onLimit('body_bytes');
      })
      .on('close', () => this.#closed());
    this.#timers.push(
      clock.every(PING_MS, () => this.#look()),
      clock.after(AGE_MS_MAX, () => this.endOnceIdle('age')),
    );
  }

  get isIdle(): boolean {
    return this.#sink === undefined;
  }

  /** Ends the connection after the response that is under way, or at once. */
  endOnceIdle(why: 'drain' | 'age' | 'room'): void {
    this.#endsWith ??= why;
    if (this.isIdle) this.#end();
  }

  /** Sends an event. All events of a turn of the event loop leave in one write. */
  send(event: string): void {
    const { webSocket, request } = this.#deps;
    if (webSocket.readyState !== webSocket.OPEN) return;
    spendOfTurn(event.length);
    if (!this.#isCorked) {
      this.#isCorked = true;
      request.socket.cork();
      flushAtEndOfTurn(this);
    }
    webSocket.send(event);
  }

  flush(): void {
    if (!this.#isCorked) return;
    this.#isCorked = false;
    this.#deps.request.socket.uncork();
  }

  isBlocked(): boolean {
    return this.#deps.webSocket.bufferedAmount > HIGH_WATER_BYTES;
  }

  onUnblocked(callback: () => void): void {
    const { socket } = this.#deps.request;
    if (!this.isBlocked() || socket.destroyed) {
      queueMicrotask(callback);
      return;
    }
    const release = (): void => {
      socket.off('drain', release).off('close', release);
      callback();
    };
    socket.on('drain', release).on('close', release);
  }

  #arrived(bytes: number): void {
    if (this.#isClosing) return;
    try {
      this.#room.arrived(bytes);
    } catch (thrown) {
      this.#deps.onLimit('bodies_bytes');
      this.#close(CLOSE.tryLater, reasonOf(thrown));
    }
  }

  #event(data: Buffer, isBinary: boolean): void {
    if (this.#isClosing) return;
    if (isBinary) {
      this.#close(CLOSE.notText, 'events are text frames');
      return;
    }
    if (this.#waiting.length >= LIMITS.websocket_events.max) {
      this.#deps.onLimit('websocket_events');
      this.#close(CLOSE.notAllowed, `more than ${LIMITS.websocket_events.max} events wait`);
      return;
    }
    try {
      this.#room.arrivedWhole(data.length);
    } catch (thrown) {
      const error = toServeError(thrown);
      this.#deps.onLimit('bodies_bytes');
      this.send(errorEvent(error.status, openAiErrorBody(error)));
      return;
    }
    this.#waiting.push(data);
    if (this.isIdle) this.#next();
  }

  #next(): void {
    if (this.#endsWith !== undefined) {
      this.#end();
      return;
    }
    const event = this.#waiting.shift();
    if (event === undefined || this.#isClosing) {
      this.idleSinceMs = this.#deps.clock.nowMs();
      return;
    }
    const { app, request, memory } = this.#deps;
    const sink = new TurnSink(this, (isGood) => void this.#over(isGood));
    this.#sink = sink;
    app.serve(new TurnExchange({ request, event, sink, memory, onRead: () => this.#room.read(event.length) }));
  }

  async #over(isGood: boolean): Promise<void> {
    if (!isGood) await this.#deps.memory.forget();
    // Refusals must not pile up if the client does not read them.
    await new Promise<void>((resolve) => this.onUnblocked(resolve));
    this.#sink = undefined;
    this.#next();
  }

  #pinged(data: Buffer): void {
    const { webSocket } = this.#deps;
    this.#room.arrivedControl(data.length);
    if (++this.#pings > PINGS_MAX) this.#close(CLOSE.notAllowed, 'too many pings');
    else if (!this.isBlocked() && webSocket.readyState === webSocket.OPEN) webSocket.pong(data);
  }

  /** Ends the connection of a client that may have gone or takes too long; otherwise sends a ping. */
  #look(): void {
    const { webSocket, request, clock } = this.#deps;
    const { socket } = request;
    this.#pings = 0;
    const left = webSocket.bufferedAmount;
    const isUnread = left > 0;
    const isSilent = socket.bytesRead === this.#read && (!isUnread || left === this.#left);
    this.#silentPings = isSilent ? this.#silentPings + 1 : 0;
    this.#read = socket.bytesRead;
    this.#left = left;
    if (this.#silentPings >= (isUnread ? UNREAD_PINGS_MAX : SILENT_PINGS_MAX)) webSocket.terminate();
    else if (this.#room.isLate(clock.nowMs() - EVENT_MS_MAX)) this.#close(CLOSE.notAllowed, 'an event took too long');
    else if (!isUnread && webSocket.readyState === webSocket.OPEN) webSocket.ping();
  }

  #end(): void {
    if (this.#endsWith === 'age') this.send(errorEvent(400, { error: AGED }));
    const [code, reason] = GOODBYES[this.#endsWith ?? 'drain'];
    this.#close(code, reason);
  }

  #close(code: number, reason: string): void {
    if (this.#isClosing) return;
    this.#isClosing = true;
    const { webSocket, clock } = this.#deps;
    this.flush();
    webSocket.close(code, reason.slice(0, 100));
    let waiting = Number.NaN;
    this.#timers.push(
      clock.every(GOODBYE_MS, () => {
        const left = webSocket.bufferedAmount;
        if (left === 0 || left === waiting) webSocket.terminate();
        waiting = left;
      }),
    );
    this.#room.release();
    this.#waiting.length = 0;
    if (code !== CLOSE.goingAway) this.#sink?.abandon();
  }

  /**
   * Ends a connection after its last bytes have left: this side closes, and the client may still keep its side open.
   */
  #goodbyeSaid(): void {
    const { clock, request } = this.#deps;
    this.#closed();
    const timer = clock.after(GOODBYE_MS, () => request.socket.destroy());
    request.socket.once('close', () => timer.cancel());
  }

  #closed(): void {
    this.#isClosing = true;
    for (const timer of this.#timers) timer.cancel();
    this.#waiting.length = 0;
    this.#room.release();
    this.#sink?.abandon();
    this.#deps.memory.close();
  }
}
