import type { JetStreamManager, StreamInfo } from '@nats-io/jetstream';
import type { NatsConnection, Subscription } from '@nats-io/nats-core';
import type { Timer } from '../../clock/index.ts';
import { untilAborted } from '../../concurrency/index.ts';
import {
  apiCodeOf,
  type JetStreamAccess,
  loadNatsCore,
  NO_STORAGE,
  OTHER_STREAM_EXISTS,
  openJetStream,
  STREAM_NOT_FOUND,
} from './library.ts';
import { NatsMessage } from './messages.ts';
import type { NatsConnections, NatsStreamFacts, NatsStreamSettings } from './types.ts';

const BATCH_MESSAGES = 4096;
const BATCH_BYTES = 8 << 20;
/** Number of heartbeats of the server that may be missing. */
const SILENT_BEATS_MAX = 3;
/** Number of heartbeats after which the server removes the consumer of a lost reader. */
const FORGOTTEN_BEATS = 6;
const NS_PER_MS = 1_000_000;
/** Smallest stream that takes the place of one for which there is no storage: that of `STATOR_NATS_STREAM_MAX_MB`. */
const SMALL_BYTES_MIN = 16 * 2 ** 20;

/** Attempts to give back what a smaller stream reserves too much, before the stream stays as it is. */
const GIVE_BACK_ATTEMPTS_MAX = 3;

interface StreamMessage {
  readonly sequence: number;
  readonly data: Uint8Array;
}

/** Part of the messages of a stream, in order. */
interface StreamPage {
  readonly messages: readonly StreamMessage[];
  /** Whether no message was after it. */
  readonly isLast: boolean;
}

interface StreamReaderOptions {
  readonly access: JetStreamAccess;
  readonly client: NatsConnections;
  readonly stream: string;
  readonly fromSequence: number;
  readonly heartbeatMs: number;
  /** Ends the reader. One listener serves all pages: a listener per page costs more than reading the page. */
  readonly signal: AbortSignal;
}

/**
 * One JetStream consumer that lives as long as its connection and is asked for batch after batch. Only requested
 * messages are in flight, so a slow reader slows no other reader and meets no limit of the server.
 *
 * | Server sends | Batch |
 * |---|---|
 * | message | continues; over if it is the last of the batch, or if no message is after it and the request does not
 * wait |
 * | 100 heartbeat | continues |
 * | 404, 408, 409 size, 409 batch completed | over |
 * | anything else, more than was asked for, silence, connection gone | the reader is lost |
 */
export class NatsStreamReader {
  readonly #options: StreamReaderOptions;
  readonly #connection: NatsConnection;
  readonly #requestSubject: string;
  readonly #subscription: Subscription;
  readonly #inbox: string;
  readonly #heartbeat: Timer;
  #isOver = false;
  #isWaiting = false;
  /** Whether a batch is under way. */
  #isAsked = false;
  /** Messages still due in it. */
  #due = 0;
  #dueBytes = 0;
  #silentBeats = 0;
  /** Received messages that were not taken yet: no more than a batch. */
  #messages: StreamMessage[] = [];
  #isLast = false;
  #wake: (() => void) | undefined;
  readonly #onAbort: () => void;

