import type { Clock, Random } from '../clock/index.ts';
import { endOfTurn, type Semaphore } from '../concurrency/index.ts';
import type { Discovery, Watch } from '../discovery/index.ts';
import { reasonOf } from '../errors/index.ts';
import type { EventEnvelope, EventPlane } from '../planes/index.ts';
import type { RankId } from '../router/index.ts';
import type { Logger } from '../telemetry/index.ts';
import { PublisherSources } from './dynamo/publisher-sources.ts';
import { type ComponentScope, eventScopeOf, type FeedScope } from './feed-scope.ts';
import { type BlockChangeSink, decodeRouterEvents, KV_EVENTS_TOPIC, type SkipReason } from './kv-events.ts';
import { type FollowerObserver, RankFollower } from './rank-follower.ts';
import type { RecoveryClient } from './recovery.ts';
import { RankEndpoints, type RecoverySources } from './recovery-sources.ts';
import { TopicFollower } from './topic-follower.ts';

/** A worker whose blocks a feed follows. */
export interface FollowedWorker {
  /** Instance id, hex. */
  readonly id: string;
  readonly dataParallelStartRank: number;
  readonly dataParallelSize: number;
  /** Whether it answers recovery queries (`enable_local_indexer` of its card). */
  readonly hasLocalIndexer: boolean;
}

/** Counters of a feed. */
export interface FeedObserver extends FollowerObserver {
  /** Hears that an event could not be used. */
  skipped(reason: SkipReason): void;
}

/** Position in the events of one rank that a snapshot of the index contains. */
export interface RankPlace extends RankId {
  readonly eventId: number;
  /** Publisher, hex; undefined = the worker does not name it. */
  readonly publisherId: string | undefined;
}

/**
 * Source of a component's events other than the event plane's own subscription: a log. Its reader passes every message
 * to the feed, and says from which places the feed continues.
 */
export interface EventSource {
  start(feed: KvEventFeed): void;
  stop(): Promise<void>;
}

/** Dependencies that all feeds of a process share. */
export interface FeedDeps {
  readonly eventPlane: EventPlane;
  readonly discovery: Discovery;
  readonly recovery: RecoveryClient;
  readonly slots: Semaphore;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly observer: FeedObserver;
  /** Lets other work run. @default until the end of the turn of the event loop */
  readonly defer?: () => Promise<void>;
  /**
   * Returns the log of a component's events. @default none: the feed subscribes to the topic and restores every rank
   * from its worker
   */
  readonly sourceOf?: ((scope: ComponentScope) => EventSource | undefined) | undefined;
}

interface Followed {
  readonly worker: FollowedWorker;
  readonly sink: BlockChangeSink;
  readonly ranks: Map<number, RankFollower>;
}

const RETRY_MS = 1000;

/**
 * Passes the cache changes of the workers of one scope to the indexes of their models. It has one subscription, and one
 * `RankFollower` for each followed rank. It ignores all other events on the topic.
 */
export class KvEventFeed {
  readonly #deps: FeedDeps;
  readonly #scope: FeedScope;
  readonly #workers = new Map<string, Followed>();
  readonly #events: TopicFollower | undefined;
  readonly #source: EventSource | undefined;
  readonly #recovery: RecoverySources;
  readonly #stopping = new AbortController();
  readonly #opened: Promise<void>;
  #watch: Watch | undefined;
  #isOpen = false;
  /**
   * Whether the feed restores ranks from their workers as soon as they appear. With a source, the source decides when.
   */
  #restoresRanks: boolean;

