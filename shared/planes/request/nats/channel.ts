import { EventEmitter } from 'node:events';
import type { ByteChannel } from '../frames/byte-channel.ts';
import { PacedReads } from '../frames/paced-reads.ts';

/*
 * Content of one message of a channel, big-endian:
 *
 *     0      1          4          8
 *     | kind | reserved | sequence | consumed | bytes of the stream |
 *
 * sequence: number of a DATA, from 0. Other messages have the number of the next DATA, so that a lost one is noticed.
 * consumed: bytes of the other direction taken so far, modulo 2^32, which open the sender's window.
 */

const MESSAGE_HEADER_BYTES = 12;

export const MessageKind = {
  data: 1,
  /** Carries only `consumed`. */
  consumed: 2,
  /** The stream is over in both directions. */
  close: 3,
} as const;

type MessageKindCode = (typeof MessageKind)[keyof typeof MessageKind];

interface ChannelMessage {
  readonly kind: MessageKindCode;
  readonly sequence: number;
  readonly consumed: number;
  /** Bytes of the stream; shares memory with the read message. */
  readonly bytes: Buffer;
}

/** Returns the message as bytes of its own. */
export function encodeMessage(kind: MessageKindCode, sequence: number, consumed: number, bytes?: Uint8Array): Buffer {
  const message = Buffer.allocUnsafe(MESSAGE_HEADER_BYTES + (bytes?.length ?? 0));
  message.writeUInt32BE(kind * 2 ** 24, 0);
  message.writeUInt32BE(sequence, 4);
  message.writeUInt32BE(consumed, 8);
  if (bytes !== undefined) message.set(bytes, MESSAGE_HEADER_BYTES);
  return message;
}

/** Returns undefined for bytes that are not a message of a channel. */
export function decodeMessage(data: Uint8Array): ChannelMessage | undefined {
  const kind = data[0];
  if (data.length < MESSAGE_HEADER_BYTES || !isKind(kind)) return undefined;
  const buffer = Buffer.from(data.buffer, data.byteOffset, data.length);
  return {
    kind,
    sequence: buffer.readUInt32BE(4),
    consumed: buffer.readUInt32BE(8),
    bytes: buffer.subarray(MESSAGE_HEADER_BYTES),
  };
}

function isKind(kind: number | undefined): kind is MessageKindCode {
  return kind === MessageKind.data || kind === MessageKind.consumed || kind === MessageKind.close;
}

/** Most bytes under way in one direction. A peer that does not read can make the NATS server hold that many. */
const WINDOW_BYTES = 1 << 20;
/**
 * Longest piece of a write. Long writes are cut so that other subscribers of the connection get their turn. It is far
 * below any server's limit.
 */
const CHUNK_BYTES_MAX = 256 << 10;
const NOTHING: readonly Uint8Array[] = [];

interface NatsChannelOptions {
  /** Sends one message to the other side. Returns false if it cannot be sent, now or ever. */
  readonly send: (message: Buffer) => boolean;
  /** Longest message that `send` accepts. */
  readonly messageBytesMax: number;
  /** Called when the channel has ended at this side. */
  readonly onOver: () => void;
  /**
   * Passes arriving bytes on only as far as turns of the event loop have room for them. @default passes them on as they
   * arrive
   */
  readonly isPaced?: boolean;
}

/**
 * A byte stream in both directions over messages that arrive in order or not at all. If a sequence number is missing,
 * the stream ends. It has a window, because NATS has no backpressure between two peers. Arrived bytes that are still
 * kept count in it, too.
 *
 * | State | write | DATA | lost or failed | CLOSE, destroy | destroySoon |
 * |---|---|---|---|---|---|
 * | open | sent, or kept beyond the window | to 'data' | 'error', -> closed | -> closed | -> ending, or closed when nothing is kept |
 * | ending | ignored | to 'data' | 'error', -> closed | -> closed | - |
 * | closed | ignored | ignored | ignored | ignored | ignored |
 */
export class NatsChannel extends EventEmitter implements ByteChannel {
  readonly #options: NatsChannelOptions;
  readonly #chunkBytesMax: number;
  readonly #reads: PacedReads | undefined;
  #state: 'open' | 'ending' | 'closed' = 'open';
  #kept: readonly Uint8Array[] = NOTHING;
  #keptBytes = 0;
  #sentMessages = 0;
  #sentBytes = 0;
  #heardMessages = 0;
  #heardBytes = 0;
  #consumedBytes = 0;
  #toldBytes = 0;
  #peerConsumedBytes = 0;

  constructor(options: NatsChannelOptions) {
    super();
    this.#options = options;
    if (options.isPaced) this.#reads = new PacedReads({ onBytes: (bytes) => this.#handOn(bytes), onRoom: () => {} });
    this.#chunkBytesMax = Math.min(CHUNK_BYTES_MAX, options.messageBytesMax - MESSAGE_HEADER_BYTES);
  }

