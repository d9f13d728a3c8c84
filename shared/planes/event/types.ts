import { assertNever } from '../../errors/index.ts';

/** Where events belong. */
export type EventScope =
  | { readonly kind: 'namespace'; readonly namespace: string }
  | { readonly kind: 'component'; readonly namespace: string; readonly component: string }
  | { readonly kind: 'endpoint'; readonly namespace: string; readonly component: string; readonly endpoint: string };

/** One published message. */
export interface EventEnvelope {
  readonly topic: string;
  /** Unique per publisher object; hex, at most 64 bits. */
  readonly publisherId: string;
  /** Starts at 0 and grows by one per publish of this publisher. */
  readonly sequence: number;
  /** Unix milliseconds. */
  readonly publishedAtMs: number;
  /** The decoded payload. */
  readonly payload: unknown;
}

/** How subscribers reach a publisher; goes into its `EventChannel` discovery record. */
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
  /** Never blocks and never throws; a message that cannot be queued is dropped and counted (`dropped`). */
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

/** What a subscriber is told. */
export interface EventListener {
  event(envelope: EventEnvelope): void;
  /** `sequence` jumped: messages from `expected` on are lost until `received`. The listener asks the worker for a dump. */
  gap?(publisherId: string, expected: number, received: number): void;
}

/** Carries KV events, load and router synchronisation. */
export interface EventPlane {
  readonly name: 'zmq' | 'nats' | 'memory';
  publisher(scope: EventScope, topic: string): Promise<EventPublisher>;
  subscribe(scope: EventScope, topic: string, listener: EventListener): Promise<EventSubscription>;
  /** The record of a scope and topic, made if there is none yet; undefined on planes that keep none (zmq). */
  log?(scope: EventScope, topic: string, signal: AbortSignal): Promise<EventLog>;
  /** A broker that the plane needs and cannot reach, with the reason, for operators; undefined while nothing is missing. */
  absence?(): string | undefined;
  close(): Promise<void>;
}

/** Where an `EventLog` stands. */
export interface EventLogState {
  /** When the log was created, as the store says it; another value means another log, whatever its sequences. */
  readonly createdAt: string;
  /** Sequence of the oldest message kept; `lastSequence + 1` when none is. */
  readonly firstSequence: number;
  /** 0 = nothing was ever written. */
  readonly lastSequence: number;
}

export interface EventLogEntry {
  readonly sequence: number;
  readonly envelope: EventEnvelope;
}

/**
 * The ordered, bounded record of everything published on one scope and topic. A plane with
 * a broker keeps it; late readers replay it. Every call rejects with the signal's reason when it aborts.
 *
 * `state` tells which log this is; `read` and `purge` refuse another one that took its place since, and `follow` tells of it.
 * After an outage a publisher sends again what was not confirmed, so that an event, and those behind it, may stand twice.
 */
export interface EventLog {
  state(signal: AbortSignal): Promise<EventLogState>;
  /** Messages from `fromSequence` (or the first one kept, if that is later) to the last one at the time of the call. */
  read(fromSequence: number, signal: AbortSignal): AsyncIterable<EventLogEntry>;
  /**
   * Follows the log from `fromSequence` on, without end, through reconnections; in order and without gaps, except that
   * `gap` is told when messages were dropped by the bounds of the log before they could be read. Resolves when the log is
   * open; `signal` ends the waiting for that, `EventLogFollower.close` the following.
   */
  follow(fromSequence: number, listener: EventLogListener, signal: AbortSignal): Promise<EventLogFollower>;
  /** Forgets messages up to and including `sequence`. Idempotent. */
  purge(sequence: number, signal: AbortSignal): Promise<void>;
}

export interface EventLogListener {
  entry(entry: EventLogEntry): void;
  /**
   * Messages from `expected` until `received` are gone. `received` is not above `expected` where the log was created anew
   * (1) or has lost its end.
   */
  gap(expected: number, received: number): void;
}

export interface EventLogFollower {
  close(): Promise<void>;
}

/** Topics whose log begins with their first publisher; that of any other begins when it is asked for. */
export const LOGGED_TOPICS: readonly string[] = ['kv-events'];

export function anotherLog(): Error {
  return new Error('the event log was created anew, and its sequence numbers have changed; read its state again');
}

/** One segment of a subject or key: every byte of its UTF-8 form but `[A-Za-z0-9_-]` as `%XX`. */
export function encodeSegment(text: string): string {
  return encodeURIComponent(text).replace(
    /[.!~*'()]/g, // what encodeURIComponent leaves alone beyond our set; all of them single bytes
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/**
 * The subject of `topic` in `scope`: `namespace.{ns}[.component.{c}[.endpoint.{e}]].{topic}`.
 *
 * @example subjectOf({ kind: 'component', namespace: 'dynamo', component: 'backend' }, 'kv-events')
 * // 'namespace.dynamo.component.backend.kv-events'
 */
export function subjectOf(scope: EventScope, topic: string): string {
  return `${subjectPrefixOf(scope)}.${encodeSegment(topic)}`;
}

/** What the subjects of `scope` begin with. */
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
