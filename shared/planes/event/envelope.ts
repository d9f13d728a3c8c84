import type { Clock } from '../../clock/index.ts';
import { isRecord } from '../../records/index.ts';
import { decodeKeptRecord, encodeRecord } from '../record-codec.ts';
import { LARGE_RECORD_BYTES, readSliced } from '../sliced-record.ts';
import { isJsonRecord, readJsonEnvelope } from './json-envelope.ts';
import type { EventEnvelope, EventListener, EventPublisher, EventTransport } from './types.ts';

/*
 * One message is an envelope record: topic, publisher, sequence and time, and a payload, which is the bytes of a record
 * itself. NATS carries the bare record; ZeroMQ multipart frames around it:
 *
 *   [topic] [publisher id: u64 BE] [sequence: u64 BE] [version: u8 = 1 | length: u32 BE | envelope record]
 *
 * There the binary frames are what counts. The records are msgpack; those of other publishers may be JSON.
 */

/** Longest message that is read: the blocks of one engine step over a million tokens fit. */
export const EVENT_BYTES_MAX = 4 << 20;

const VERSION = 1;
const HEADER_BYTES = 5;

/** Frames of one message after its topic. */
interface EnvelopeFrames {
  readonly publisherId: Buffer;
  readonly sequence: Buffer;
  readonly body: Buffer;
}

/** Writes 64 bits as eight bytes, big-endian. */
export function u64Bytes(value: bigint): Buffer {
  const bytes = Buffer.allocUnsafe(8);
  bytes.writeBigUInt64BE(value);
  return bytes;
}

/** Returns only the envelope record. */
export function encodeEnvelopeRecord({
  topic,
  publisherId,
  sequence,
  publishedAtMs,
  payload,
}: EventEnvelope): Uint8Array {
  return encodeRecord({
    topic,
    publisher_id: BigInt(`0x${publisherId}`), // bigint, because msgpack would write larger numbers as floating point
    sequence,
    published_at: BigInt(publishedAtMs),
    payload: encodeRecord(payload),
  });
}

export function encodeEnvelope(event: EventEnvelope): EnvelopeFrames {
  const envelope = encodeEnvelopeRecord(event);
  const body = Buffer.allocUnsafe(HEADER_BYTES + envelope.length);
  body[0] = VERSION;
  body.writeUInt32BE(envelope.length, 1);
  body.set(envelope, HEADER_BYTES);
  return { publisherId: u64Bytes(BigInt(`0x${event.publisherId}`)), sequence: u64Bytes(BigInt(event.sequence)), body };
}

/** Reads a message; a long one takes several turns. Throws, or rejects, if it is not a message. */
export function decodeEnvelope(topic: string, frames: EnvelopeFrames): EventEnvelope | Promise<EventEnvelope> {
  const { body } = frames;
  if (body[0] !== VERSION || body.length < HEADER_BYTES || body.readUInt32BE(1) !== body.length - HEADER_BYTES) {
    throw new RangeError('an event frame with a wrong header');
  }
  if (frames.publisherId.length !== 8 || frames.sequence.length !== 8)
    throw new RangeError('event ids of a wrong length');
  const publisherId = frames.publisherId.readBigUInt64BE().toString(16);
  const sequence = Number(frames.sequence.readBigUInt64BE());
  return readContents(body, HEADER_BYTES, ({ publishedAtMs, payload }) => ({
    topic,
    publisherId,
    sequence,
    publishedAtMs,
    payload,
  }));
}

/** Reads a bare envelope record; a long one takes several turns. Throws, or rejects, if it is not one. */
export function decodeEnvelopeRecord(topic: string, bytes: Buffer): EventEnvelope | Promise<EventEnvelope> {
  return readContents(bytes, 0, ({ publisherId, sequence, publishedAtMs, payload }) => {
    if (!isId(publisherId) || !isId(sequence)) throw new RangeError('an event without publisher or sequence');
    return { topic, publisherId: publisherId.toString(16), sequence: Number(sequence), publishedAtMs, payload };
  });
}

interface RecordContents {
  readonly publisherId: unknown;
  readonly sequence: unknown;
  readonly publishedAtMs: number;
  readonly payload: unknown;
}

function readContents<Event>(
  bytes: Buffer,
  start: number,
  toEvent: (contents: RecordContents) => Event,
): Event | Promise<Event> {
  if (isJsonRecord(bytes, start)) {
    const record = readJsonEnvelope(bytes.subarray(start));
    return toEvent(contentsOf(record, record.payload));
  }
  if (bytes.length - start > LARGE_RECORD_BYTES) return readLong(bytes.subarray(start)).then(toEvent);
  const record = fieldsOf(decodeKeptRecord(bytes, start, bytes.length));
  const payload = bytesOf(record.payload);
  return toEvent(contentsOf(record, decodeKeptRecord(payload, 0, payload.length)));
}

async function readLong(bytes: Buffer): Promise<RecordContents> {
  const record = fieldsOf(await readSliced(bytes, { views: true }));
  const payload = bytesOf(record.payload);
  const isLong = payload.length > LARGE_RECORD_BYTES;
  const contents = isLong ? await readSliced(payload, { views: true }) : decodeKeptRecord(payload, 0, payload.length);
  return contentsOf(record, contents);
}

