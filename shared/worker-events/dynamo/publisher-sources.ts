import { withDeadline } from '../../concurrency/index.ts';
import { type EventSourceRecord, eventChannelPrefix, type Watch, type WatchListener } from '../../discovery/index.ts';
import { workerError } from '../../errors/index.ts';
import type { Transport } from '../../planes/index.ts';
import type { RankId } from '../../router/index.ts';
import { eventScopeOf, type FeedScope } from '../feed-scope.ts';
import { KV_EVENTS_TOPIC } from '../kv-events.ts';
import type { RecoveryAnswer } from '../recovery.ts';
import {
  OPEN_MS_MAX,
  type RecoveryQuestion,
  type RecoverySources,
  type RecoverySourcesOptions,
} from '../recovery-sources.ts';

/** A publisher of one rank's events. */
interface PublisherSource {
  readonly publisherId: string;
  readonly rank: RankId;
  /** Endpoint that answers for its events; undefined = there are only live events. */
  readonly target: Transport | undefined;
}

/**
 * Publishers of Dynamo's workers that answer for their own events. Each rank has a publisher of its own, with an
 * endpoint of its own. The newest publisher of a rank counts.
 */
export class PublisherSources implements RecoverySources {
  readonly #scope: FeedScope;
  readonly #options: RecoverySourcesOptions;
  readonly #sourceOfKey = new Map<string, PublisherSource>();
  readonly #sourceOf = new Map<string, PublisherSource>(); // by publisher
  readonly #ofRank = new Map<string, readonly PublisherSource[]>(); // the newest last

  constructor(scope: FeedScope, options: RecoverySourcesOptions) {
    this.#scope = scope;
    this.#options = options;
  }

  watch(signal: AbortSignal): Promise<Watch> {
    const { discovery, clock } = this.#options;
    const prefix = eventChannelPrefix(eventScopeOf(this.#scope), KV_EVENTS_TOPIC);
    const query = { bucket: 'v1/event_sources', prefix, includesDynamo: true } as const;
    const event: WatchListener['event'] = (each) => {
      if (each.kind === 'removed') this.#removed(each.key);
      else if (each.record.type === 'EventSource') this.#added(each.key, each.record);
    };
    const deadline = { clock, timeoutMs: OPEN_MS_MAX, signal };
    return withDeadline(deadline, (within) => discovery.watch(query, { event }, within));
  }

  async query(question: RecoveryQuestion, signal: AbortSignal): Promise<RecoveryAnswer> {
    const { publisherId, startEventId } = question;
    const source = publisherId === undefined ? this.#newestOf(question) : this.#sourceOf.get(publisherId);
    if (source === undefined) throw workerError('Unavailable', 'no publisher of the worker is in discovery');
    const { target, rank } = source;
    if (target === undefined) throw workerError('Unavailable', 'the publisher of the worker answers no queries');
    const answer = await this.#options.recovery.queryDynamo(target, rank, startEventId, signal);
    return { ...answer, publisherId: source.publisherId }; // an endpoint answers for one publisher
  }

  #added(key: string, { instance_id: publisherId, worker_id, dp_rank = 0, recovery_target }: EventSourceRecord): void {
    if (worker_id === undefined) return; // events of another kind
    const rank = { workerId: worker_id, dpRank: dp_rank };
    this.#forget(this.#sourceOfKey.get(key));
    const before = this.#newestOf(rank);
    const source = { publisherId, rank, target: recovery_target?.transport };
    this.#sourceOfKey.set(key, source);
    this.#sourceOf.set(publisherId, source);
    this.#ofRank.set(nameOf(rank), [...(this.#ofRank.get(nameOf(rank)) ?? []), source]);
    if (before !== undefined) this.#options.onReplaced(rank, publisherId);
  }

  #removed(key: string): void {
    const source = this.#sourceOfKey.get(key);
    if (source === undefined) return;
    this.#sourceOfKey.delete(key);
    const wasNewest = this.#newestOf(source.rank) === source;
    this.#forget(source);
    const other = wasNewest ? this.#newestOf(source.rank) : undefined;
    if (other !== undefined) this.#options.onReplaced(source.rank, other.publisherId);
  }

  #forget(source: PublisherSource | undefined): void {
    if (source === undefined) return;
    this.#sourceOf.delete(source.publisherId);
    const name = nameOf(source.rank);
    const others = this.#ofRank.get(name)?.filter((each) => each !== source) ?? [];
    if (others.length > 0) this.#ofRank.set(name, others);
    else this.#ofRank.delete(name);
  }

  #newestOf(rank: RankId): PublisherSource | undefined {
    return this.#ofRank.get(nameOf(rank))?.at(-1);
  }
}

function nameOf({ workerId, dpRank }: RankId): string {
  return `${workerId}/${dpRank}`;
}
