import { type Clock, type Random, systemRandom } from '../../../clock/index.ts';
import { decodeRecord, encodeRecord } from '../../record-codec.ts';
import { SequenceWatch } from '../sequence-watch.ts';
import type { EventEnvelope, EventListener, EventPlane, EventPublisher, EventSubscription } from '../types.ts';

export interface MemoryEventPlaneOptions {
  readonly clock: Clock;
  /** @default systemRandom */
  readonly random?: Random;
}

/** A subscription as its publishers see it. */
interface Follower {
  readonly topic: string;
  readonly publisherIds: Set<string>;
  receive(envelope: EventEnvelope): void;
}

/**
 * An event plane inside one process. Like `zmq` it has no broker: a subscription hears the publishers it was connected to,
 * from then on. Events are copied and arrive on a later turn.
 */
export function createMemoryEventPlane(options: MemoryEventPlaneOptions): EventPlane {
  const { clock, random = systemRandom } = options;
  const followers = new Set<Follower>();
  let isClosed = false;

  function publish(envelope: Omit<EventEnvelope, 'payload'>, payload: unknown): void {
    const bytes = Buffer.from(encodeRecord('msgpack', payload));
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
    publisher: async (_scope, topic) => createPublisher(topic, random.instanceId(), clock, publish, () => isClosed),
    subscribe: async (_scope, topic, listener) => createSubscription(topic, listener, followers),
    async close() {
      isClosed = true;
      followers.clear();
    },
  };
}

function createPublisher(
  topic: string,
  publisherId: string,
  clock: Clock,
  publish: (envelope: Omit<EventEnvelope, 'payload'>, payload: unknown) => void,
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
