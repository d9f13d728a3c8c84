import type { Socket } from 'node:net';
import type { Clock, Timer } from '../../../clock/index.ts';
import { reasonOf, type ServeError, workerError } from '../../../errors/index.ts';
import type { RecordPieces } from '../../record-codec.ts';
import { PacedReads } from '../frames/paced-reads.ts';
import type { RequestPlaneObserver } from '../observer.ts';
import { RecordCutter } from './record-cutter.ts';
import { readShared } from './shared-reads.ts';
import { TwoPartRules, twoPartMessage } from './two-part.ts';
import { WireFault } from './wire-fault.ts';

/** Longest first message: the subject of the stream. */
const HANDSHAKE_BYTES_MAX = 4096;
/** Longest wait for the first message, as in Dynamo. */
const HANDSHAKE_TIMEOUT_MS = 10_000;
/** Longest wait for the worker to close its end, once nothing more is read from it. */
const FAREWELL_MS = 1000;
/** Silence after which the system probes whether the machine of the worker is still there. */
const KEEP_ALIVE_MS = 15_000;

/** The connection of one answer, as its stream controls it. */
export interface AnswerConnection {
  /** Asks the worker to finish soon. */
  stop(): void;
  /** Tells the worker to drop the request, and closes. */
  kill(): void;
  /** Reads nothing more, and keeps what has arrived, until `release`. */
  hold(): void;
  /** Reads on. */
  release(): void;
  /** Closes once everything is written. Nothing more is passed on. */
  finish(): void;
}

/** A stream for which a worker dialled. */
export interface HomeStream {
  /** Takes the connection, whose messages follow. */
  arrived(connection: AnswerConnection): void;
  /** Takes the message `header | body` in `bytes`, which is valid only during the call unless `isKept`. */
  message(bytes: Buffer, headerStart: number, bodyStart: number, end: number, isKept: boolean): void;
  /** Called when no further message can come. Not called after `finish`. */
  lost(error: ServeError): void;
}

/** Streams that a listener expects. */
export interface HomeOwner {
  /** Returns the stream of `subject`, once. */
  claim(subject: string): HomeStream | undefined;
  /** Called once, when the connection has named its stream or is over. */
  greeted(connection: HomeConnection): void;
  /** Called once, when the connection is over. */
  gone(connection: HomeConnection): void;
}

interface HomeOptions {
  readonly clock: Clock;
  readonly observer: RequestPlaneObserver;
  readonly messageBytesMax: number;
  readonly owner: HomeOwner;
}

const STOP = twoPartMessage(Buffer.from('"stop"'));
const KILL = twoPartMessage(Buffer.from('"kill"'));

/**
 * A connection that a worker has dialled to deliver one answer. Its first message names the stream by its subject,
 * which only the worker of that request knows. A connection that names another subject gets `kill`, because its request
 * has ended here, and is closed.
 */
export class HomeConnection implements AnswerConnection {
  readonly #socket: Socket;
  readonly #options: HomeOptions;
  readonly #rules: TwoPartRules;
  readonly #cutter: RecordCutter;
  readonly #reads: PacedReads;
  #stream: HomeStream | undefined;
  #timer: Timer;
  #isGreeted = false;
  #isFinished = false;
  #isHeld = false;
  #isPacing = false;

