import type { JetStreamManager, StreamInfo } from '@nats-io/jetstream';
import type { NatsConnection, Subscription } from '@nats-io/nats-core';
import type { Timer } from '../../clock/index.ts';
import { untilAborted } from '../../concurrency/index.ts';
import { LinkedBucket } from './bucket.ts';
import { apiCodeOf, type JetStreamAccess, loadNatsCore, openJetStream, STREAM_NOT_FOUND } from './library.ts';
import { NatsLink } from './link.ts';
import { ReceivedMessage } from './messages.ts';
import type {
  NatsBucket,
  NatsBucketSettings,
  NatsClient,
  NatsMessage,
  NatsOptions,
  NatsStream,
  NatsStreamFacts,
  NatsStreamReader,
  NatsStreamReceiver,
  NatsStreamSettings,
} from './types.ts';

const BATCH_MESSAGES = 4096;
const BATCH_BYTES = 8 << 20; /** Heartbeats of the server that may be missing. */
const SILENT_BEATS_MAX = 3;
/** The server removes the consumer of a reader that is gone after this many heartbeats. */
const FORGOTTEN_BEATS = 6;

interface StreamReaderOptions {
  readonly access: JetStreamAccess;
  readonly link: NatsLink;
  readonly stream: string;
  readonly fromSequence: number;
  readonly heartbeatMs: number;
  readonly receiver: NatsStreamReceiver;
}

/**
 * One JetStream consumer that lives as long as its connection, asked for batch after batch: nothing is in flight that was not
 * asked for, so a slow reader slows nobody down and meets no limit of the server's.
 *
 * | Server says | Batch |
 * |---|---|
 * | message | goes on; over when it is the last of the batch, or when nothing is behind it and the request does not wait |
 * | 100 heartbeat | goes on |
 * | 404, 408, 409 size, 409 batch completed | over |
 * | anything else, more than was asked for, silence, connection gone | the reader is lost |
 */
class StreamReader implements NatsStreamReader {
  readonly #options: StreamReaderOptions;
  readonly #connection: NatsConnection;
  readonly #requestSubject: string;
  readonly #subscription: Subscription;
  readonly #inbox: string;
  readonly #heartbeat: Timer;
  #isOver = false;
  #isWaiting = false;
  /** A batch is under way. */
  #isAsked = false;
  /** Messages still due in it. */
  #due = 0;
  #dueBytes = 0;
  #silentBeats = 0;

