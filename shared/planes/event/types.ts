/** Where events belong (runtime-and-workers.md, section 1.2 and 3.2). */
export type EventScope =
  | { readonly kind: 'namespace'; readonly namespace: string }
  | { readonly kind: 'component'; readonly namespace: string; readonly component: string }
  | { readonly kind: 'endpoint'; readonly namespace: string; readonly component: string; readonly endpoint: string };

/** One published message (section 3.3). */
export interface EventEnvelope {
  readonly topic: string;
  /** Unique per publisher object; hex. */
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
  /** Messages missed, seen as gaps in a publisher's sequence. */
  readonly missed: number;
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
  close(): Promise<void>;
}
