import type { Timer } from '../../../clock/index.ts';
import { fromWire, ServeError, workerError } from '../../../errors/index.ts';
import { decodeRecord, encodeRecord, RECORD_CODECS } from '../../record-codec.ts';
import type { CallerWire, ClientCall } from '../client-call.ts';
import type { PlaneRequest } from '../types.ts';
import type { ByteChannel, CallTarget, Dial } from './byte-channel.ts';
import { deliverToCall, readWireError } from './call-frames.ts';
import {
  CONNECTION_STREAM,
  FRAME_HEADER_BYTES,
  FrameError,
  FrameType,
  type FrameTypeCode,
  writeFrameHeader,
  writeU32,
} from './frame.ts';
import { FrameParser, type FrameReceiver } from './frame-parser.ts';
import type { Heartbeat, Pulse } from './heartbeat.ts';
import { Liveness } from './liveness.ts';
import { Outbox } from './outbox.ts';
import {
  codecOf,
  encodeOpenRecord,
  flagsOf,
  type Hello,
  isRecord,
  openPayloadBytes,
  writeOpenFrame,
} from './records.ts';
import { type ConnectionSettings, outboundBytesMax } from './settings.ts';
import { readTokens, type TokenReceiver } from './tokens-frame.ts';

const STREAM_ID_MAX = 0xffff_fffd;
const EMPTY = new Uint8Array(0);
const PING_PAYLOAD = new Uint8Array(8);

/** A call with what is needed to send it, maybe over another connection. */
export interface PendingOpen<Target extends CallTarget> {
  readonly call: ClientCall;
  readonly target: Target;
  readonly request: PlaneRequest;
}

/** What a connection tells the pool that owns it. */
export interface ConnectionOwner<Target extends CallTarget> {
  readonly dial: Dial<Target>;
  closed(connection: ClientConnection<Target>): void;
  /** These calls were held for a probe that failed; nothing of them was sent. */
  resend(held: readonly PendingOpen<Target>[]): void;
}

/**
 * One outbound connection with all its streams.
 *
 * | State | OPEN | connected | HELLO_ACK | GOAWAY | socket closed, refused, dead |
 * |---|---|---|---|---|---|
 * | connecting | waits in the outbox | HELLO and OPENs are written | - | - | streams fail `CannotConnect`, -> closed |
 * | greeting | written | - | -> ready | -> draining | streams fail `Disconnected`, -> closed |
 * | ready | written | - | protocol error | -> draining | as greeting |
 * | probing | held | - | protocol error | -> draining, held calls resent | held calls resent, -> closed |
 * | draining | not offered | - | protocol error | - | as greeting; closes itself after the last stream |
 */
export class ClientConnection<Target extends CallTarget> implements FrameReceiver, TokenReceiver, CallerWire, Pulse {
  readonly #target: Target;
  readonly #settings: ConnectionSettings;
  readonly #heartbeat: Heartbeat;
  readonly #owner: ConnectionOwner<Target>;
  readonly #socket: ByteChannel;
  readonly #outbox: Outbox;
  readonly #parser: FrameParser;
  readonly #liveness: Liveness;
  readonly #calls = new Map<number, ClientCall>();
  #state: 'connecting' | 'greeting' | 'ready' | 'probing' | 'draining' | 'closed' = 'connecting';
  #held: PendingOpen<Target>[] = [];
  #nextStreamId = 1;
  #sendBytesMax: number;
  #lastHeardMs: number;
  #timer: Timer; // of the connection, its greeting or a probe, whichever is under way
  #socketError: Error | undefined;

  constructor(target: Target, settings: ConnectionSettings, heartbeat: Heartbeat, owner: ConnectionOwner<Target>) {
    this.#target = target;
    this.#settings = settings;
    this.#heartbeat = heartbeat;
    this.#owner = owner;
    this.#sendBytesMax = settings.frameBytesMax;
    this.#parser = new FrameParser(this, settings.frameBytesMax);
    this.#liveness = new Liveness(heartbeat.beatsIn(settings.deadAfterMs), heartbeat.beatsIn(settings.idleAfterMs));
    this.#lastHeardMs = settings.clock.nowMs();
    this.#socket = owner.dial(target, (bytes) => this.#read(bytes));
    this.#socket.unref(); // an idle connection does not keep the process alive; a call does
    this.#outbox = new Outbox(this.#socket, settings.observer, true);
    this.#timer = settings.clock.after(settings.connectTimeoutMs, () => this.#timedOut());
    this.#watchSocket();
    this.#writeHello();
    heartbeat.add(this);
  }

  get poolKey(): string {
    return this.#target.poolKey;
  }

  /** Whether one more stream may be opened here. */
  get hasRoom(): boolean {
    const { streamsPerConnectionMax } = this.#settings;
    return (
      this.#state !== 'closed' &&
      this.#state !== 'draining' &&
      this.#calls.size + this.#held.length < streamsPerConnectionMax &&
      this.#nextStreamId <= STREAM_ID_MAX &&
      this.#outbox.pendingBytes < outboundBytesMax(this.#settings)
    );
  }

