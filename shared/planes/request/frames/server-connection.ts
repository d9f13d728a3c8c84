import type { Timer } from '../../../clock/index.ts';
import { ServeError, toWire, type WireError, workerError } from '../../../errors/index.ts';
import type { EngineOutput } from '../../../protocol/index.ts';
import { bytesOf, encodeRecord, type RecordPieces } from '../../record-codec.ts';
import { type AnswerWire, ServerCall, type ServerCallRequest } from '../server-call.ts';
import type { PlaneHandler } from '../types.ts';
import { AnswerWriter } from './answer-writer.ts';
import type { ByteChannel } from './byte-channel.ts';
import {
  CONNECTION_STREAM,
  FrameError,
  FrameParser,
  type FrameReceiver,
  FrameType,
  type FrameTypeCode,
  KILL_MOVED,
  PING_BYTES_MAX,
  readU32,
} from './frame.ts';
import { type Heartbeat, Liveness, type Pulse } from './heartbeat.ts';
import { Outbox } from './outbox.ts';
import { PeerFault } from './peer-trust.ts';
import type { HelloAck, ReadHello } from './records.ts';
import { ServerGreeting } from './server-greeting.ts';
import { type ConnectionSettings, GREETING_BYTES_MAX, outboundBytesMax } from './settings.ts';
import { type OpenPayload, SlowOpens } from './slow-opens.ts';

const PING_PAYLOAD = new Uint8Array(8);
const NOTHING = new Uint8Array(0);
/** Longest time for which a caller that does not read delays the close. */
const LINGER_MS = 1000;

/** Functions of the server for its connections. */
export interface ConnectionHost {
  readonly isDraining: boolean;
  /** Returns the answer to `hello` of a caller that has proved the token. Throws a `ServeError` to refuse it. */
  greet(connection: ServerConnection, hello: ReadHello): HelloAck;
  /** Returns the handler of `endpoint`; throws `WorkerUnavailable`. */
  handlerOf(endpoint: string): PlaneHandler;
  closed(connection: ServerConnection): void;
}

/**
 * One accepted connection with all its streams.
 *
 * | State | HELLO | PROOF | OPEN | other frames | bad frame | socket closed, dead |
 * |---|---|---|---|---|---|---|
 * | greeting | with a token CHALLENGE, -> proving; else -> ready, or refused -> closed | protocol error | protocol error | protocol error | -> closed | -> closed |
 * | proving | protocol error | -> ready, or refused -> closed | protocol error | protocol error | -> closed | -> closed |
 * | ready | protocol error | protocol error | handler runs, or PROLOGUE with error | to their stream | -> closed | calls aborted, -> closed |
 */
export class ServerConnection implements FrameReceiver, AnswerWire, Pulse {
  readonly #socket: ByteChannel;
  readonly #settings: ConnectionSettings;
  readonly #heartbeat: Heartbeat;
  readonly #host: ConnectionHost;
  readonly #outbox: Outbox;
  readonly #answers: AnswerWriter;
  readonly #parser: FrameParser;
  readonly #liveness: Liveness;
  readonly #calls = new Map<number, ServerCall>();
  readonly #slowOpens: SlowOpens;
  readonly #greeting: ServerGreeting;
  readonly #greetingTimer: Timer;
  #state: 'greeting' | 'proving' | 'ready' | 'closed' = 'greeting';
  #owesPong = false;
  #lastStreamId = 0;

