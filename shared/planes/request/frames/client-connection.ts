import type { Timer } from '../../../clock/index.ts';
import { fromWire, ServeError, workerError } from '../../../errors/index.ts';
import { decodeRecord } from '../../record-codec.ts';
import type { CallerWire, ClientCall } from '../client-call.ts';
import type { PlaneRequest } from '../types.ts';
import type { ByteChannel, CallTarget, Dial } from './byte-channel.ts';
import { ClientGreeting } from './client-greeting.ts';
import {
  CONNECTION_STREAM,
  FRAME_HEADER_BYTES,
  FrameError,
  FrameParser,
  type FrameReceiver,
  FrameType,
  type FrameTypeCode,
  KILL_MOVED,
  PING_BYTES_MAX,
  readTokens,
  type TokenReceiver,
  writeFrameHeader,
  writeU32,
} from './frame.ts';
import { type Heartbeat, Liveness, type Pulse } from './heartbeat.ts';
import { Outbox } from './outbox.ts';
import { explainHandshake, NO_PROOF, PeerFault, quotePeer, toPeerFault } from './peer-trust.ts';
import { deliverToCall, readHelloAck, readWireError, writeOpenFrame } from './records.ts';
import { type ConnectionSettings, GREETING_BYTES_MAX, outboundBytesMax } from './settings.ts';
import { SlowStreams } from './slow-streams.ts';

const STREAM_ID_MAX = 0xffff_fffd;
const EMPTY = new Uint8Array(0);
const MOVED = Uint8Array.of(KILL_MOVED);
/** Most bytes in a HELLO_ACK or ERROR: an instance, the names of its endpoints, a reason. */
const CONNECTION_RECORD_BYTES_MAX = 64 << 10;
const PING_PAYLOAD = new Uint8Array(8);

/** A call and everything needed to send it, so that another connection can send it again. */
export interface PendingOpen<Target extends CallTarget> {
  readonly call: ClientCall;
  readonly target: Target;
  readonly request: PlaneRequest;
}

/** Callbacks of a connection to its pool. */
export interface ConnectionOwner<Target extends CallTarget> {
  readonly dial: Dial<Target>;
  closed(connection: ClientConnection<Target>): void;
  /** Called with calls that waited for a probe that failed. No byte of them was sent. */
  resend(held: readonly PendingOpen<Target>[]): void;
}

