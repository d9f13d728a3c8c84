import { connect, type Socket } from 'node:net';
import { connect as connectSecurely } from 'node:tls';
import type { Clock, Timer } from '../../../clock/index.ts';
import { reasonOf, type ServeError, workerError } from '../../../errors/index.ts';
import type { RecordPieces } from '../../record-codec.ts';
import { explainHandshake } from '../frames/peer-trust.ts';
import type { RequestPlaneObserver } from '../observer.ts';
import { clientTlsOptions, type PlaneClientTls } from '../tcp/tls.ts';
import { AckRules } from './message.ts';
import { RecordCutter } from './record-cutter.ts';

/** Bytes that may wait for a worker that does not read, before its connection takes no more. */
const WAITING_BYTES_MAX = 64 << 20;

/** Settings of the connections that carry requests. */
export interface RequestSettings {
  readonly clock: Clock;
  readonly observer: RequestPlaneObserver;
  /** Deadline of connecting, in milliseconds (`DYN_TCP_CONNECT_TIMEOUT`). */
  readonly connectTimeoutMs: number;
  /** Deadline of an acknowledgement (`DYN_TCP_REQUEST_TIMEOUT`). */
  readonly requestTimeoutMs: number;
  /** Most connections to one address (`DYN_TCP_POOL_SIZE`). */
  readonly poolSizeMax: number;
  /** Most requests without an acknowledgement on a connection (`DYN_TCP_CHANNEL_BUFFER`). */
  readonly requestsPerConnectionMax: number;
  /** Time after which a connection without requests is closed. */
  readonly idleAfterMs: number;
  /** Certificates of connections to workers; undefined = no TLS. */
  readonly tls: PlaneClientTls | undefined;
}

/** A request that waits for its acknowledgement. */
export interface UnackedRequest {
  /** Called once the request is on an open connection. */
  sent(): void;
  /** Called with the worker's answer, or the failure of the connection. */
  acknowledged(failure: ServeError | undefined): void;
}

export interface HostAddress {
  readonly host: string;
  readonly port: number;
}

/** A connection that carries requests to the workers at one address. Acknowledgements come in the order of requests. */
export class RequestConnection {
  readonly #settings: RequestSettings;
  readonly #socket: Socket;
  readonly #cutter: RecordCutter;
  readonly #onClosed: (connection: RequestConnection) => void;
  readonly #name: string;
  /** Requests without an acknowledgement, oldest first. */
  #unacked: UnackedRequest[] = [];
  #isConnected = false;
  #isClosed = false;
  #socketError: Error | undefined;
  /** Timer of the connection, of the oldest acknowledgement, or of rest. */
  #timer: Timer;

  constructor({ host, port }: HostAddress, settings: RequestSettings, onClosed: (is: RequestConnection) => void) {
    this.#settings = settings;
    this.#onClosed = onClosed;
    this.#name = `${host}:${port}`;
    this.#cutter = new RecordCutter(new AckRules((reason) => this.#acknowledged(reason)));
    const options = { host, port, noDelay: true };
    this.#socket =
      settings.tls === undefined
        ? connect(options)
        : connectSecurely({ ...options, ...clientTlsOptions(settings.tls) });
    this.#timer = settings.clock.after(settings.connectTimeoutMs, () =>
      this.close(workerError('CannotConnect', `${this.#name} did not accept a connection in time`)),
    );
    this.#socket.unref();
    this.#socket.once(settings.tls === undefined ? 'connect' : 'secureConnect', () => this.#connected());
    this.#socket.on('data', (bytes) => this.#read(bytes));
    this.#socket.on('error', (error) => {
      this.#socketError = error; // 'close' follows
    });
    this.#socket.on('close', () => this.#lost());
  }

  get hasRoom(): boolean {
    const { requestsPerConnectionMax } = this.#settings;
    return (
      !this.#isClosed &&
      this.#unacked.length < requestsPerConnectionMax &&
      this.#socket.writableLength < WAITING_BYTES_MAX
    );
  }

  /** Sends a request. @param message pieces that are not written again */
  send(message: RecordPieces, request: UnackedRequest): void {
    this.#socket.cork();
    for (const piece of message) {
      this.#settings.observer.bytesSent(piece.length);
      this.#socket.write(piece);
    }
    process.nextTick(() => this.#socket.uncork()); // requests of one turn leave together
    this.#unacked.push(request);
    if (!this.#isConnected) return;
    request.sent();
    if (this.#unacked.length === 1) this.#awaitAck();
  }

  /** Closes. Requests without an acknowledgement fail with `error`. */
  close(error: ServeError): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#timer.cancel();
    this.#cutter.stop();
    this.#socket.destroy();
    this.#onClosed(this);
    for (const request of this.#unacked.splice(0)) request.acknowledged(error);
  }

  #connected(): void {
    this.#isConnected = true;
    for (const request of this.#unacked) request.sent();
    this.#awaitAck();
  }

  /** Watches the oldest request, or rests if there is none. */
  #awaitAck(): void {
    this.#timer.cancel();
    const { clock, requestTimeoutMs, idleAfterMs } = this.#settings;
    this.#timer =
      this.#unacked.length === 0
        ? clock.after(idleAfterMs, () => this.close(workerError('Disconnected', 'idle')))
        : clock.after(requestTimeoutMs, () =>
            this.#fault(workerError('ConnectionTimeout', `not accepted within ${requestTimeoutMs} ms`)),
          );
  }

  #read(bytes: Buffer): void {
    if (this.#isClosed) return;
    this.#settings.observer.bytesReceived(bytes.length);
    try {
      this.#cutter.push(bytes);
    } catch (thrown) {
      this.#fault(workerError('BackendProtocol', thrown));
    }
  }

  #acknowledged(reason: string): void {
    const request = this.#unacked.shift();
    if (request === undefined) {
      this.#fault(workerError('BackendProtocol', 'an acknowledgement without a request'));
      return;
    }
    this.#awaitAck();
    request.acknowledged(reason === '' ? undefined : refusalOf(reason));
  }

  #lost(): void {
    const { observer } = this.#settings;
    const why = this.#socketError ?? new Error('the worker closed the connection');
    const explained = this.#isConnected ? undefined : explainHandshake(why, 'worker');
    if (explained !== undefined) {
      const reason = `TLS with it failed (${reasonOf(why)}): set DYN_TCP_TLS_* alike here and at the worker`;
      observer.peerRefused?.(this.#name, reason);
    }
    if (!this.#isClosed && this.#unacked.length > 0) observer.connectionError();
    this.close(workerError(this.#isConnected ? 'Disconnected' : 'CannotConnect', why));
  }

  #fault(error: ServeError): void {
    this.#settings.observer.connectionError();
    this.close(error);
  }
}

const REASON_LENGTH_MAX = 300;

/** Returns the failure that an acknowledgement states. */
export function refusalOf(reason: string): ServeError {
  const text = reason.slice(0, REASON_LENGTH_MAX);
  if (reason.startsWith('Server overloaded:')) return workerError('WorkerOverloaded', text);
  if (reason.startsWith('Server unavailable:') || reason.startsWith('Unknown endpoint')) {
    return workerError('WorkerUnavailable', text);
  }
  if (/too large/i.test(text)) return workerError('PayloadTooLarge', text);
  return workerError('BackendProtocol', `the worker refuses the request: ${text}`);
}
