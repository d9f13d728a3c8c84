import { assertNever } from '../../errors/index.ts';

/** Place to which events belong. */
export type EventScope =
  | { readonly kind: 'namespace'; readonly namespace: string }
  | { readonly kind: 'component'; readonly namespace: string; readonly component: string }
  | { readonly kind: 'endpoint'; readonly namespace: string; readonly component: string; readonly endpoint: string };

/** One published message. */
export interface EventEnvelope {
  readonly topic: string;
  /** Unique per publisher object; hex, at most 64 bits. */
  readonly publisherId: string;
  /** Starts at 0 and grows by one with each message of this publisher. */
  readonly sequence: number;
  /** Unix milliseconds. */
  readonly publishedAtMs: number;
  /** Decoded payload. */
  readonly payload: unknown;
}

/** Address of a publisher for subscribers; part of its `EventChannel` discovery record. */
export type EventTransport =
  | { readonly kind: 'Zmq'; readonly config: { readonly endpoint: string } }
  | {
      readonly kind: 'ZmqBroker';
      readonly config: { readonly xsub_endpoints: readonly string[]; readonly xpub_endpoints: readonly string[] };
    }
  | { readonly kind: 'Nats'; readonly config: { readonly subject_prefix: string } }
  | { readonly kind: 'Memory'; readonly config: Readonly<Record<string, never>> };

export interface EventPublisher {
  readonly publisherId: string;
  readonly transport: EventTransport;
  /**
   * Publishes a message. Never blocks and never throws; a message that cannot be queued is dropped and counted
   * (`dropped`).
   */
  publish(payload: unknown): void;
  readonly dropped: number;
  close(): Promise<void>;
}

export interface EventSubscription {
  /** Follows another publisher of the scope and topic (planes without a broker). Idempotent by publisher id. */
  connect(publisherId: string, transport: EventTransport): void;
  disconnect(publisherId: string): void;
  close(): Promise<void>;
}

/** Callbacks of a subscriber. */
export interface EventListener {
  event(envelope: EventEnvelope): void;
  /**
   * Called if `sequence` jumped: messages from `expected` on are lost until `received`. The listener asks the worker
   * for a dump.
   */
  gap?(publisherId: string, expected: number, received: number): void;
}

/** Carries KV events, load and router synchronisation. */
export interface EventPlane {
  readonly name: 'zmq' | 'nats' | 'memory';
  publisher(scope: EventScope, topic: string): Promise<EventPublisher>;
  subscribe(scope: EventScope, topic: string, listener: EventListener): Promise<EventSubscription>;
  /** Returns the log of a scope and topic, created if there is none yet; undefined on planes without logs (zmq). */
  log?(scope: EventScope, topic: string, signal: AbortSignal): Promise<EventLog>;
  /**
   * Broker that the plane needs and cannot reach, with the reason, for operators; undefined while nothing is missing.
   */
  absence?(): string | undefined;
  close(): Promise<void>;
}

/** State of an `EventLog`. */
export interface EventLogState {
  /** Creation time of the log, as the store reports it; another value means another log, whatever its sequences. */
  readonly createdAt: string;
  /** Sequence of the oldest message kept; `lastSequence + 1` if there is none. */
  readonly firstSequence: number;
  /** Sequence of the last message; 0 = nothing was ever written. */
  readonly lastSequence: number;
}

export interface EventLogEntry {
  readonly sequence: number;
  readonly envelope: EventEnvelope;
}

/**
 * The ordered, bounded log of everything published on one scope and topic. A plane with a broker keeps it, and late
 * readers replay it. Every call rejects with the signal's reason if the signal aborts.
 *
 * `state` identifies the log. `read` and `purge` refuse another log that has taken its place since, and `follow`
 * reports it. After an outage a publisher sends unconfirmed messages again, so an event, and those after it, may be
 * stored twice.
 */
export interface EventLog {
  state(signal: AbortSignal): Promise<EventLogState>;
  /**
   * Returns the messages from `fromSequence` (or from the first one kept, if that is later) to the last one at the time
   * of the call.
   */
  read(fromSequence: number, signal: AbortSignal): AsyncIterable<EventLogEntry>;
  /**
   * Follows the log from `fromSequence` on, without end, through reconnections. Delivers in order and without gaps,
   * except that `gap` is called if the limits of the log dropped messages before they could be read. Resolves when the
   * log is open. `signal` ends the wait for that, and `EventLogFollower.close` ends following.
   */
  follow(fromSequence: number, listener: EventLogListener, signal: AbortSignal): Promise<EventLogFollower>;
  /** Deletes messages up to and including `sequence`. Idempotent. */
  purge(sequence: number, signal: AbortSignal): Promise<void>;
}

export interface EventLogListener {
  entry(entry: EventLogEntry): void;
  /**
   * Called if messages from `expected` until `received` are gone. `received` is not above `expected` if the log was
   * created anew (1) or has lost its end.
   */
  gap(expected: number, received: number): void;
}

export interface EventLogFollower {
  close(): Promise<void>;
}

/** Topics whose log begins with their first publisher; the log of any other topic begins when a caller asks for it. */
export const LOGGED_TOPICS: readonly string[] = ['kv-events'];

export function anotherLog(): Error {
  return new Error('the event log was created anew, and its sequence numbers have changed; read its state again');
}

/** Encodes one segment of a subject or key: every byte of its UTF-8 form except `[A-Za-z0-9_-]` becomes `%XX`. */
export function encodeSegment(text: string): string {
  return encodeURIComponent(text).replace(
    /[.!~*'()]/g, // encodeURIComponent leaves these alone; all are single bytes
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/**
 * Returns the subject of `topic` in `scope`: `namespace.{ns}[.component.{c}[.endpoint.{e}]].{topic}`.
 *
 * @example subjectOf({ kind: 'component', namespace: 'dynamo', component: 'backend' }, 'kv-events')
 * // 'namespace.dynamo.component.backend.kv-events'
 */
export function subjectOf(scope: EventScope, topic: string): string {
  return `${subjectPrefixOf(scope)}.${encodeSegment(topic)}`;
}

/** Returns the beginning of the subjects of `scope`. */
export function subjectPrefixOf(scope: EventScope): string {
  const namespace = `namespace.${encodeSegment(scope.namespace)}`;
  switch (scope.kind) {
    case 'namespace':
      return namespace;
    case 'component':
      return `${namespace}.component.${encodeSegment(scope.component)}`;
    case 'endpoint':
      return `${namespace}.component.${encodeSegment(scope.component)}.endpoint.${encodeSegment(scope.endpoint)}`;
    default:
      return assertNever(scope);
  }
}