function fieldsOf(record: unknown): Readonly<Record<string, unknown>> {
  if (isRecord(record)) return record;
  throw new RangeError('an event that is not a record');
}

function contentsOf(
  { publisher_id: publisherId, sequence, published_at: publishedAt }: Readonly<Record<string, unknown>>,
  payload: unknown,
): RecordContents {
  return { publisherId, sequence, publishedAtMs: Number(publishedAt), payload };
}

/** Accepts only bytes: from any object with a `length`, Node would make that many bytes. */
function bytesOf(payload: unknown): Buffer {
  if (Buffer.isBuffer(payload)) return payload;
  throw new RangeError('an event whose payload is not bytes');
}

function isId(value: unknown): value is number | bigint {
  return typeof value === 'bigint' || (typeof value === 'number' && Number.isSafeInteger(value));
}

interface SequencedPublisherOptions {
  readonly topic: string;
  readonly publisherId: string;
  readonly transport: EventTransport;
  readonly clock: Clock;
  /**
   * Sends an event. Returns false, or a promise that rejects, if the event is dropped. Throws for a payload that cannot
   * be encoded.
   */
  readonly send: (event: EventEnvelope) => boolean | Promise<unknown>;
  readonly onClosed?: () => void;
}

/** Numbers the messages of one publisher. Messages that are not sent are counted; subscribers see the gap. */
export class SequencedPublisher implements EventPublisher {
  readonly publisherId: string;
  readonly transport: EventTransport;
  readonly #options: SequencedPublisherOptions;
  #sequence = 0;
  #dropped = 0;
  #isClosed = false;

  constructor(options: SequencedPublisherOptions) {
    this.#options = options;
    this.publisherId = options.publisherId;
    this.transport = options.transport;
  }

  get dropped(): number {
    return this.#dropped;
  }

  publish(payload: unknown): void {
    if (this.#isClosed) return;
    const { topic, publisherId, clock, send } = this.#options;
    const sequence = this.#sequence++;
    try {
      const sent = send({ topic, publisherId, sequence, publishedAtMs: clock.wallMs(), payload });
      if (sent === false) this.#dropped++;
      else if (sent !== true) sent.catch(() => this.#dropped++);
    } catch {
      this.#dropped++; // a payload that cannot be encoded
    }
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#options.onClosed?.();
  }
}

/** Next sequence of a publisher that has not been heard yet. */
const UNHEARD = -1;

/**
 * Passes the result of `read` to `deliver`: at once, or when its promise has resolved, if reading takes several turns.
 * That promise never rejects. Failures of reading, and of `deliver`, go to `onProblem`, so that the stream of events
 * continues.
 */
export function handOn<Read>(
  read: () => Read | Promise<Read>,
  deliver: (read: Read) => void,
  onProblem: (problem: unknown) => void,
): Promise<void> | undefined {
  try {
    const event = read();
    if (event instanceof Promise) return event.then(deliver).catch(onProblem);
    deliver(event);
  } catch (problem) {
    onProblem(problem);
  }
  return undefined;
}

/**
 * Follows the sequence of each publisher that it is connected to, and ignores all others. Drops duplicates, and reports
 * a gap before the event after it. A publisher first heard beyond 0 is also a gap, from 0: the subscriber came late and
 * needs a dump.
 */
export class SequenceWatch {
  readonly #kind: EventTransport['kind'];
  readonly #listener: EventListener;
  readonly #onProblem: (problem: unknown) => void;
  readonly #nextOf = new Map<string, number>();
  #isClosed = false;

  /**
   * @param kind transport of the publishers of this plane; a publisher of another plane is not followed
   * @param onProblem called for messages that cannot be read, and for a listener that throws
   */
  constructor(kind: EventTransport['kind'], listener: EventListener, onProblem: (problem: unknown) => void) {
    this.#kind = kind;
    this.#listener = listener;
    this.#onProblem = onProblem;
  }

  protected get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Closes the subscription. Nothing is delivered afterwards. */
  protected endWatch(): void {
    this.#isClosed = true;
  }

  /** Receives the result of `read`, as `handOn` does. */
  protected hear(read: () => EventEnvelope | Promise<EventEnvelope>): Promise<void> | undefined {
    return handOn(read, this.#receive, this.#onProblem);
  }

  readonly #receive = (envelope: EventEnvelope): void => this.receive(envelope);

  connect(publisherId: string, { kind }: EventTransport): void {
    if (kind === this.#kind && !this.follows(publisherId)) this.#nextOf.set(publisherId, UNHEARD);
  }

  disconnect(publisherId: string): void {
    this.#nextOf.delete(publisherId);
  }

  follows(publisherId: string): boolean {
    return this.#nextOf.has(publisherId);
  }

  /** Delivers `envelope` to the listener, unless it was seen before or comes from an unknown publisher. */
  receive(envelope: EventEnvelope): void {
    if (this.#isClosed) return;
    const { publisherId, sequence } = envelope;
    const next = this.#nextOf.get(publisherId);
    if (next === undefined || sequence < next) return;
    this.#nextOf.set(publisherId, sequence + 1);
    const expected = Math.max(next, 0);
    if (sequence > expected) this.#listener.gap?.(publisherId, expected, sequence);
    this.#listener.event(envelope);
  }
}
