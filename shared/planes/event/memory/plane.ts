import { type Clock, type Random, systemRandom } from '../../../clock/index.ts';
import { decodeRecord, encodeRecord } from '../../record-codec.ts';
import { SequenceWatch } from '../sequence-watch.ts';
import { subjectOf } from '../subject.ts';
import type {
  EventEnvelope,
  EventListener,
  EventPlane,
  EventPublisher,
  EventScope,
  EventSubscription,
} from '../types.ts';
import { LogRecord, MemoryEventLog } from './log.ts';

export interface MemoryEventPlaneOptions {
  readonly clock: Clock;
  /** @default systemRandom */
  readonly random?: Random;
  /** Topics whose log begins with their first publisher; that of any other begins when it is asked for. @default kv-events */
  readonly loggedTopics?: readonly string[];
  /** Messages that a log keeps. @default 65536 */
  readonly logEntriesMax?: number;
}

/** An event plane inside one process, with what a test needs to make its log fail. */
export interface MemoryEventPlane extends EventPlane {
  log: NonNullable<EventPlane['log']>;
  /** Makes a log anew and empty, as a broker does that has lost its store. */
  recreateLog(scope: EventScope, topic: string): void;
}

/** A subscription as its publishers see it. */
interface Follower {
  readonly topic: string;
  readonly publisherIds: Set<string>;
  receive(envelope: EventEnvelope): void;
}

/**
 * An event plane inside one process. A subscription hears the publishers it was connected to, from then on; events are
 * copied and arrive on a later turn. A bounded log keeps what is published on logged topics.
 */
export function createMemoryEventPlane(options: MemoryEventPlaneOptions): MemoryEventPlane {
  const { clock, random = systemRandom, loggedTopics = ['kv-events'], logEntriesMax = 1 << 16 } = options;
  const followers = new Set<Follower>();
  const logs = new Map<string, LogRecord>();
  let isClosed = false;

  function logOf(scope: EventScope, topic: string): LogRecord {
    const subject = subjectOf(scope, topic);
    const record = logs.get(subject) ?? new LogRecord(logEntriesMax);
    logs.set(subject, record);
    return record;
  }

  function publish(subject: string, envelope: Omit<EventEnvelope, 'payload'>, payload: unknown): void {
    const bytes = Buffer.from(encodeRecord('msgpack', payload));
    logs.get(subject)?.append(envelope, bytes);
    for (const follower of followers) {
      if (follower.topic !== envelope.topic || !follower.publisherIds.has(envelope.publisherId)) continue;
      queueMicrotask(() => {
        if (!followers.has(follower) || !follower.publisherIds.has(envelope.publisherId)) return;
        follower.receive({ ...envelope, payload: decodeRecord('msgpack', bytes, 0, bytes.length) });
      });
    }
  }

  return {
    name: 'memory',
    async publisher(scope, topic) {
      if (loggedTopics.includes(topic)) logOf(scope, topic);
      const subject = subjectOf(scope, topic);
      const send: Send = (envelope, payload) => publish(subject, envelope, payload);
      return createPublisher(topic, random.instanceId(), clock, send, () => isClosed);
    },
    subscribe: async (_scope, topic, listener) => createSubscription(topic, listener, followers),
    async log(scope, topic, signal) {
      signal.throwIfAborted();
      return new MemoryEventLog(logOf(scope, topic));
    },
    recreateLog: (scope, topic) => logs.get(subjectOf(scope, topic))?.recreate(),
    async close() {
      isClosed = true;
      followers.clear();
    },
  };
}

type Send = (envelope: Omit<EventEnvelope, 'payload'>, payload: unknown) => void;

function createPublisher(
  topic: string,
  publisherId: string,
  clock: Clock,
  publish: Send,
  isPlaneClosed: () => boolean,
): EventPublisher {
  let sequence = 0;
  let dropped = 0;
  let isClosed = false;
  return {
    publisherId,
    transport: { kind: 'Memory', config: {} },
    publish(payload) {
      if (isClosed || isPlaneClosed()) return;
      const envelope = { topic, publisherId, sequence: sequence++, publishedAtMs: clock.wallMs() };
      try {
        publish(envelope, payload);
      } catch {
        dropped++; // a payload that cannot be encoded; subscribers see the gap
      }
    },
    get dropped() {
      return dropped;
    },
    async close() {
      isClosed = true;
    },
  };
}

function createSubscription(topic: string, listener: EventListener, followers: Set<Follower>): EventSubscription {
  const watch = new SequenceWatch(listener);
  const follower: Follower = { topic, publisherIds: new Set(), receive: (envelope) => watch.receive(envelope) };
  followers.add(follower);
  return {
    connect: (publisherId) => void follower.publisherIds.add(publisherId),
    disconnect(publisherId) {
      follower.publisherIds.delete(publisherId);
      watch.forget(publisherId);
    },
    get missed() {
      return watch.missed;
    },
    async close() {
      followers.delete(follower);
    },
  };
}