  private constructor(options: StreamReaderOptions, consumer: string, inbox: string) {
    this.#options = options;
    this.#connection = options.access.connection;
    this.#requestSubject = `$JS.API.CONSUMER.MSG.NEXT.${options.stream}.${consumer}`;
    this.#inbox = inbox;
    this.#subscription = this.#connection.subscribe(inbox, {
      callback: (error, message) => {
        if (error !== null) this.#lose(error.message);
        else options.link.guard(() => this.#receive(new ReceivedMessage(message)));
      },
    });
    this.#heartbeat = options.link.clock.every(options.heartbeatMs, () => this.#beat());
    const gone = (): void => this.#lose('the connection was lost');
    this.#connection.closed().then(gone, gone);
  }

  static async open(options: StreamReaderOptions): Promise<StreamReader> {
    const { access, stream, fromSequence, heartbeatMs } = options;
    const { createInbox } = await loadNatsCore();
    const consumer = await access.manager.consumers.add(stream, {
      deliver_policy: 'by_start_sequence',
      opt_start_seq: Math.max(1, fromSequence),
      ack_policy: 'none',
      mem_storage: true,
      num_replicas: 1,
      inactive_threshold: FORGOTTEN_BEATS * heartbeatMs * NS_PER_MS,
    });
    return new StreamReader(options, consumer.name, createInbox());
  }

  next(isWaiting: boolean): void {
    if (this.#isOver) return;
    this.#isAsked = true;
    this.#due = BATCH_MESSAGES;
    this.#isWaiting = isWaiting;
    this.#silentBeats = 0;
    const { heartbeatMs, link } = this.#options;
    // Twice the longest message, so that one that does not fit is never the first of a batch.
    const bytesMax = Math.max(BATCH_BYTES, 2 * link.messageBytesMax);
    this.#dueBytes = bytesMax;
    const limits = { batch: BATCH_MESSAGES, max_bytes: bytesMax };
    const waiting = { expires: 6 * heartbeatMs * NS_PER_MS, idle_heartbeat: heartbeatMs * NS_PER_MS };
    const request = JSON.stringify(isWaiting ? { ...limits, ...waiting } : { ...limits, no_wait: true });
    this.#options.link.guard(() => this.#connection.publish(this.#requestSubject, request, { reply: this.#inbox }));
  }

  close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#heartbeat.cancel();
    if (!this.#subscription.isClosed()) this.#subscription.unsubscribe(); // the server forgets the consumer by itself
  }

  #receive(message: NatsMessage): void {
    if (this.#isOver) return;
    this.#silentBeats = 0;
    if (message.reply === '' || message.status !== undefined) {
      this.#readStatus(message);
      return;
    }
    const { sequence, pending } = readDelivery(message.reply);
    this.#due--;
    this.#dueBytes -= message.data.length;
    // Behind the last of a batch one may come that is newer, but no more than the batch could have had.
    const isAskedFor = this.#due >= 0 && this.#dueBytes >= 0;
    if (!isAskedFor || !Number.isSafeInteger(sequence) || !Number.isSafeInteger(pending)) {
      this.#lose('JetStream sends what was not asked for');
      return;
    }
    this.#options.receiver.message(sequence, message.data);
    if (this.#due > 0 && (this.#isWaiting || pending > 0)) return;
    this.#endBatch(pending === 0);
  }

  #readStatus(message: NatsMessage): void {
    const { status, statusText } = message;
    switch (status) {
      case 100:
        return;
      case 404:
        this.#endBatch(true);
        return;
      case 408:
        this.#endBatch(false);
        return;
      case 409:
        if (/MaxBytes|Batch Completed/i.test(statusText)) this.#endBatch(false);
        else this.#lose(statusText);
        return;
      default:
        this.#lose(`JetStream says ${status} ${statusText}`);
    }
  }

  #endBatch(isLast: boolean): void {
    if (this.#isOver || !this.#isAsked) return;
    this.#isAsked = false;
    this.#options.receiver.batchEnded(isLast);
  }

  #beat(): void {
    if (!this.#isAsked) return; // it is the receiver's turn
    this.#silentBeats++;
    if (this.#silentBeats > SILENT_BEATS_MAX) this.#lose('JetStream has fallen silent');
  }

  #lose(reason: string): void {
    if (this.#isOver) return;
    this.close();
    this.#options.link.guard(() => this.#options.receiver.lost(reason));
  }
}

/** `$JS.ACK.{stream}.{consumer}.{delivered}.{stream sequence}.{consumer sequence}.{time}.{pending}`; some servers put a domain and an account before the stream. */
function readDelivery(reply: string): { readonly sequence: number; readonly pending: number } {
  const parts = reply.split('.');
  const at = parts.length > 9 ? 4 : 2;
  return { sequence: Number(parts[at + 3]), pending: Number(parts[at + 6]) };
}

const NS_PER_MS = 1_000_000;

/**
 * A client of NATS; the library behind it is known in this folder alone. Nothing is dialled before it is needed.
 *
 * @example
 * const client = createNatsClient({ clock: systemClock, servers: ['nats://localhost:4222'] });
 * client.subscribe('greetings', (message) => console.log(message.data));
 */
export function createNatsClient(options: NatsOptions): NatsClient {
  return new LinkedClient(options);
}

class LinkedClient extends NatsLink implements NatsClient {
  async connected(signal: AbortSignal): Promise<void> {
    await this.connection(signal);
  }

  stream(settings: NatsStreamSettings): NatsStream {
    return new LinkedStream(this, settings);
  }

  bucket(settings: NatsBucketSettings): NatsBucket {
    return new LinkedBucket(this, settings);
  }
}

/** A JetStream stream that captures one subject: limits, discard old, one file store. */
class LinkedStream implements NatsStream {
  readonly #link: NatsLink;
  readonly #settings: NatsStreamSettings;

  constructor(link: NatsLink, settings: NatsStreamSettings) {
    this.#link = link;
    this.#settings = settings;
  }

  async facts(signal: AbortSignal): Promise<NatsStreamFacts> {
    const { manager } = await openJetStream(this.#link, signal);
    return factsOf(await untilAborted(this.#ensure(manager), signal), this.#settings);
  }

  async read(fromSequence: number, receiver: NatsStreamReceiver, signal: AbortSignal): Promise<NatsStreamReader> {
    const access = await openJetStream(this.#link, signal);
    const { name, heartbeatMs = 5000 } = this.#settings;
    const options = { access, link: this.#link, stream: name, fromSequence, heartbeatMs, receiver };
    return untilAborted(StreamReader.open(options), signal);
  }

  async purge(sequence: number, signal: AbortSignal): Promise<void> {
    const { manager } = await openJetStream(this.#link, signal);
    const { name } = this.#settings;
    const { state } = await untilAborted(manager.streams.info(name), signal);
    // A purge beyond the end would move the sequence of what comes next.
    const throughSequence = Math.min(sequence, state.last_seq);
    if (throughSequence < state.first_seq) return;
    await untilAborted(manager.streams.purge(name, { seq: throughSequence + 1 }), signal);
  }

  async #ensure(manager: JetStreamManager): Promise<StreamInfo> {
    const { name, subject, replicas, bytesMax, ageMsMax } = this.#settings;
    try {
      return await manager.streams.info(name);
    } catch (error) {
      if (apiCodeOf(error) !== STREAM_NOT_FOUND) throw error;
    }
    // Adding one that another process has just added with the same settings answers as if this one had.
    return manager.streams.add({
      name,
      subjects: [subject],
      retention: 'limits',
      discard: 'old',
      storage: 'file',
      num_replicas: replicas,
      max_bytes: bytesMax,
      max_age: ageMsMax * NS_PER_MS,
    });
  }
}

function factsOf({ config, created, state }: StreamInfo, settings: NatsStreamSettings): NatsStreamFacts {
  const isWhole = Array.isArray(config?.subjects) && typeof created === 'string';
  const counts: readonly unknown[] = [state?.messages, state?.first_seq, state?.last_seq];
  if (!isWhole || !counts.every((count) => Number.isSafeInteger(count) && Number(count) >= 0)) {
    throw new Error(`JetStream says nothing useful of the stream ${settings.name}`);
  }
  if (!config.subjects.includes(settings.subject)) {
    throw new Error(`the JetStream stream ${settings.name} captures ${config.subjects}, not ${settings.subject}`);
  }
  const differences = [
    difference('replicas', config.num_replicas, settings.replicas),
    difference('max_bytes', config.max_bytes, settings.bytesMax),
    difference('max_age', config.max_age / NS_PER_MS, settings.ageMsMax),
  ];
  return {
    createdAt: created,
    firstSequence: state.messages === 0 ? state.last_seq + 1 : state.first_seq,
    lastSequence: state.last_seq,
    differences: differences.filter((each) => each !== undefined),
  };
}

function difference(name: string, found: number, wanted: number): string | undefined {
  return found === wanted ? undefined : `${name} is ${found}, the setting says ${wanted}`;
}