  constructor(accepted: Socket, options: HomeOptions) {
    this.#options = options;
    this.#rules = new TwoPartRules(HANDSHAKE_BYTES_MAX, (bytes, headerStart, bodyStart, end, isKept) =>
      this.#message(bytes, headerStart, bodyStart, end, isKept),
    );
    this.#cutter = new RecordCutter(this.#rules);
    this.#reads = new PacedReads({ onBytes: (bytes) => this.#read(bytes), onRoom: () => this.#hasRoom() });
    this.#timer = options.clock.after(HANDSHAKE_TIMEOUT_MS, () => this.destroy());
    const socket = readShared(accepted, (bytes) => this.#received(bytes));
    this.#socket = socket;
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
    socket.on('error', () => {}); // 'close' follows
    socket.on('end', () => this.#ended());
    socket.on('close', () => this.#closed());
  }

  stop(): void {
    this.#write(STOP);
  }

  kill(): void {
    this.#write(KILL);
    this.finish();
  }

  hold(): void {
    this.#isHeld = true;
    this.#cutter.pause();
    this.#socket.pause();
  }

  release(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    try {
      this.#cutter.resume();
    } catch (thrown) {
      this.#broken(thrown);
    }
    if (!this.#isHeld && !this.#isPacing) this.#socket.resume();
    if (this.#socket.readableEnded || this.#socket.destroyed) this.#ended();
  }

  finish(): void {
    if (this.#isFinished) return;
    this.#isFinished = true;
    this.#greeted();
    this.#cutter.stop();
    this.#timer.cancel();
    this.#timer = this.#options.clock.after(FAREWELL_MS, () => this.destroy());
    this.#socket.resume(); // the rest is read and ignored: unread bytes would reset the connection before `kill` leaves
    this.#socket.end();
  }

  /** Closes at once. */
  destroy(): void {
    this.#socket.destroy();
  }

  #write(pieces: RecordPieces): void {
    if (this.#isFinished || this.#socket.destroyed) return;
    for (const piece of pieces) {
      this.#options.observer.bytesSent(piece.length);
      this.#socket.write(piece);
    }
  }

  #received(bytes: Buffer): void {
    if (this.#isFinished) return;
    this.#options.observer.bytesReceived(bytes.length);
    if (this.#reads.push(bytes)) return;
    this.#isPacing = true;
    this.#socket.pause();
  }

  #hasRoom(): void {
    this.#isPacing = false;
    if (!this.#isHeld) this.#socket.resume();
  }

  #read(bytes: Buffer): void {
    if (this.#isFinished) return;
    try {
      this.#cutter.push(bytes);
    } catch (thrown) {
      this.#broken(thrown);
    }
  }

  /** Ends the stream after a fault of the worker. */
  #broken(fault: unknown): void {
    this.#options.observer.connectionError();
    this.#write(KILL);
    this.#lose(workerError('BackendProtocol', `the worker broke the protocol: ${reasonOf(fault)}`));
  }

  #message(bytes: Buffer, headerStart: number, bodyStart: number, end: number, isKept: boolean): void {
    if (this.#stream === undefined) this.#greet(bytes.toString('utf8', headerStart, bodyStart));
    else this.#stream.message(bytes, headerStart, bodyStart, end, isKept);
  }

  #greet(header: string): void {
    const stream = this.#options.owner.claim(subjectIn(header));
    if (stream === undefined) {
      this.#options.observer.connectionError();
      this.kill();
      return;
    }
    this.#timer.cancel();
    this.#rules.messageBytesMax = this.#options.messageBytesMax;
    this.#stream = stream;
    this.#greeted();
    stream.arrived(this);
  }

  #greeted(): void {
    if (this.#isGreeted) return;
    this.#isGreeted = true;
    this.#options.owner.greeted(this);
  }

  /** Handles the end of what the worker sends. Messages that are kept go first. */
  #ended(): void {
    if (!this.#isHeld) this.#lose(workerError('Disconnected', 'the stream ended before its last item'));
  }

  #closed(): void {
    this.#reads.flush();
    this.#ended();
    this.#timer.cancel();
    this.#greeted();
    this.#options.owner.gone(this);
  }

  #lose(error: ServeError): void {
    if (this.#isFinished) return;
    this.#stream?.lost(error);
    this.finish();
  }
}

/** Returns the subject in the first message of a connection. Throws `WireFault` if it names none. */
function subjectIn(header: string): string {
  const handshake: unknown = JSON.parse(header);
  if (typeof handshake === 'object' && handshake !== null && 'subject' in handshake && 'stream_type' in handshake) {
    const { subject, stream_type: type } = handshake;
    if (typeof subject === 'string' && type === 'response') return subject;
  }
  throw new WireFault('the first message names no stream of an answer');
}