  /** Opens a stream for `pending`. Throws when the request cannot be sent; its call is untouched then. */
  open(pending: PendingOpen<Target>): void {
    if (this.#isSuspect()) this.#startProbe();
    if (this.#state === 'probing') this.#held.push(pending);
    else this.#openNow(pending);
  }

  stop(streamId: number): void {
    this.#send(FrameType.stop, streamId, EMPTY);
  }

  kill(streamId: number): void {
    this.#send(FrameType.kill, streamId, EMPTY);
  }

  credit(streamId: number, amount: number): void {
    if (this.#state === 'closed') return;
    const { waiting } = this.#outbox;
    const at = waiting.reserve(FRAME_HEADER_BYTES + 4);
    writeFrameHeader(waiting.bytes, at, 4, FrameType.credit, 0, streamId);
    writeU32(waiting.bytes, at + FRAME_HEADER_BYTES, amount);
    this.#outbox.schedule();
  }

  release(streamId: number): void {
    if (!this.#calls.delete(streamId) || this.#calls.size > 0) return;
    this.#socket.unref();
    if (this.#state !== 'draining') return;
    this.#outbox.flush(); // a KILL may wait
    this.close(workerError('Disconnected', 'drained'));
  }

  beat(): void {
    switch (this.#liveness.beat(this.#calls.size)) {
      case 'ping':
        this.#send(FrameType.ping, CONNECTION_STREAM, PING_PAYLOAD);
        break;
      case 'dead':
        this.#fault(workerError('Disconnected', `nothing heard for ${this.#settings.deadAfterMs} ms`));
        break;
      case 'idle':
        if (this.#held.length === 0) this.close(workerError('Disconnected', 'idle'));
        break;
      case 'rest':
        break;
    }
  }

  /** Closes the socket; streams still open fail with `error`. */
  close(error: ServeError): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#timer.cancel();
    this.#heartbeat.remove(this);
    this.#parser.stop();
    this.#socket.destroy();
    this.#owner.closed(this);
    for (const call of [...this.#calls.values()]) {
      try {
        call.fail(error);
      } catch (thrown) {
        call.sinkThrew(thrown);
      }
    }
    this.#resendHeld();
  }

  frame(type: FrameTypeCode, flags: number, streamId: number, bytes: Buffer, start: number, end: number): void {
    if (type === FrameType.tokens) {
      readTokens(bytes, start, end, this);
      return;
    }
    if (streamId === CONNECTION_STREAM) {
      this.#connectionFrame(type, flags, bytes, start, end);
      return;
    }
    const call = this.#calls.get(streamId);
    if (call === undefined) {
      if (streamId % 2 === 0 || streamId >= this.#nextStreamId)
        throw new FrameError(`stream ${streamId} was never opened`);
      return; // a late frame of a stream that is over
    }
    const record = decodeRecord(codecOf(flags), bytes, start, end);
    try {
      deliverToCall(call, type, record);
    } catch (thrown) {
      if (thrown instanceof FrameError) throw thrown;
      call.sinkThrew(thrown);
    }
  }

  streamTokens(streamId: number, choice: number, ids: Uint32Array, count: number): void {
    const call = this.#calls.get(streamId);
    if (call === undefined) return; // late tokens of a stream that is over
    try {
      call.tokens(choice, ids, 0, count);
    } catch (thrown) {
      call.sinkThrew(thrown);
    }
  }

  oversize(_type: FrameTypeCode, streamId: number, payloadBytes: number): void {
    const error = workerError('PayloadTooLarge', `a frame of ${payloadBytes} bytes from the worker`);
    if (streamId === CONNECTION_STREAM) this.#fault(error);
    else this.#calls.get(streamId)?.abandon(error);
  }

  #openNow(pending: PendingOpen<Target>): void {
    const { call, target, request } = pending;
    if (call.isClosed) return;
    const { codec, requestTimeoutMs } = this.#settings;
    const record = encodeOpenRecord(codec, target.endpoint, request);
    const payloadBytes = openPayloadBytes(record, request.tokenIds);
    if (payloadBytes > this.#sendBytesMax) {
      throw workerError('PayloadTooLarge', `request of ${payloadBytes} bytes; the limit is ${this.#sendBytesMax}`);
    }
    const streamId = this.#nextStreamId;
    this.#nextStreamId += 2;
    writeOpenFrame(this.#outbox.waiting, flagsOf(codec), streamId, record, request.tokenIds);
    this.#outbox.schedule();
    if (this.#calls.size === 0) this.#socket.ref();
    this.#calls.set(streamId, call);
    call.attach(this, streamId);
    if (this.#state !== 'connecting') call.sent(requestTimeoutMs);
  }

  #connectionFrame(type: FrameTypeCode, flags: number, bytes: Buffer, start: number, end: number): void {
    switch (type) {
      case FrameType.helloAck:
        this.#greeted(decodeRecord(codecOf(flags), bytes, start, end));
        break;
      case FrameType.ping:
        this.#send(FrameType.pong, CONNECTION_STREAM, bytes.subarray(start, end));
        break;
      case FrameType.pong:
        if (this.#state === 'probing') this.#probeAnswered();
        break;
      case FrameType.goAway:
        this.#drain();
        break;
      case FrameType.error:
        this.#refused(decodeRecord(codecOf(flags), bytes, start, end));
        break;
      default:
        throw new FrameError(`frame type ${type} on stream 0`);
    }
  }

  #writeHello(): void {
    const { codec, frameBytesMax, token } = this.#settings;
    const { instanceId } = this.#target;
    const hello: Hello = { proto: 1, codecs: RECORD_CODECS, maxFrame: frameBytesMax, instanceId };
    const record = encodeRecord(codec, token === undefined ? hello : { ...hello, token });
    this.#outbox.waiting.frame(FrameType.hello, flagsOf(codec), CONNECTION_STREAM, record);
  }

  #watchSocket(): void {
    this.#socket.on('connect', () => {
      this.#state = 'greeting';
      for (const call of this.#calls.values()) call.sent(this.#settings.requestTimeoutMs);
      this.#outbox.unblock();
    });
    this.#socket.on('drain', () => this.#outbox.unblock());
    this.#socket.on('error', (error) => {
      this.#socketError = error; // 'close' follows
    });
    this.#socket.on('close', () => {
      if (this.#state === 'closed') return;
      const reason = this.#socketError ?? new Error('the worker closed the connection');
      const kind = this.#state === 'connecting' ? 'CannotConnect' : 'Disconnected';
      this.#fault(reason instanceof ServeError ? reason : workerError(kind, reason));
    });
  }

  #read(bytes: Buffer): void {
    this.#liveness.heard();
    this.#lastHeardMs = this.#settings.clock.nowMs();
    this.#settings.observer.bytesReceived(bytes.length);
    try {
      this.#parser.push(bytes);
    } catch (thrown) {
      this.#fault(workerError('BackendProtocol', thrown));
    }
  }

  #greeted(ack: unknown): void {
    if (this.#state !== 'greeting') throw new FrameError('HELLO_ACK out of turn');
    if (!isRecord(ack) || typeof ack.maxFrame !== 'number') throw new FrameError('HELLO_ACK without maxFrame');
    if (ack.instanceId !== this.#target.instanceId) {
      this.close(workerError('WorkerUnavailable', `Server unavailable: ${String(ack.instanceId)} answers`));
      return;
    }
    this.#timer.cancel();
    this.#state = 'ready';
    this.#sendBytesMax = Math.min(this.#sendBytesMax, ack.maxFrame);
  }

  /** ERROR on stream 0: the worker closes the connection and says why. */
  #refused(record: unknown): void {
    const wire = readWireError(record, undefined);
    const isGreeting = this.#state === 'greeting' && wire.kind !== 'WorkerUnavailable';
    // A refused token is a fault between our own processes: the client of the API must not read it as its own.
    this.#fault(isGreeting ? workerError('CannotConnect', wire.message) : fromWire(wire));
  }

  #drain(): void {
    if (this.#state === 'closed') return;
    this.#timer.cancel();
    this.#state = 'draining';
    this.#resendHeld();
    if (this.#calls.size === 0) this.close(workerError('Disconnected', 'drained'));
  }

  #timedOut(): void {
    const kind = this.#state === 'connecting' ? 'CannotConnect' : 'ConnectionTimeout';
    this.#fault(workerError(kind, `${this.#target.poolKey} did not answer in time (${this.#state})`));
  }

  #fault(error: ServeError): void {
    this.#settings.observer.connectionError();
    this.close(error);
  }

  #send(type: FrameTypeCode, streamId: number, payload: Uint8Array): void {
    if (this.#state === 'closed') return;
    this.#outbox.waiting.frame(type, 0, streamId, payload);
    this.#outbox.schedule();
  }

  #isSuspect(): boolean {
    const { clock, suspectAfterMs } = this.#settings;
    return this.#state === 'ready' && clock.nowMs() - this.#lastHeardMs > suspectAfterMs;
  }

  #startProbe(): void {
    this.#send(FrameType.ping, CONNECTION_STREAM, PING_PAYLOAD);
    this.#state = 'probing';
    this.#socket.ref();
    this.#timer = this.#settings.clock.after(this.#settings.probeTimeoutMs, () => this.#timedOut());
  }

  #probeAnswered(): void {
    this.#timer.cancel();
    this.#state = 'ready';
    if (this.#calls.size === 0) this.#socket.unref();
    const held = this.#held;
    this.#held = [];
    for (const pending of held) pending.call.guard(() => this.#openNow(pending));
  }

  #resendHeld(): void {
    const held = this.#held;
    this.#held = [];
    if (held.length > 0) this.#owner.resend(held);
  }
}
