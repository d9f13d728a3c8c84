import type { Clock } from '../clock/index.ts';
import { withDeadline } from '../concurrency/index.ts';
import { type Discovery, eventChannelPrefix, type Watch, type WatchListener } from '../discovery/index.ts';
import { reasonOf } from '../errors/index.ts';
import type { EventListener, EventPlane, EventScope, EventSubscription } from '../planes/index.ts';
import type { Logger } from '../telemetry/index.ts';

export interface TopicFollowerOptions {
  readonly eventPlane: EventPlane;
  readonly discovery: Discovery;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly scope: EventScope;
  readonly topic: string;
  readonly listener: EventListener;
  /** Called after publishers have come or gone, with the worker of each present one. */
  readonly onPublishers?: (workerIds: ReadonlySet<string>) => void;
  /** Called for each publisher that has left. */
  readonly onLeft?: (publisherId: string) => void;
}

const RETRY_MS = 1000;
const OPEN_MS_MAX = 15_000;

/**
 * Follows one topic of one scope, from every publisher that discovery names. Planes without a broker connect to each
 * publisher; a plane with a broker needs one subscription. Retries to open while plane or discovery is unavailable.
 */
export class TopicFollower {
  readonly #options: TopicFollowerOptions;
  readonly #stopping = new AbortController();
  /** Worker that publishes, by publisher id. */
  readonly #workerOf = new Map<string, string>();
  readonly #publisherOfKey = new Map<string, string>();
  /** Whether a notice about publishers is pending, until this turn's changes are known. */
  #isChangeTold = false;
  #subscription: EventSubscription | undefined;
  #watch: Watch | undefined;
  /** Resolves once the topic is followed, or cannot be any more. */
  readonly opened: Promise<void>;

  constructor(options: TopicFollowerOptions) {
    this.#options = options;
    this.opened = this.#open();
  }

  /** Returns the worker of a publisher, hex; undefined if discovery names no worker for it. */
  workerOf(publisherId: string): string | undefined {
    return this.#workerOf.get(publisherId);
  }

  async close(): Promise<void> {
    this.#stopping.abort(new Error('the topic is no longer followed'));
    await this.opened;
    this.#watch?.close();
    await this.#subscription?.close();
  }

  /**
   * Schedules one notice for all publishers that came and went together. One for each of 10,000 would repeat 10,000
   * names each time.
   */
  #publishersChanged(): void {
    const { onPublishers } = this.#options;
    if (onPublishers === undefined || this.#isChangeTold) return;
    this.#isChangeTold = true;
    queueMicrotask(() => {
      this.#isChangeTold = false;
      if (!this.#stopping.signal.aborted) onPublishers(new Set(this.#workerOf.values()));
    });
  }

  async #open(): Promise<void> {
    const { clock, logger, scope, topic } = this.#options;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        await this.#tryOpen(signal);
        return;
      } catch (thrown) {
        if (signal.aborted) return;
        logger.warn('events cannot be followed; trying again', { ...scope, topic, reason: reasonOf(thrown) });
        await clock.sleep(RETRY_MS, signal).catch(() => undefined); // ends early if the follower is closed
      }
    }
  }

  async #tryOpen(signal: AbortSignal): Promise<void> {
    const { eventPlane, discovery, clock, scope, topic, listener, onLeft } = this.#options;
    const subscription = this.#subscription ?? (await eventPlane.subscribe(scope, topic, listener));
    this.#subscription = subscription;
    // Dynamo's processes publish in the scope of an endpoint, and Stator's in that of a namespace or a component.
    const includesDynamo = scope.kind === 'endpoint';
    const query = { bucket: 'v1/event_channels', prefix: eventChannelPrefix(scope, topic), includesDynamo } as const;
    const event: WatchListener['event'] = (each) => {
      if (each.kind === 'removed') {
        const publisherId = this.#publisherOfKey.get(each.key);
        if (publisherId === undefined) return;
        this.#publisherOfKey.delete(each.key);
        this.#workerOf.delete(publisherId);
        subscription.disconnect(publisherId);
        onLeft?.(publisherId);
        this.#publishersChanged();
      } else if (each.record.type === 'EventChannel' && each.record.topic === topic) {
        const { instance_id: publisherId, worker_id: workerId, transport } = each.record;
        this.#publisherOfKey.set(each.key, publisherId);
        if (workerId !== undefined) this.#workerOf.set(publisherId, workerId);
        subscription.connect(publisherId, transport);
        this.#publishersChanged();
      }
    };
    const deadline = { clock, timeoutMs: OPEN_MS_MAX, signal };
    this.#watch = await withDeadline(deadline, (within) => discovery.watch(query, { event }, within));
  }
}
