import { type Clock, type Random, systemRandom } from '../../../clock/index.ts';
import { type NatsClient, retryPauseMs } from '../../nats/client.ts';
import type { NatsStream } from '../../nats/stream.ts';
import { encodeEnvelopeRecord, SequencedPublisher } from '../envelope.ts';
import {
  type EventLog,
  type EventLogFollower,
  type EventPlane,
  type EventScope,
  LOGGED_TOPICS,
  subjectOf,
  subjectPrefixOf,
} from '../types.ts';
import { NatsEventLog } from './log.ts';
import { NatsSubscription } from './subscription.ts';

/** Limits of a log. An existing stream stays as it is; differences are reported. */
export interface NatsEventLogSettings {
  /** `STATOR_NATS_STREAM_REPLICAS`; 3 in production. @default 1 */
  readonly replicas?: number;
  /** `STATOR_NATS_STREAM_MAX_MB`. @default 4 GiB */
  readonly bytesMax?: number;
  /** `STATOR_NATS_STREAM_MAX_AGE_SECS`. @default 1 hour */
  readonly ageMsMax?: number;
  /** Heartbeat; a reader that hears nothing for three of these starts again. @default 5000 */
  readonly heartbeatMs?: number;
}

/** Settings of the NATS event plane. */
export interface NatsEventPlaneOptions {
  /** The plane's own connection; closed with it. */
  readonly client: NatsClient;
  readonly clock: Clock;
  /** @default systemRandom */
  readonly random?: Random;
  readonly log?: NatsEventLogSettings;
  /** Called for messages that cannot be read, listeners that throw and streams that cannot be created. */
  readonly onProblem: (problem: unknown) => void;
}

/**
 * The event plane over NATS. An event is published once, to its subject, and never waits for the server. Messages that
 * are not confirmed are kept, up to a limit, and sent again after an outage, so an event may come twice; subscribers
 * drop duplicates. A JetStream stream captures the subject of a logged topic. A duplicate is stored twice there, which
 * is why holdings are sets. A message longer than the server accepts is dropped and counted: publishers batch far below
 * that, and a subscriber that sees the gap asks for a dump.
 */
export function createNatsEventPlane(options: NatsEventPlaneOptions): EventPlane {
  const { client, clock, random = systemRandom, onProblem } = options;
  const streams = new LogStreams(options);
  const followers = new Set<EventLogFollower>();

  return {
    name: 'nats',
    async publisher(scope, topic) {
      if (LOGGED_TOPICS.includes(topic)) streams.keep(scope, topic);
      const subject = subjectOf(scope, topic);
      return new SequencedPublisher({
        topic,
        publisherId: random.instanceId(),
        transport: { kind: 'Nats', config: { subject_prefix: subjectPrefixOf(scope) } },
        clock,
        send: (event) => client.publish(subject, encodeEnvelopeRecord(event)),
      });
    },
    subscribe: async (scope, topic, listener) =>
      new NatsSubscription({
        subscribe: (receive) => client.subscribe(subjectOf(scope, topic), receive),
        topic,
        listener,
        onProblem,
      }),
    async log(scope, topic, signal): Promise<EventLog> {
      const log = new NatsEventLog({ stream: streams.of(scope, topic), topic, clock, random, onProblem, followers });
      await log.state(signal);
      streams.keep(scope, topic);
      return log;
    },
    absence: () => client.absence,
    async close() {
      streams.close();
      await Promise.all([...followers].map((follower) => follower.close()));
      await client.close();
    },
  };
}

/** Streams behind the logs: created at first use, and again if the server comes back without them. */
class LogStreams {
  readonly #options: NatsEventPlaneOptions;
  readonly #kept = new Map<string, KeptStream>();
  readonly #closing = new AbortController();
  readonly #unwatch: () => void;
  /** Last report about each stream. */
  readonly #told = new Map<string, string>();

  constructor(options: NatsEventPlaneOptions) {
    this.#options = options;
    this.#unwatch = options.client.watch({
      connected: () => {
        for (const [name, kept] of this.#kept) this.#ask(name, kept);
      },
    });
  }

  of(scope: EventScope, topic: string): NatsStream {
    const { client, log = {} } = this.#options;
    const { replicas = 1, bytesMax = 4 * 2 ** 30, ageMsMax = 3_600_000, heartbeatMs = 5000 } = log;
    const subject = subjectOf(scope, topic);
    return client.stream({ name: streamNameOf(subject), subject, replicas, bytesMax, ageMsMax, heartbeatMs });
  }

  keep(scope: EventScope, topic: string): void {
    const name = streamNameOf(subjectOf(scope, topic));
    if (this.#kept.has(name)) return;
    const kept = { stream: this.of(scope, topic), asked: 0, isBeingMade: false };
    this.#kept.set(name, kept);
    this.#ask(name, kept);
  }

  close(): void {
    this.#unwatch();
    this.#closing.abort();
  }

  #ask(name: string, kept: KeptStream): void {
    kept.asked++;
    if (!kept.isBeingMade) void this.#make(name, kept);
  }

  /**
   * Asks until the server has the stream: a server that has just started, or elects its leader, accepts the connection
   * but no stream yet.
   */
  async #make(name: string, kept: KeptStream): Promise<void> {
    const { clock, random = systemRandom } = this.#options;
    const { signal } = this.#closing;
    kept.isBeingMade = true;
    let answered = 0;
    for (let failures = 0; answered < kept.asked && !signal.aborted; ) {
      const { asked } = kept;
      try {
        const { differences } = await kept.stream.facts(signal);
        answered = asked;
        failures = 0;
        if (differences.length > 0) this.#tell(name, `the event stream ${name} is left as it is: ${differences}`);
      } catch (error) {
        if (signal.aborted) return;
        this.#tell(name, error);
        await clock.sleep(retryPauseMs(++failures, random), signal).catch(() => {}); // closed: the loop ends
      }
    }
    kept.isBeingMade = false;
  }

  #tell(name: string, problem: unknown): void {
    const text = String(problem);
    if (this.#told.get(name) === text) return;
    this.#told.set(name, text);
    this.#options.onProblem(problem);
  }
}

interface KeptStream {
  readonly stream: NatsStream;
  /**
   * How often the stream had to be created: once, and with each connection, which may be to a server that has lost it.
   */
  asked: number;
  isBeingMade: boolean;
}

/** Returns the stream of a subject, e.g. `namespace-dynamo-component-backend-kv-events`. */
export function streamNameOf(subject: string): string {
  return subject.replace(/[._]/g, '-');
}