  constructor(scope: FeedScope, deps: FeedDeps) {
    this.#scope = scope;
    this.#deps = deps;
    const isDynamo = scope.endpoint !== undefined;
    const sources = { ...deps, onReplaced: (rank: RankId, by?: string) => this.#replaced(rank, by) };
    this.#recovery = isDynamo ? new PublisherSources(scope, sources) : new RankEndpoints(scope, sources);
    this.#source = isDynamo ? undefined : deps.sourceOf?.(scope);
    this.#restoresRanks = this.#source === undefined;
    if (this.#source === undefined) this.#events = this.#subscribe();
    this.#opened = this.#open();
  }

  /**
   * Passes the worker's changes to `sink` from now on. Keeps following a worker that it already follows, unless its
   * ranks changed.
   */
  follow(worker: FollowedWorker, sink: BlockChangeSink): void {
    const known = this.#workers.get(worker.id);
    if (known !== undefined && known.sink === sink && hasSameRanks(known.worker, worker)) return;
    this.unfollow(worker.id);
    const followed: Followed = { worker, sink, ranks: new Map() };
    this.#workers.set(worker.id, followed);
    const { dataParallelStartRank: start, dataParallelSize: size } = worker;
    for (let dpRank = start; dpRank < start + size; dpRank++) {
      followed.ranks.set(dpRank, this.#createFollower(followed, dpRank));
    }
    if (this.#isOpen && this.#restoresRanks) for (const rank of followed.ranks.values()) rank.start();
  }

  /** Stops following the worker at once. The sink keeps its blocks. */
  unfollow(workerId: string): void {
    const followed = this.#workers.get(workerId);
    if (followed === undefined) return;
    this.#workers.delete(workerId);
    for (const rank of followed.ranks.values()) rank.close();
  }

  /** Takes a message of the topic. */
  received({ publisherId, payload }: EventEnvelope): void {
    for (const event of decodeRouterEvents(payload, (reason) => this.#skipped(reason, publisherId))) {
      this.#workers.get(event.workerId)?.ranks.get(event.dpRank)?.live({ publisherId, event });
    }
  }

  /** Returns the ranks whose blocks are all known, with their places. */
  places(): readonly RankPlace[] {
    const places: RankPlace[] = [];
    for (const { worker, ranks } of this.#workers.values()) {
      for (const [dpRank, { cursor: eventId, publisherId, isRecovering }] of ranks) {
        if (eventId !== undefined && !isRecovering) places.push({ workerId: worker.id, dpRank, eventId, publisherId });
      }
    }
    return places;
  }

  /** Returns every followed rank. */
  ranks(): readonly RankId[] {
    return [...this.#workers.values()].flatMap(({ worker, ranks }) =>
      Array.from(ranks.keys(), (dpRank) => ({ workerId: worker.id, dpRank })),
    );
  }

  /** Continues from these places after the indexes were replaced. They hold no blocks of other ranks. */
  resume(places: readonly RankPlace[]): void {
    const byRank = new Map(places.map((place) => [`${place.workerId}/${place.dpRank}`, place]));
    for (const { worker, ranks } of this.#workers.values()) {
      for (const [dpRank, rank] of ranks) rank.resume(byRank.get(`${worker.id}/${dpRank}`));
    }
    this.#restoresRanks = true; // ranks that appear from now on are in no snapshot
  }

  /** Asks the worker for the missing events of one rank; see `RankFollower.recover`. */
  async recover(workerId: string, dpRank: number, signal: AbortSignal): Promise<void> {
    await this.#workers.get(workerId)?.ranks.get(dpRank)?.recover(signal);
  }

  /** Asks the workers for all blocks of every rank whose blocks are unknown, because the source does not have them. */
  restoreAll(): void {
    this.#restoresRanks = true;
    if (!this.#isOpen) return;
    for (const { ranks } of this.#workers.values()) for (const rank of ranks.values()) rank.start();
  }

  /** Notes the worker's last event, by its own report. Has no effect while a source still fills the indexes. */
  announced(workerId: string, dpRank: number, eventId: number): void {
    if (!this.#restoresRanks) return;
    this.#workers.get(workerId)?.ranks.get(dpRank)?.announced(eventId);
  }

  /** Whether every followed rank has been restored and misses no known event. */
  get isSettled(): boolean {
    for (const { ranks } of this.#workers.values()) {
      for (const rank of ranks.values()) if (rank.cursor === undefined || rank.isRecovering) return false;
    }
    return this.#isOpen;
  }

  async close(): Promise<void> {
    this.#stopping.abort(new Error('the feed is closed'));
    for (const workerId of [...this.#workers.keys()]) this.unfollow(workerId);
    await this.#opened;
    this.#watch?.close();
    await Promise.all([this.#events?.close(), this.#source?.stop()]);
  }

  #subscribe(): TopicFollower {
    return new TopicFollower({
      ...this.#deps,
      scope: eventScopeOf(this.#scope),
      topic: KV_EVENTS_TOPIC,
      listener: {
        event: (envelope) => this.received(envelope),
        gap: (publisherId) => this.#suspectPublisher(publisherId),
      },
    });
  }

  /** Starts to restore ranks once events arrive and endpoints are known, so that no event is lost in between. */
  async #open(): Promise<void> {
    const { clock, logger } = this.#deps;
    const { signal } = this.#stopping;
    await this.#events?.opened;
    while (this.#watch === undefined && !signal.aborted) {
      try {
        this.#watch = await this.#recovery.watch(signal);
      } catch (thrown) {
        if (signal.aborted) return;
        logger.warn('recovery endpoints cannot be read; trying again', { ...this.#scope, reason: reasonOf(thrown) });
        await clock.sleep(RETRY_MS, signal).catch(() => undefined); // ends early if the feed is closed
      }
    }
    if (signal.aborted) return;
    this.#isOpen = true;
    if (this.#restoresRanks) this.restoreAll();
    this.#source?.start(this);
  }

  /** @param by publisher that replaces another, hex; undefined = unknown */
  #replaced({ workerId, dpRank }: RankId, by: string | undefined): void {
    const rank = this.#workers.get(workerId)?.ranks.get(dpRank);
    if (by === undefined || rank?.publisherId !== by) rank?.replaced(); // else its events came before its record
  }

  #createFollower({ worker, sink }: Followed, dpRank: number): RankFollower {
    const { clock, random, slots, observer, logger, defer = endOfTurn } = this.#deps;
    const rank = { workerId: worker.id, dpRank };
    return new RankFollower({
      rank,
      sink,
      clock,
      random,
      slots,
      observer,
      defer,
      canRecover: worker.hasLocalIndexer,
      query: (startEventId, signal, publisherId) =>
        this.#recovery.query({ ...rank, startEventId, publisherId }, signal),
      onFailed: (reason) =>
        logger.warn('cached blocks of a worker could not be recovered', {
          worker_id: worker.id,
          dp_rank: dpRank,
          reason,
        }),
    });
  }

  #skipped(reason: SkipReason, publisherId: string): void {
    const { observer, logger } = this.#deps;
    observer.skipped(reason);
    logger.warn('unusable KV events are skipped', { ...this.#scope, publisher_id: publisherId, reason });
  }

  /**
   * Asks for the events of a worker after messages of its publisher were lost. A publisher of Dynamo has one rank and
   * names no worker: the next event shows what is missing.
   */
  #suspectPublisher(publisherId: string): void {
    const workerId = this.#events?.workerOf(publisherId);
    const followed = workerId === undefined ? undefined : this.#workers.get(workerId);
    if (followed === undefined || !this.#isOpen) return;
    for (const rank of followed.ranks.values()) rank.suspect();
  }
}

function hasSameRanks(a: FollowedWorker, b: FollowedWorker): boolean {
  return (
    a.dataParallelStartRank === b.dataParallelStartRank &&
    a.dataParallelSize === b.dataParallelSize &&
    a.hasLocalIndexer === b.hasLocalIndexer
  );
}