  constructor(socket: ByteChannel, settings: ConnectionSettings, heartbeat: Heartbeat, host: ConnectionHost) {
    this.#socket = socket;
    this.#settings = settings;
    this.#heartbeat = heartbeat;
    this.#host = host;
    this.#outbox = new Outbox(socket, settings.observer, false, () => this.#answers.seal());
    this.#answers = new AnswerWriter(this.#outbox.waiting, settings.frameBytesMax);
    this.#greeting = new ServerGreeting(settings.secret, socket);
    this.#parser = new FrameParser(this, Math.min(GREETING_BYTES_MAX, settings.frameBytesMax));
    this.#slowOpens = new SlowOpens({
      bytesMax: 2 * settings.frameBytesMax,
      opened: (streamId, request) => this.#run(streamId, request),
      refused: (streamId, error) => this.fail(streamId, toWire(error), false),
      fault: (error) => this.#refuse(workerError('BackendProtocol', error)),
    });
    // An idle caller closes its own connections, so the server waits twice as long.
    this.#liveness = new Liveness(heartbeat.beatsIn(settings.deadAfterMs), heartbeat.beatsIn(2 * settings.idleAfterMs));
    this.#greetingTimer = settings.clock.after(settings.connectTimeoutMs, () => this.#greetingTimedOut());
    socket.on('data', (chunk) => this.#read(chunk));
    socket.on('drain', () => this.#unblock());
    socket.on('error', () => settings.observer.connectionError()); // 'close' follows
    socket.on('close', () => this.#release('the caller closed the connection'));
    heartbeat.add(this);
  }

  get streamCount(): number {
    return this.#calls.size + this.#slowOpens.size;
  }

  /** Tells the caller to open no more streams here. */
  sendGoAway(): void {
    if (this.#state === 'ready') this.#sendRecord(FrameType.goAway, CONNECTION_STREAM, { reason: 'draining' });
  }

  /** Closes the socket once the written bytes have left, and aborts the calls under way. */
  close(reason: string): void {
    if (this.#state === 'closed') return;
    this.#outbox.flush(); // the END of a stream that has just finished
    this.#socket.destroySoon();
    const lingerTimer = this.#settings.clock.after(LINGER_MS, () => this.#socket.destroy());
    this.#socket.once('close', () => lingerTimer.cancel());
    this.#release(reason);
  }

  beat(): void {
    switch (this.#liveness.beat(this.#calls.size)) {
      case 'ping':
        this.#outbox.waiting.frame(FrameType.ping, CONNECTION_STREAM, PING_PAYLOAD);
        this.#schedule();
        break;
      case 'dead':
        this.#fault();
        break;
      case 'idle':
        this.close('idle');
        break;
      case 'rest':
        break;
    }
  }

  frame(type: FrameTypeCode, streamId: number, bytes: Buffer, start: number, end: number, isKept: boolean): void {
    if (this.#state !== 'ready') this.#meet(type, bytes, start, end);
    else if (type === FrameType.open) this.#open(streamId, { bytes, start, end, isKept });
    else if (streamId === CONNECTION_STREAM) this.#connectionFrame(type, bytes, start, end);
    else this.#streamFrame(type, streamId, bytes, start, end);
  }

  oversize(type: FrameTypeCode, streamId: number, payloadBytes: number): void {
    const limit = this.#parser.payloadBytesMax;
    const error = workerError('PayloadTooLarge', `a frame of ${payloadBytes} bytes; the limit is ${limit}`);
    if (this.#state !== 'ready' || type !== FrameType.open) {
      this.#refuse(error);
      return;
    }
    this.#lastStreamId = Math.max(this.#lastStreamId, streamId);
    this.fail(streamId, toWire(error), false);
  }

  accept(streamId: number): void {
    this.#answers.prologue(streamId);
    this.#schedule();
  }

  get hearsMoves(): boolean {
    return this.#greeting.hello.moves;
  }

  askToMove(streamId: number): void {
    this.#outbox.waiting.frame(FrameType.move, streamId, NOTHING);
    this.#schedule();
  }

  tokens(streamId: number, choice: number, ids: ArrayLike<number>, start: number, count: number): void {
    this.#answers.tokens(streamId, choice, ids, start, count);
    this.#schedule();
  }

  encodeItem(output: EngineOutput): RecordPieces {
    const record = this.#answers.encode({ data: output });
    const pendingBytes = this.#outbox.pendingBytes + this.#answers.pendingBytes + bytesOf(record);
    if (pendingBytes <= outboundBytesMax(this.#settings)) return record;
    throw workerError('ResourceExhausted', 'the caller does not read, and its waiting output has reached the limit');
  }

  item(streamId: number, record: RecordPieces): void {
    this.#answers.item(streamId, record);
    this.#schedule();
  }

  end(streamId: number): void {
    this.#answers.end(streamId);
    this.#schedule();
  }

  fail(streamId: number, error: WireError, isAccepted: boolean): void {
    this.#answers.fail(streamId, error, isAccepted);
    this.#schedule();
  }

  release(streamId: number): void {
    this.#calls.delete(streamId);
  }

  isBlocked(): boolean {
    return this.#outbox.isBlocked;
  }

  #read(chunk: Buffer): void {
    this.#liveness.heard();
    this.#settings.observer.bytesReceived(chunk.length);
    try {
      this.#parser.push(chunk);
    } catch (thrown) {
      this.#refuse(workerError('BackendProtocol', thrown));
    }
  }

  #unblock(): void {
    this.#outbox.unblock();
    if (this.#outbox.isBlocked) return;
    for (const call of [...this.#calls.values()]) call.wireUnblocked();
  }

  /** Handles a frame of a caller that has not been accepted yet. */
  #meet(type: FrameTypeCode, bytes: Buffer, start: number, end: number): void {
    const expected = this.#state === 'greeting' ? FrameType.hello : FrameType.proof;
    if (type !== expected)
      throw new FrameError(`frame type ${type} before ${expected === FrameType.hello ? 'HELLO' : 'PROOF'}`);
    try {
      if (type === FrameType.hello) this.#greet(bytes, start, end);
      else {
        this.#greeting.verify(bytes, start, end);
        this.#welcome();
      }
    } catch (thrown) {
      if (!(thrown instanceof ServeError)) throw thrown;
      this.#refuse(thrown);
    }
  }

  #greet(bytes: Buffer, start: number, end: number): void {
    const challenge = this.#greeting.challenge(bytes, start, end);
    if (challenge === undefined) {
      this.#welcome();
      return;
    }
    this.#state = 'proving';
    this.#outbox.waiting.frame(FrameType.challenge, CONNECTION_STREAM, challenge);
    this.#outbox.flush(); // the caller sends nothing more before the answer
  }

  /** Accepts a caller that has proved the token. */
  #welcome(): void {
    const { hello } = this.#greeting;
    const ack = this.#host.greet(this, hello);
    this.#state = 'ready';
    this.#greetingTimer.cancel();
    this.#parser.payloadBytesMax = this.#settings.frameBytesMax;
    this.#answers.payloadBytesMax = Math.min(this.#settings.frameBytesMax, hello.maxFrame);
    this.#sendRecord(FrameType.helloAck, CONNECTION_STREAM, ack);
    if (this.#host.isDraining) this.sendGoAway();
  }

  #open(streamId: number, payload: OpenPayload): void {
    if (streamId % 2 === 0 || streamId <= this.#lastStreamId) throw new FrameError(`OPEN of stream ${streamId}`);
    this.#lastStreamId = streamId;
    const request = this.#slowOpens.read(streamId, payload);
    if (request !== undefined) this.#run(streamId, request);
  }

  #run(streamId: number, request: ServerCallRequest): void {
    let handler: PlaneHandler;
    try {
      handler = this.#admit(request);
    } catch (refusal) {
      this.fail(streamId, toWire(refusal), false);
      return;
    }
    const { clock, observer } = this.#settings;
    const call = new ServerCall({ wire: this, streamId, request, clock, observer });
    this.#calls.set(streamId, call);
    call.run(handler);
  }

  #admit(request: ServerCallRequest): PlaneHandler {
    if (this.#calls.size + this.#slowOpens.size >= this.#settings.streamsPerConnectionMax) {
      throw workerError('WorkerOverloaded', 'Server overloaded: worker at capacity');
    }
    return this.#host.handlerOf(request.endpoint);
  }

  #connectionFrame(type: FrameTypeCode, bytes: Buffer, start: number, end: number): void {
    if (type === FrameType.ping) {
      if (end - start > PING_BYTES_MAX) throw new FrameError(`PING of ${end - start} bytes`);
      if (this.#owesPong && this.#outbox.isBlocked) return; // one answer is enough for a caller that does not read
      this.#owesPong = this.#outbox.isBlocked;
      this.#outbox.waiting.frame(FrameType.pong, CONNECTION_STREAM, bytes.subarray(start, end));
      this.#schedule();
    } else if (type !== FrameType.pong) {
      throw new FrameError(`frame type ${type} on stream 0`);
    }
  }

  #streamFrame(type: FrameTypeCode, streamId: number, bytes: Buffer, start: number, end: number): void {
    switch (type) {
      case FrameType.stop:
        this.#toCall(streamId, (call) => call.stop());
        break;
      case FrameType.kill: {
        const isMoved = end - start === 1 && bytes[start] === KILL_MOVED;
        this.#toCall(streamId, (call) => call.abort(workerError('Cancelled', 'killed by the caller'), isMoved));
        break;
      }
      case FrameType.credit: {
        if (end - start !== 4) throw new FrameError(`CREDIT of ${end - start} bytes`);
        const credit = readU32(bytes, start);
        this.#toCall(streamId, (call) => call.grant(credit));
        break;
      }
      default:
        throw new FrameError(`frame type ${type} from a caller`);
    }
  }

  /**
   * Passes a frame to its call. If the request of the call is still being read, the frame waits for that. A frame for a
   * call that has ended is ignored, because frames cross on the way.
   */
  #toCall(streamId: number, tell: (call: ServerCall) => void): void {
    const call = this.#calls.get(streamId);
    if (call !== undefined) tell(call);
    else this.#slowOpens.takes(streamId, () => this.#toCall(streamId, tell));
  }

  #sendRecord(type: FrameTypeCode, streamId: number, value: unknown): void {
    this.#outbox.waiting.frame(type, streamId, encodeRecord(value));
    this.#schedule();
  }

  /** Sends the reason on stream 0 and closes. */
  #refuse(error: ServeError): void {
    if (this.#state === 'closed') return;
    const wire = toWire(error);
    this.#settings.observer.connectionError();
    if (error.worker === 'Unauthenticated') this.#tell(wire.message);
    else if (error.cause instanceof PeerFault) this.#tell(error.cause.message);
    this.#sendRecord(FrameType.error, CONNECTION_STREAM, wire);
    this.close(wire.message);
  }

  /** Logs only our own words for operators. Anyone who reaches the port could fill logs with other texts. */
  #tell(reason: string): void {
    this.#settings.observer.peerRefused?.(this.#socket.remoteAddress ?? 'a caller', reason);
  }

  /** Writes at the end of the turn. Closes the connection if the caller reads nothing while it keeps sending. */
  #schedule(): void {
    this.#outbox.schedule();
    if (this.#outbox.isOverfull(this.#settings, this.#answers.pendingBytes)) queueMicrotask(() => this.#fault());
  }

  /**
   * Ends a connection whose greeting took too long. A connection that never sent a byte is not reported, because every
   * check whether a port is open looks like that.
   */
  #greetingTimedOut(): void {
    if (this.#state === 'proving') {
      this.#tell('the caller does not prove that it knows the STATOR_PLANE_TOKEN of this process');
    }
    this.#fault();
  }

  #fault(): void {
    if (this.#state === 'closed') return;
    this.#settings.observer.connectionError();
    this.#socket.destroy();
    this.#release('nothing heard from the caller');
  }

  /** Releases everything except the socket. */
  #release(reason: string): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#greetingTimer.cancel();
    this.#heartbeat.remove(this);
    this.#parser.stop();
    this.#host.closed(this);
    this.#slowOpens.clear();
    const error = workerError('Disconnected', reason);
    for (const call of [...this.#calls.values()]) call.abort(error);
  }
}
