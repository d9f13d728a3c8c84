import type { JetStreamManager, StreamInfo } from '@nats-io/jetstream';
import { untilAborted } from '../../concurrency/index.ts';
import { LinkedBucket } from './bucket.ts';
import { apiCodeOf, openJetStream, STREAM_NOT_FOUND } from './jetstream-access.ts';
import { NatsLink } from './link.ts';
import { StreamReader } from './stream-reader.ts';
import type {
  NatsClient,
  NatsOptions,
  NatsStream,
  NatsStreamFacts,
  NatsStreamReader,
  NatsStreamReceiver,
  NatsStreamSettings,
} from './types.ts';

const NS_PER_MS = 1_000_000;

/**
 * A client of NATS; the library behind it is known in this folder alone. Nothing is dialled before it is needed.
 *
 * @example
 * const client = createNatsClient({ clock: systemClock, servers: ['nats://localhost:4222'] });
 * client.subscribe('greetings', (message) => console.log(message.data));
 */
export function createNatsClient(options: NatsOptions): NatsClient {
  const link = new NatsLink(options);
  return {
    get isConnected() {
      return link.isConnected;
    },
    get messageBytesMax() {
      return link.messageBytesMax;
    },
    connected: async (signal) => void (await link.connection(signal)),
    send: (subject, data, reply) => link.send(subject, data, reply),
    publish: (subject, data) => link.publish(subject, data),
    subscribe: (subject, receive) => link.subscribe(subject, receive),
    watch: (watcher) => link.watch(watcher),
    flush: (signal) => link.flush(signal),
    stream: (settings) => new LinkedStream(link, settings),
    bucket: (settings) => new LinkedBucket(link, settings),
    close: () => link.close(),
  };
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
