import type { BlockIndex, IndexStatus, RankTable } from '../block-index/index.ts';
import { reasonOf } from '../errors/index.ts';
import type { EventEnvelope } from '../planes/index.ts';
import { eventScopeOf, type FeedScope, scopeName } from './feed-scope.ts';
import { type FeedDeps, type FollowedWorker, KvEventFeed } from './kv-event-feed.ts';
import { type BlockChange, type BlockChangeSink, LOAD_TOPIC } from './kv-events.ts';
import { TopicFollower } from './topic-follower.ts';
import { decodeLoadReport, isOfRouter, type LoadReport, type WorkerLoads } from './worker-loads.ts';

/** A worker and the scope whose topics it publishes on. */
export interface PlacedWorker extends FollowedWorker {
  readonly scope: FeedScope;
}

interface OpenScope {
  readonly workers: Set<string>;
  readonly events: KvEventFeed | undefined;
  readonly loads: TopicFollower;
}

export interface WorkerFeedsOptions {
  readonly loads: WorkerLoads;
  /** Whether the feeds follow cache changes in addition to loads. */
  readonly followsKvEvents: boolean;
  /** Called for every report. */
  readonly onReport?: ((report: LoadReport) => void) | undefined;
}

/**
 * Follows events and loads of every worker that a process routes to. Takes worker sets, and keeps one subscription for
 * each scope and topic that their workers publish on. Closes the subscriptions of a scope without workers.
 */
export class WorkerFeeds {
  readonly #deps: FeedDeps;
  readonly #options: WorkerFeedsOptions;
  readonly #scopes = new Map<string, OpenScope>();
  /** Scope of each worker, by worker set. */
  readonly #sets = new Map<string, Map<string, OpenScope>>();
  readonly #closing = new Set<Promise<void>>();

  constructor(deps: FeedDeps, options: WorkerFeedsOptions) {
    this.#deps = deps;
    this.#options = options;
  }

  /** Sets the workers of the set `key`. Their cache changes go to `sink`, if there is one. */
  setWorkers(key: string, workers: readonly PlacedWorker[], sink: BlockChangeSink | undefined): void {
    const set = this.#sets.get(key) ?? new Map<string, OpenScope>();
    this.#sets.set(key, set);
    const present = new Set(workers.map(({ id }) => id));
    for (const [workerId, open] of set) {
      if (!present.has(workerId)) this.#leave(set, workerId, open);
    }
    for (const worker of workers) {
      const open = this.#open(worker.scope);
      set.set(worker.id, open);
      open.workers.add(worker.id);
      this.#options.loads.expect(worker);
      if (sink !== undefined) open.events?.follow(worker, sink);
    }
    if (workers.length === 0) this.#sets.delete(key);
    this.#closeUnused();
  }

  /** Keys of the sets with at least one worker. */
  get keys(): readonly string[] {
    return [...this.#sets.keys()];
  }

  /** Whether the blocks of every followed worker are known, according to events and reports. */
  get isSettled(): boolean {
    return [...this.#scopes.values()].every(({ events }) => events?.isSettled !== false);
  }

  async close(): Promise<void> {
    for (const key of this.keys) this.setWorkers(key, [], undefined);
    await Promise.all(this.#closing);
  }

  /** Removes a worker from a set, and forgets it if no other set has it. */
  #leave(set: Map<string, OpenScope>, workerId: string, open: OpenScope): void {
    set.delete(workerId);
    for (const other of this.#sets.values()) if (other.get(workerId) === open) return;
    open.workers.delete(workerId);
    open.events?.unfollow(workerId);
    this.#options.loads.forget(workerId);
  }

  #open(scope: FeedScope): OpenScope {
    const key = scopeName(scope);
    const known = this.#scopes.get(key);
    if (known !== undefined) return known;
    const events = this.#options.followsKvEvents ? new KvEventFeed(scope, this.#deps) : undefined;
    const loads = new TopicFollower({
      ...this.#deps,
      scope: eventScopeOf(scope),
      topic: LOAD_TOPIC,
      listener: { event: (envelope) => this.#receiveLoad(envelope, scope, events) },
    });
    const open: OpenScope = { workers: new Set(), events, loads };
    this.#scopes.set(key, open);
    return open;
  }

  #receiveLoad({ payload }: EventEnvelope, scope: FeedScope, events: KvEventFeed | undefined): void {
    const report = decodeLoadReport(payload);
    if (report === undefined) {
      this.#deps.observer.skipped('malformed');
      return;
    }
    if (scope.endpoint !== undefined && isOfRouter(report)) return;
    this.#options.loads.set(report);
    this.#options.onReport?.(report);
    if (report.lastEventId !== undefined) events?.announced(report.workerId, report.dpRank, report.lastEventId);
  }

  #closeUnused(): void {
    for (const [key, open] of this.#scopes) {
      if (open.workers.size > 0) continue;
      this.#scopes.delete(key);
      const closing = Promise.all([open.events?.close(), open.loads.close()]).then(
        () => void this.#closing.delete(closing),
        (thrown: unknown) => this.#deps.logger.warn('a feed did not close', { reason: reasonOf(thrown) }),
      );
      this.#closing.add(closing);
    }
  }
}

/** Called with every applied change and its result (`kv_cache_events_applied`). */
export type OnApplied = (kind: BlockChange['kind'], status: IndexStatus) => void;

/**
 * Returns a sink that applies the events of a worker set to its index. The sink ignores ranks that have left the table.
 */
export function indexSink(
  index: Pick<BlockIndex, 'stored' | 'removed' | 'cleared'>,
  ranks: RankTable,
  onApplied: OnApplied,
): BlockChangeSink {
  return {
    changed(workerId, dpRank, change) {
      const rank = ranks.find(workerId, dpRank);
      if (rank !== undefined) onApplied(change.kind, applyChange(index, rank, change));
    },
  };
}

/** Applies one change of a rank to the index. */
export function applyChange(
  index: Pick<BlockIndex, 'stored' | 'removed' | 'cleared'>,
  rank: number,
  change: BlockChange,
): IndexStatus {
  switch (change.kind) {
    case 'stored':
      return index.stored(rank, change.tier, change.parent, change.blockHashes, change.tokensHashes);
    case 'removed':
      return index.removed(rank, change.tier, change.blockHashes);
    case 'cleared':
      index.cleared(rank);
      return 'ok';
  }
}
