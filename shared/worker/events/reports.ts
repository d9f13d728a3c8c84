import type { EventChannelRecord } from '../../discovery/index.ts';
import type { EngineInfo, EngineLoad } from '../../engines/index.ts';
import type { EventPublisher, EventScope } from '../../planes/event/index.ts';
import { u64OfHex } from '../../records/index.ts';
import { KV_EVENTS_TOPIC, LOAD_TOPIC } from '../../router/feed/index.ts';
import type { RankWeight } from '../../router/scheduler/index.ts';
import { CounterReporter, type RankReading } from '../../router/state/index.ts';
import type { WorkerOptions, WorkerSettings } from '../options.ts';
import { KvEventPublisher } from './kv-event-publisher.ts';
import { LoadReporter } from './load-reporter.ts';
import type { RankJournal } from './rank-journal.ts';
import type { ReservedRequests } from './reserved-requests.ts';

/** Withdrawing the ranks' counters takes no longer. */
const COUNTERS_STOP_MS_MAX = 1000;

export interface WorkerReportsOptions {
  readonly worker: WorkerOptions;
  readonly settings: WorkerSettings;
  readonly instanceId: string;
  readonly engineInfo: EngineInfo;
  readonly reserved: ReservedRequests;
  /** One entry a rank. */
  load(): readonly EngineLoad[];
}

/** What a worker tells routers: KV events and load on the event plane, counters in the routers' state. */
export class WorkerReports {
  readonly #options: WorkerReportsOptions;
  readonly #publishers: EventPublisher[] = [];
  #events: KvEventPublisher | undefined;
  #load: LoadReporter | undefined;
  #counters: CounterReporter | undefined;

  constructor(options: WorkerReportsOptions) {
    this.#options = options;
  }

  /** Of the KV events, one a rank; empty where the engine publishes none. */
  get journals(): readonly RankJournal[] {
    return this.#events?.journals ?? [];
  }

  /** Begins with KV events and load, each on a channel of the worker's component; returns the channels. */
  async open(): Promise<EventChannelRecord[]> {
    const { worker, settings, instanceId, engineInfo, reserved, load } = this.#options;
    const { engine, clock, metrics } = worker;
    const channels: EventChannelRecord[] = [];
    if (engineInfo.publishesKvEvents) {
      const { dataParallelSize } = engineInfo;
      const publisher = await this.#openChannel(KV_EVENTS_TOPIC, channels);
      const events = new KvEventPublisher({ publisher, instanceId, dataParallelSize });
      this.#events = events;
      engine.onKvEvents((step) => events.publish(step));
    }
    this.#load = new LoadReporter({
      publisher: await this.#openChannel(LOAD_TOPIC, channels),
      workerId: u64OfHex(instanceId).toString(),
      clock,
      reportIntervalMs: settings.loadReportIntervalMs,
      lookIntervalMs: settings.loadLookIntervalMs,
      read: load,
      requests: reserved,
      lastEventId: (dpRank) => this.journals[dpRank]?.lastEventId,
      onReport: (load) => metrics.setLoad(load),
    });
    return channels;
  }

  async #openChannel(topic: string, channels: EventChannelRecord[]): Promise<EventPublisher> {
    const { worker, instanceId: worker_id } = this.#options;
    const { namespace, component } = worker.address;
    const scope: EventScope = { kind: 'component', namespace, component };
    const publisher = await worker.eventPlane.publisher(scope, topic);
    this.#publishers.push(publisher);
    const { publisherId: instance_id, transport } = publisher;
    channels.push({ type: 'EventChannel', scope, topic, instance_id, transport, worker_id });
    return publisher;
  }

  /** Begins with the counters that routers share (design, "Counters, and replica sync"); without a shared state there are none. */
  openCounters(): void {
    const { worker, settings, instanceId: workerId, load } = this.#options;
    const { routerState: state, clock, random, address: pool } = worker;
    if (state === undefined) return;
    this.#counters = new CounterReporter({
      state,
      pool,
      workerId,
      clock,
      random,
      intervalMs: settings.loadReportIntervalMs,
      read: () => load().map(toReading),
      onProblem: () => {}, // the state tells of its failures by itself; the next report replaces this one
    });
    this.#counters.start();
  }

  /** Counts what a router had reserved for a request that is here now. */
  arrived(dpRank: number, amounts: RankWeight): void {
    this.#counters?.arrived(dpRank, amounts);
  }

  /** Withdraws the counters, so that no router counts on this worker. Idempotent. */
  async closeCounters(): Promise<void> {
    const counters = this.#counters;
    this.#counters = undefined;
    await counters?.stop(COUNTERS_STOP_MS_MAX);
  }

  async close(): Promise<void> {
    await this.closeCounters();
    this.#load?.stop();
    for (const publisher of this.#publishers) await publisher.close();
  }
}

function toReading(load: EngineLoad): RankReading {
  const { dpRank, runningRequests, waitingRequests, usedKvBlocks, activePrefillTokens } = load;
  const requests = runningRequests + waitingRequests;
  return {
    dpRank,
    active: { requests, decodeBlocks: usedKvBlocks, prefillTokens: activePrefillTokens },
    kvUsedBlocks: usedKvBlocks,
  };
}