  private constructor(options: StreamReaderOptions, consumer: string, inbox: string) {
    this.#options = options;
    this.#connection = options.access.connection;
    this.#requestSubject = `$JS.API.CONSUMER.MSG.NEXT.${options.stream}.${consumer}`;
    this.#inbox = inbox;
    this.#subscription = this.#connection.subscribe(inbox, {
      callback: (error, message) => {
        if (error !== null) this.#lose();
        else options.client.guard(() => this.#receive(new NatsMessage(message)));
      },
    });
    this.#heartbeat = options.client.clock.every(options.heartbeatMs, () => this.#beat());
    const gone = (): void => this.#lose();
    this.#connection.closed().then(gone, gone);
    this.#onAbort = gone;
    if (options.signal.aborted) this.close();
    else options.signal.addEventListener('abort', gone, { once: true });
  }

  static async open(options: StreamReaderOptions): Promise<NatsStreamReader> {
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
    return new NatsStreamReader(options, consumer.name, createInbox());
  }

  /**
   * Returns the messages that have come since the last call, once there are any; asks for the next batch if none is
   * under way. Returns undefined if this reader will receive nothing more. Rejects with the signal's reason.
   *
   * @param isWaiting whether a batch that is asked for now waits for future messages
   */
  async next(isWaiting: boolean): Promise<StreamPage | undefined> {
    const { signal } = this.#options;
    signal.throwIfAborted();
    if (this.#messages.length === 0 && !this.#isOver) {
      if (!this.#isAsked) this.#ask(isWaiting);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      signal.throwIfAborted();
    }
    const messages = this.#messages;
    if (messages.length === 0 && this.#isOver) return undefined;
    this.#messages = [];
    return { messages, isLast: this.#isLast };
  }

  close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#heartbeat.cancel();
    this.#options.signal.removeEventListener('abort', this.#onAbort);
    if (!this.#subscription.isClosed()) this.#subscription.unsubscribe(); // the server forgets the consumer by itself
  }

  #ask(isWaiting: boolean): void {
    this.#isAsked = true;
    this.#isLast = false;
    this.#due = BATCH_MESSAGES;
    this.#isWaiting = isWaiting;
    this.#silentBeats = 0;
    const { heartbeatMs, client } = this.#options;
    // Twice the longest message, so that a message that does not fit is never the first of a batch.
    const bytesMax = Math.max(BATCH_BYTES, 2 * client.messageBytesMax);
    this.#dueBytes = bytesMax;
    const limits = { batch: BATCH_MESSAGES, max_bytes: bytesMax };
    const waiting = { expires: 6 * heartbeatMs * NS_PER_MS, idle_heartbeat: heartbeatMs * NS_PER_MS };
    const request = JSON.stringify(isWaiting ? { ...limits, ...waiting } : { ...limits, no_wait: true });
    client.guard(() => this.#connection.publish(this.#requestSubject, request, { reply: this.#inbox }));
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
    // A newer message may come after the last of a batch, but no more than the batch could have had.
    const isAskedFor = this.#due >= 0 && this.#dueBytes >= 0;
    if (!isAskedFor || !Number.isSafeInteger(sequence) || !Number.isSafeInteger(pending)) {
      this.#lose();
      return;
    }
    this.#messages.push({ sequence, data: message.data });
    if (this.#due > 0 && (this.#isWaiting || pending > 0)) this.#wake?.();
    else this.#endBatch(pending === 0);
  }

  #readStatus({ status, statusText }: NatsMessage): void {
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
        else this.#lose();
        return;
      default:
        this.#lose();
    }
  }

  #endBatch(isLast: boolean): void {
    if (this.#isOver || !this.#isAsked) return;
    this.#isAsked = false;
    this.#isLast = isLast;
    this.#wake?.();
  }

  #beat(): void {
    if (!this.#isAsked) return; // it is the reader's turn
    this.#silentBeats++;
    if (this.#silentBeats > SILENT_BEATS_MAX) this.#lose();
  }

  #lose(): void {
    this.close();
    this.#wake?.();
  }
}

/**
 * Parses `$JS.ACK.{stream}.{consumer}.{delivered}.{stream sequence}.{consumer sequence}.{time}.{pending}`; some servers
 * put a domain and an account before the stream.
 */
function readDelivery(reply: string): { readonly sequence: number; readonly pending: number } {
  const parts = reply.split('.');
  const at = parts.length > 9 ? 4 : 2;
  return { sequence: Number(parts[at + 3]), pending: Number(parts[at + 6]) };
}

/**
 * A JetStream stream that captures one subject: limits, discard old, one file store. Calls wait for a connection; they
 * reject with the signal's reason if the signal aborts.
 */
export class NatsStream {
  readonly #client: NatsConnections;
  readonly #settings: NatsStreamSettings;
  /** Size with which this process made a smaller stream, and what it keeps of that. */
  #excess: { readonly reservedBytes: number; readonly keptBytes: number; attempts: number } | undefined;

  constructor(client: NatsConnections, settings: NatsStreamSettings) {
    this.#client = client;
    this.#settings = settings;
  }

  /** Creates the stream if there is none. Rejects if it cannot be created, or if its name belongs to other subjects. */
  async facts(signal: AbortSignal): Promise<NatsStreamFacts> {
    const { manager } = await openJetStream(await this.#client.connection(signal));
    return factsOf(await untilAborted(this.#ensure(manager), signal), this.#settings);
  }

  /** Reads from `fromSequence`, or from the first message kept. Rejects if there is no stream. */
  async read(fromSequence: number, signal: AbortSignal): Promise<NatsStreamReader> {
    const access = await openJetStream(await this.#client.connection(signal));
    const { name, heartbeatMs = 5000 } = this.#settings;
    const options = { access, client: this.#client, stream: name, fromSequence, heartbeatMs, signal };
    return untilAborted(NatsStreamReader.open(options), signal);
  }

  /** Deletes messages up to and including `sequence`. */
  async purge(sequence: number, signal: AbortSignal): Promise<void> {
    const { manager } = await openJetStream(await this.#client.connection(signal));
    const { name } = this.#settings;
    const { state } = await untilAborted(manager.streams.info(name), signal);
    // A purge beyond the end would move the sequence of the next message.
    const throughSequence = Math.min(sequence, state.last_seq);
    if (throughSequence < state.first_seq) return;
    await untilAborted(manager.streams.purge(name, { seq: throughSequence + 1 }), signal);
  }

  async #ensure(manager: JetStreamManager): Promise<StreamInfo> {
    return this.#giveBack(manager, await this.#findOrAdd(manager));
  }

  /**
   * Gives back what a smaller stream has reserved too much. If that fails, the call rejects and the next one tries
   * again, a few times: the log is of more use than the storage.
   */
  async #giveBack(manager: JetStreamManager, info: StreamInfo): Promise<StreamInfo> {
    const excess = this.#excess;
    if (excess === undefined || info.config.max_bytes !== excess.reservedBytes) return info;
    if (excess.attempts++ >= GIVE_BACK_ATTEMPTS_MAX) return info; // its size is one of the differences
    return await manager.streams.update(this.#settings.name, { max_bytes: excess.keptBytes });
  }

  async #findOrAdd(manager: JetStreamManager): Promise<StreamInfo> {
    const { name, bytesMax } = this.#settings;
    try {
      return await manager.streams.info(name);
    } catch (error) {
      if (apiCodeOf(error) !== STREAM_NOT_FOUND) throw error;
    }
    try {
      return await this.#add(manager, bytesMax);
    } catch (error) {
      // Another process has made a smaller one meanwhile.
      if (apiCodeOf(error) === OTHER_STREAM_EXISTS) return manager.streams.info(name);
      if (!NO_STORAGE.has(apiCodeOf(error)) || bytesMax / 2 < SMALL_BYTES_MIN) throw error;
    }
    return this.#addSmaller(manager, bytesMax / 2);
  }

  /**
   * Creates the stream with as much storage as there is. `#giveBack` returns half of that: a stream reserves its size,
   * and other streams need storage, too.
   */
  async #addSmaller(manager: JetStreamManager, bytesMax: number): Promise<StreamInfo> {
    const { name } = this.#settings;
    for (let bytes = Math.floor(bytesMax); ; bytes = Math.floor(bytes / 2)) {
      const keptBytes = Math.floor(bytes / 2);
      // Noted before: the server may create the stream although its answer is lost.
      this.#excess = keptBytes < SMALL_BYTES_MIN ? undefined : { reservedBytes: bytes, keptBytes, attempts: 0 };
      try {
        return await this.#add(manager, bytes);
      } catch (error) {
        if (apiCodeOf(error) === OTHER_STREAM_EXISTS) return manager.streams.info(name);
        if (!NO_STORAGE.has(apiCodeOf(error)) || bytes / 2 < SMALL_BYTES_MIN) throw error;
      }
    }
  }

  /** Creates the stream. If another process has just added it with the same settings, the answer is the same. */
  #add(manager: JetStreamManager, bytesMax: number): Promise<StreamInfo> {
    const { name, subject, replicas, ageMsMax } = this.#settings;
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
    throw new Error(`JetStream gives no usable description of the stream ${settings.name}`);
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
  return found === wanted ? undefined : `${name} is ${found}, but the setting is ${wanted}`;
}