  get destroyed(): boolean {
    return this.#state === 'closed';
  }

  get writableLength(): number {
    return this.#keptBytes;
  }

  get hasSent(): boolean {
    return this.#sentMessages > 0;
  }

  /** Whether anything was ever received from the other side. */
  get isAnswered(): boolean {
    return this.#heardMessages > 0;
  }

  write(bytes: Uint8Array): boolean {
    if (this.#state !== 'open') return false;
    let at = 0;
    while (at < bytes.length && this.#keptBytes === 0) {
      const end = Math.min(bytes.length, at + this.#chunkBytesMax, at + this.#room());
      if (end <= at) break;
      this.#sendData(bytes.subarray(at, end));
      if (this.destroyed) return false;
      at = end;
    }
    if (at === bytes.length) return true;
    this.#kept = [...this.#kept, Buffer.from(bytes.subarray(at))]; // a copy: the writer may reuse its memory
    this.#keptBytes += bytes.length - at;
    return false;
  }

  destroySoon(): void {
    if (this.#state !== 'open') return;
    this.#state = 'ending';
    if (this.#keptBytes === 0) this.destroy();
  }

  destroy(): void {
    if (this.#state === 'closed') return;
    this.#options.send(this.#message(MessageKind.close));
    this.#close(undefined);
  }

  /** Ends the stream, because messages were lost or the connection is gone. */
  fail(error: Error): void {
    this.#reads?.flush(); // these bytes came before the fault
    if (this.#state === 'closed') return;
    this.#options.send(this.#message(MessageKind.close)); // for a peer that can still be reached
    this.#close(error);
  }

  /** Handles a message from the other side. */
  receive({ kind, sequence, consumed, bytes }: ChannelMessage): void {
    if (this.#state === 'closed') return;
    if (sequence !== this.#heardMessages >>> 0) {
      this.fail(new Error(`messages were lost: expected ${this.#heardMessages}, got ${sequence}`));
      return;
    }
    if ((this.#sentBytes - consumed) >>> 0 > WINDOW_BYTES) {
      this.fail(new Error('the other side acknowledges messages that were never sent')); // its window has no end
      return;
    }
    this.#peerConsumedBytes = consumed;
    if (kind === MessageKind.data) {
      this.#heardMessages++;
      this.#heardBytes += bytes.length;
      if (this.#heardBytes - this.#toldBytes > WINDOW_BYTES) {
        this.fail(new Error('the other side sends more than its window allows'));
        return;
      }
      if (this.#reads === undefined) this.#handOn(bytes);
      else this.#reads.push(bytes);
    }
    this.#sendKept();
    if (kind !== MessageKind.close) return;
    this.#reads?.flush();
    if (!this.destroyed) this.#close(undefined);
  }

  /** Does nothing, because the connection to the server keeps the process alive as long as the plane is open. */
  ref(): void {}
  unref(): void {}

  #handOn(bytes: Buffer): void {
    if (this.destroyed) return;
    this.#consumedBytes += bytes.length;
    this.emit('data', bytes);
    if (this.#consumedBytes - this.#toldBytes >= WINDOW_BYTES / 4) this.#send(this.#message(MessageKind.consumed));
  }

  /** Bytes that may be sent now. */
  #room(): number {
    return WINDOW_BYTES - ((this.#sentBytes - this.#peerConsumedBytes) >>> 0);
  }

  #sendKept(): void {
    if (this.#keptBytes === 0 || this.#room() < Math.min(this.#keptBytes, WINDOW_BYTES / 4)) return;
    const kept = this.#kept;
    this.#kept = NOTHING;
    this.#keptBytes = 0;
    const isEnding = this.#state === 'ending';
    if (isEnding) this.#state = 'open'; // for these writes
    for (const bytes of kept) this.write(bytes);
    if (this.destroyed) return;
    if (isEnding) this.#state = 'ending';
    if (this.#keptBytes > 0) return;
    if (isEnding) this.destroy();
    else this.emit('drain');
  }

  #sendData(bytes: Uint8Array): void {
    this.#send(this.#message(MessageKind.data, bytes));
    this.#sentMessages++;
    this.#sentBytes += bytes.length;
  }

  #message(kind: (typeof MessageKind)[keyof typeof MessageKind], bytes?: Uint8Array): Buffer {
    this.#toldBytes = this.#consumedBytes;
    return encodeMessage(kind, this.#sentMessages >>> 0, this.#consumedBytes >>> 0, bytes);
  }

  #send(message: Buffer): void {
    if (this.#state === 'closed' || this.#options.send(message)) return;
    this.#close(new Error('there is no connection to NATS'));
  }

  #close(error: Error | undefined): void {
    this.#state = 'closed';
    this.#kept = NOTHING;
    this.#keptBytes = 0;
    this.#options.onOver();
    queueMicrotask(() => {
      if (error !== undefined) this.emit('error', error);
      this.emit('close');
    });
  }
}