/**
 * One outbound connection with all its streams. The file is long because it is one state machine.
 *
 * | State | OPEN | connected | CHALLENGE | HELLO_ACK | GOAWAY | socket closed, refused, dead |
 * |---|---|---|---|---|---|---|
 * | connecting | waits in the outbox | with a token HELLO is written, -> proving; else HELLO and OPENs, -> greeting | - | - | - | streams fail `CannotConnect`, -> closed |
 * | proving | waits in the outbox | - | right: PROOF and OPENs are written, -> greeting | as closed | as closed | as connecting |
 * | greeting | written | - | protocol error | -> ready | -> draining | streams fail `Disconnected`, -> closed |
 * | ready | written | - | protocol error | protocol error | -> draining | as greeting |
 * | probing | held | - | protocol error | protocol error | -> draining, held calls resent | held calls resent, -> closed |
 * | draining | not offered | - | protocol error | protocol error | - | as greeting; closes itself after the last stream |
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
  readonly #greeting: ClientGreeting;
  readonly #calls = new Map<number, ClientCall>();
  readonly #slow: SlowStreams;
  #state: 'connecting' | 'proving' | 'greeting' | 'ready' | 'probing' | 'draining' | 'closed' = 'connecting';
  #held: PendingOpen<Target>[] = [];
  #nextStreamId = 1;
  #sendBytesMax: number;
  #lastHeardMs: number;
  #timer: Timer; // timer of the current wait: for the connection, its greeting or a probe
  #socketError: Error | undefined;

  constructor(target: Target, settings: ConnectionSettings, heartbeat: Heartbeat, owner: ConnectionOwner<Target>) {
    this.#target = target;
    this.#settings = settings;
    this.#heartbeat = heartbeat;
    this.#owner = owner;
    this.#sendBytesMax = settings.frameBytesMax;
    this.#greeting = new ClientGreeting(settings, target.instanceId);
    this.#slow = new SlowStreams({
      bytesMax: 2 * settings.frameBytesMax,
      fault: (error) => this.#fault(workerError('BackendProtocol', error)),
    });
    this.#parser = new FrameParser(this, this.#greeting.hasToken ? GREETING_BYTES_MAX : settings.frameBytesMax);
    this.#liveness = new Liveness(heartbeat.beatsIn(settings.deadAfterMs), heartbeat.beatsIn(settings.idleAfterMs));
    this.#lastHeardMs = settings.clock.nowMs();
    this.#socket = owner.dial(target, (bytes) => this.#read(bytes));
    this.#socket.unref(); // an idle connection does not keep the process alive; a call does
    this.#outbox = new Outbox(this.#socket, settings.observer, true);
    this.#timer = settings.clock.after(settings.connectTimeoutMs, () => this.#timedOut());
    this.#watchSocket();
    this.#greeting.prepare(this.#outbox.waiting);
    heartbeat.add(this);
  }

  get poolKey(): string {
    return this.#target.poolKey;
  }

  /** Whether the connection accepts one more stream. */
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

  /** Opens a stream for `pending`. Throws if the request cannot be sent, and then leaves the call untouched. */
  open(pending: PendingOpen<Target>): void {
    if (this.#isSuspect()) this.#startProbe();
    if (this.#state === 'probing') this.#held.push(pending);
    else this.#openNow(pending);
  }

  stop(streamId: number): void {
    this.#send(FrameType.stop, streamId, EMPTY);
  }

  kill(streamId: number, isMoved: boolean): void {
    this.#send(FrameType.kill, streamId, isMoved ? MOVED : EMPTY);
  }

  credit(streamId: number, amount: number): void {
    if (this.#state === 'closed') return;
    const { waiting } = this.#outbox;
    const at = waiting.reserve(FRAME_HEADER_BYTES + 4);
    writeFrameHeader(waiting.bytes, at, 4, FrameType.credit, streamId);
    writeU32(waiting.bytes, at + FRAME_HEADER_BYTES, amount);
    this.#schedule();
  }

  release(streamId: number): void {
    this.#slow.release(streamId);
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
        this.#fault(workerError('Disconnected', `no frame received for ${this.#settings.deadAfterMs} ms`));
        break;
      case 'idle':
        if (this.#held.length === 0) this.close(workerError('Disconnected', 'idle'));
        break;
      case 'rest':
        break;
    }
  }

  /** Closes the socket. Open streams fail with `error`. */
  close(error: ServeError): void {
    if (this.#state === 'closed') return;
    this.#state = 'closed';
    this.#timer.cancel();
    this.#heartbeat.remove(this);
    this.#parser.stop();
    this.#socket.destroy();
    this.#owner.closed(this);
    for (const [streamId, call] of [...this.#calls]) {
      if (this.#slow.takesEnd(streamId, error)) continue;
      try {
        call.fail(error);
      } catch (thrown) {
        call.sinkThrew(thrown);
      }
    }
    this.#resendHeld();
  }

  frame(type: FrameTypeCode, streamId: number, bytes: Buffer, start: number, end: number, isKept: boolean): void {
    if (this.#state === 'proving') {
      this.#unprovenFrame(type, bytes, start, end);
      return;
    }
    if (type === FrameType.tokens) {
      readTokens(bytes, start, end, this);
      return;
    }
    if (streamId === CONNECTION_STREAM) {
      this.#connectionFrame(type, bytes, start, end);
      return;
    }
    const call = this.#calls.get(streamId);
    if (call === undefined) {
      if (streamId % 2 === 0 || streamId >= this.#nextStreamId)
        throw new FrameError(`stream ${streamId} was never opened`);
      return; // a late frame of a stream that is over
    }
    const isMove = type === FrameType.move; // passes waiting frames of its stream
    if (!isMove && this.#slow.takesFrame(call, streamId, type, { bytes, start, end, isKept })) return;
    const record = isMove ? undefined : decodeRecord(bytes, start, end);
    try {
      if (isMove) call.moveAsked();
      else deliverToCall(call, type, record);
    } catch (thrown) {
      if (thrown instanceof FrameError) throw thrown;
      call.sinkThrew(thrown);
    }
  }

  streamTokens(streamId: number, choice: number, ids: Uint32Array, count: number): void {
    const call = this.#calls.get(streamId);
    if (call === undefined) return; // late tokens of a stream that is over
    if (this.#slow.takesTokens(streamId, choice, ids, count)) return;
    try {
      call.tokens(choice, ids, 0, count);
    } catch (thrown) {
      call.sinkThrew(thrown);
    }
  }

  oversize(_type: FrameTypeCode, streamId: number, payloadBytes: number): void {
    if (this.#state === 'proving') throw new PeerFault(NO_PROOF);
    const error = workerError('BackendProtocol', `a frame of ${payloadBytes} bytes from the worker`);
    if (streamId === CONNECTION_STREAM) this.#fault(error);
    else this.#calls.get(streamId)?.abandon(error);
  }

  #openNow(pending: PendingOpen<Target>): void {
    const { call, target, request } = pending;
    if (call.isClosed) return;
    const { requestTimeoutMs } = this.#settings;
    const streamId = this.#nextStreamId;
    writeOpenFrame(this.#outbox.waiting, streamId, { endpoint: target.endpoint, request }, this.#sendBytesMax);
    this.#nextStreamId += 2;
    this.#outbox.schedule();
    if (this.#calls.size === 0) this.#socket.ref();
    this.#calls.set(streamId, call);
    call.attach(this, streamId);
    if (!this.#isUnproven()) call.sent(requestTimeoutMs);
  }

  /** Whether no byte of a request has left: the peer is not reached yet, or has not proved that it knows the token. */
  #isUnproven(): boolean {
    return this.#state === 'connecting' || this.#state === 'proving';
  }

  /** Handles frames of a worker that has not proved the token: only a proof or a reason for refusal is accepted. */
  #unprovenFrame(type: FrameTypeCode, bytes: Buffer, start: number, end: number): void {
    if (type === FrameType.error) {
      this.#refused(decodeRecord(bytes, start, end));
      return;
    }
    if (type !== FrameType.challenge) throw new PeerFault(NO_PROOF);
    this.#greeting.answer(bytes.subarray(start, end), this.#socket, this.#outbox.waiting);
    this.#parser.payloadBytesMax = this.#settings.frameBytesMax;
    this.#begin();
  }

  /** Sends HELLO, and everything else after the proofs. */
  #begin(): void {
    this.#state = 'greeting';
    for (const call of this.#calls.values()) call.sent(this.#settings.requestTimeoutMs);
    this.#outbox.unblock();
  }

  #connected(): void {
    if (!this.#greeting.hasToken) {
      this.#begin();
      return;
    }
    this.#state = 'proving';
    const hello = this.#greeting.helloFrame();
    this.#settings.observer.bytesSent(hello.length);
    this.#socket.write(hello);
  }

  #connectionFrame(type: FrameTypeCode, bytes: Buffer, start: number, end: number): void {
    if (end - start > CONNECTION_RECORD_BYTES_MAX) throw new FrameError(`${end - start} bytes on stream 0`);
    switch (type) {
      case FrameType.helloAck:
        this.#greeted(decodeRecord(bytes, start, end));
        break;
      case FrameType.ping:
        if (end - start > PING_BYTES_MAX) throw new FrameError(`PING of ${end - start} bytes`);
        this.#send(FrameType.pong, CONNECTION_STREAM, bytes.subarray(start, end));
        break;
      case FrameType.pong:
        if (this.#state === 'probing') this.#probeAnswered();
        break;
      case FrameType.goAway:
        this.#drain();
        break;
      case FrameType.error:
        this.#refused(decodeRecord(bytes, start, end));
        break;
      default:
        throw new FrameError(`frame type ${type} on stream 0`);
    }
  }

  #watchSocket(): void {
    this.#socket.on(this.#socket.encrypted ? 'secureConnect' : 'connect', () => this.#connected());
    this.#socket.on('drain', () => {
      if (!this.#isUnproven()) this.#outbox.unblock();
    });
    this.#socket.on('error', (error) => {
      const reason = this.#state === 'connecting' ? explainHandshake(error, 'worker') : undefined;
      this.#socketError = reason === undefined ? error : new PeerFault(reason, { cause: error }); // 'close' follows
    });
    this.#socket.on('close', () => {
      if (this.#state === 'closed') return;
      const reason = this.#socketError ?? this.#greeting.closedReason(this.#state);
      const kind = this.#isUnproven() ? 'CannotConnect' : 'Disconnected';
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
      if (this.#state === 'proving') this.#fault(workerError('CannotConnect', toPeerFault(thrown)));
      else this.#fault(workerError('BackendProtocol', thrown));
    }
  }

  #greeted(ack: unknown): void {
    if (this.#state !== 'greeting') throw new FrameError('HELLO_ACK out of turn');
    const { instanceId, maxFrame } = readHelloAck(ack);
    if (instanceId !== this.#target.instanceId) {
      this.close(workerError('WorkerUnavailable', `Server unavailable: ${quotePeer(instanceId)} answers`));
      return;
    }
    this.#timer.cancel();
    this.#state = 'ready';
    this.#sendBytesMax = Math.min(this.#sendBytesMax, maxFrame);
  }

  /** Handles ERROR on stream 0, with which the worker closes the connection and says why. */
  #refused(record: unknown): void {
    const wire = readWireError(record, undefined);
    const isGreeting = this.#state === 'proving' || (this.#state === 'greeting' && wire.kind !== 'WorkerUnavailable');
    // A refused token is a fault between our own processes: the client of the API must not read it as its own.
    const refusal = new PeerFault(`the worker refuses: ${quotePeer(wire.message)}`);
    this.#fault(isGreeting ? workerError('CannotConnect', refusal) : fromWire(wire));
  }

  #drain(): void {
    if (this.#state === 'closed') return;
    this.#timer.cancel();
    this.#state = 'draining';
    this.#resendHeld();
    if (this.#calls.size === 0) this.close(workerError('Disconnected', 'drained'));
  }

  #timedOut(): void {
    const kind = this.#isUnproven() ? 'CannotConnect' : 'ConnectionTimeout';
    const silence = `${this.#target.poolKey} did not answer in time (${this.#state})`;
    this.#fault(workerError(kind, this.#state === 'proving' ? new PeerFault(`${silence}: ${NO_PROOF}`) : silence));
  }

  #fault(error: ServeError): void {
    if (this.#state === 'closed') return;
    const { observer } = this.#settings;
    observer.connectionError();
    if (error.cause instanceof PeerFault) observer.peerRefused?.(this.#target.poolKey, error.cause.message);
    this.close(error);
  }

  #send(type: FrameTypeCode, streamId: number, payload: Uint8Array): void {
    if (this.#state === 'closed') return;
    this.#outbox.waiting.frame(type, streamId, payload);
    this.#schedule();
  }

  /** Writes at the end of the turn. Closes the connection if the worker reads nothing while it keeps sending. */
  #schedule(): void {
    this.#outbox.schedule();
    if (!this.#outbox.isOverfull(this.#settings)) return;
    queueMicrotask(() => this.#fault(workerError('Disconnected', 'the worker does not read')));
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
