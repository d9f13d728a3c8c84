import { EventRelay, type KvEvent } from '../engines/index.ts';
import { reasonOf } from '../errors/index.ts';
import type { Logger } from '../telemetry/index.ts';
import type { BlockChange, BlockChangeSink } from '../worker-events/index.ts';

/** Where an engine publishes the cache changes of one rank. */
export interface ListenSource {
  /** ZeroMQ endpoint of the engine's publisher. */
  readonly endpoint: string;
  /** Endpoint that replays past batches, if there is one. */
  readonly replayEndpoint: string | undefined;
  readonly blockSizeTokens: number;
  /** Salt of blocks whose event has none. */
  readonly cacheSalt: string | undefined;
}

/** An open subscription. */
export interface KvListener {
  close(): Promise<void>;
}

/** Subscribes to a source and requests its past events. Rejects if it cannot connect to the endpoint. */
export type OpenListener = (
  source: ListenSource & { readonly dpRank: number },
  onChange: (change: BlockChange) => void,
) => Promise<KvListener>;

export type ListenerStatus = 'pending' | 'active' | 'paused' | 'failed';

interface Listening {
  readonly source: ListenSource;
  status: ListenerStatus;
  /** Undefined while paused. */
  open: Promise<KvListener | undefined> | undefined;
}

/** The subscriptions of a service, one for each rank of each worker; their changes go to one sink. */
export class RankListeners {
  readonly #open: OpenListener;
  readonly #sink: BlockChangeSink;
  readonly #logger: Logger;
  readonly #byWorker = new Map<string, Map<number, Listening>>();
  readonly #closing = new Set<Promise<void>>();

  constructor(open: OpenListener, sink: BlockChangeSink, logger: Logger) {
    this.#open = open;
    this.#sink = sink;
    this.#logger = logger;
  }

  /** Subscribes to a rank that is not subscribed yet. */
  add(workerId: string, dpRank: number, source: ListenSource): void {
    const ranks = this.#byWorker.get(workerId) ?? new Map<number, Listening>();
    this.#byWorker.set(workerId, ranks);
    const listening: Listening = { source, status: 'pending', open: undefined };
    ranks.set(dpRank, listening);
    this.#start(workerId, dpRank, listening);
  }

  has(workerId: string, dpRank?: number): boolean {
    const ranks = this.#byWorker.get(workerId);
    return ranks !== undefined && (dpRank === undefined || ranks.has(dpRank));
  }

  /** Ends the subscription. Changes that still arrive are not applied. */
  remove(workerId: string, dpRank: number): void {
    const ranks = this.#byWorker.get(workerId);
    const listening = ranks?.get(dpRank);
    if (ranks === undefined || listening === undefined) return;
    ranks.delete(dpRank);
    if (ranks.size === 0) this.#byWorker.delete(workerId);
    this.#stop(listening);
  }

  /** Events are missed until `resume`. Returns false for a rank that is not registered. */
  pause(workerId: string, dpRank: number): boolean {
    const listening = this.#byWorker.get(workerId)?.get(dpRank);
    if (listening === undefined) return false;
    this.#stop(listening);
    listening.status = 'paused';
    return true;
  }

  /** Subscribes again, and replays the events that the engine still has. */
  resume(workerId: string, dpRank: number): boolean {
    const listening = this.#byWorker.get(workerId)?.get(dpRank);
    if (listening === undefined) return false;
    if (listening.open === undefined) this.#start(workerId, dpRank, listening);
    return true;
  }

  get workerIds(): Iterable<string> {
    return this.#byWorker.keys();
  }

  get workerCount(): number {
    return this.#byWorker.size;
  }

  /** Returns the ranks in order. */
  of(
    workerId: string,
  ): readonly { readonly dpRank: number; readonly endpoint: string; readonly status: ListenerStatus }[] {
    const ranks = [...(this.#byWorker.get(workerId) ?? [])].sort(([left], [right]) => left - right);
    return ranks.map(([dpRank, { source, status }]) => ({ dpRank, endpoint: source.endpoint, status }));
  }

  async close(): Promise<void> {
    for (const ranks of this.#byWorker.values()) for (const listening of ranks.values()) this.#stop(listening);
    this.#byWorker.clear();
    await Promise.all(this.#closing);
  }

  #start(workerId: string, dpRank: number, listening: Listening): void {
    listening.status = 'pending';
    const onChange = (change: BlockChange): void => {
      if (listening.open === opening) this.#sink.changed(workerId, dpRank, change);
    };
    const opening: Promise<KvListener | undefined> = this.#open({ ...listening.source, dpRank }, onChange).then(
      (listener) => {
        if (listening.open === opening) listening.status = 'active';
        return listener;
      },
      (problem: unknown) => {
        if (listening.open === opening) listening.status = 'failed';
        const { endpoint } = listening.source;
        this.#logger.warn('cannot subscribe to KV events', { endpoint, reason: reasonOf(problem) });
        return undefined;
      },
    );
    listening.open = opening;
  }

  #stop(listening: Listening): void {
    const opening = listening.open;
    listening.open = undefined;
    if (opening === undefined) return;
    const closing = opening
      .then((listener) => listener?.close())
      .catch((problem: unknown) => this.#logger.warn('listener did not close', { reason: reasonOf(problem) }))
      .finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
  }
}

/** Returns whether ZeroMQ can connect to the endpoint: `tcp://host:port` or `ipc://path`. */
export function isConnectable(endpoint: string): boolean {
  if (/^ipc:\/\/\S+$/.test(endpoint)) return true;
  const [, host, port] = /^tcp:\/\/(\[[0-9a-fA-F:]+\]|[^\s:/[\]*]+):(\d{1,5})$/.exec(endpoint) ?? [];
  return host !== undefined && Number(port) > 0 && Number(port) <= 65_535;
}

/** Subscribes to the ZeroMQ publishers of engines, and replays all events that they still have. */
export function zmqListeners(logger: Logger): OpenListener {
  return async ({ endpoint, replayEndpoint, dpRank, blockSizeTokens, cacheSalt }, onChange) => {
    const relay = new EventRelay({
      sources: [{ dpRank, endpoint, binds: false, replayEndpoint, topic: '' }],
      blockSizeTokens,
      cacheSalt,
      logger,
      onDropped: () => {}, // the relay logs the reason
    });
    relay.listen((events) => {
      for (const event of events) onChange(toChange(event));
    });
    await relay.open();
    relay.catchUp();
    return relay;
  };
}

function toChange(event: KvEvent): BlockChange {
  switch (event.kind) {
    case 'stored': {
      const { tier = 'device', parentHash: parent, blockHashes, tokensHashes } = event;
      return { kind: 'stored', tier, parent, blockHashes, tokensHashes };
    }
    case 'removed':
      return { kind: 'removed', tier: event.tier ?? 'device', blockHashes: event.blockHashes };
    case 'cleared':
      return { kind: 'cleared' };
  }
}
