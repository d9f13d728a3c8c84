import type { Clock, Timer } from '../../clock/index.ts';
import type { EventChannelRecord, WorkerLoad } from '../../discovery/index.ts';
import type { EngineLoad } from '../../engines/index.ts';
import type { EventPublisher, EventScope } from '../../planes/index.ts';
import { ROLLUP_TOPIC } from '../../protocol/index.ts';
import { u64OfHex } from '../../records/index.ts';
import { KV_EVENTS_TOPIC, LOAD_TOPIC } from '../../worker-events/index.ts';
import type { WorkerOptions, WorkerSettings } from '../options.ts';
import { DynamoEvents, type Publishing } from './dynamo-events.ts';
import { type ReservedRequests, toActiveLoad } from './event-records.ts';
import { KvEventPublisher } from './kv-event-publisher.ts';
import type { RankJournal } from './rank-journal.ts';
import { RollupReporter, type RollupReporterOptions } from './rollup-reporter.ts';

/** Share of all blocks by which a rank's used blocks must change for a report before the interval ends. */
const BLOCK_SHARE = 0.05;
/** Number of tokens by which a rank's tokens still to prefill must change for the same. */
const PREFILL_TOKENS = 8192;

interface LoadReporterOptions {
  readonly publisher: Publishing;
  /** Id of the worker, in decimal. */
  readonly workerId: string;
  readonly clock: Clock;
  /** Longest time between two reports, in milliseconds. */
  readonly reportIntervalMs: number;
  /** Interval at which the load is checked, in milliseconds, so that a large change is reported at once. */
  readonly lookIntervalMs: number;
  read(): readonly EngineLoad[];
  /** Returns the id of the rank's last KV event; undefined if none are published. */
  lastEventId(dpRank: number): number | undefined;
  /** Requests that have come and gone since the last call; they go with the next reported load. */
  readonly requests?: Pick<ReservedRequests, 'take'>;
  /** Receives every load that is reported. */
  onReport(load: EngineLoad): void;
}

/** Reports the engine's load at fixed intervals, and soon after a large change. */
class LoadReporter {
  readonly #options: LoadReporterOptions;
  readonly #timer: Timer;
  readonly #lastOfRank = new Map<number, EngineLoad>();
  #lastReportMs: number;

  constructor(options: LoadReporterOptions) {
    this.#options = options;
    this.#lastReportMs = options.clock.nowMs();
    this.#report(options.read());
    this.#timer = options.clock.every(options.lookIntervalMs, () => this.#look());
  }

  stop(): void {
    this.#timer.cancel();
  }

  #look(): void {
    const { clock, reportIntervalMs, read } = this.#options;
    const loads = read();
    if (clock.nowMs() - this.#lastReportMs >= reportIntervalMs) {
      this.#lastReportMs = clock.nowMs();
      this.#report(loads);
    } else {
      this.#report(loads.filter((load) => isLargeChange(this.#lastOfRank.get(load.dpRank), load)));
    }
  }

  #report(loads: readonly EngineLoad[]): void {
    const { publisher, workerId, lastEventId, onReport } = this.#options;
    let requests = loads.length === 0 ? undefined : this.#options.requests?.take();
    for (const load of loads) {
      this.#lastOfRank.set(load.dpRank, load);
      publisher.publish(toActiveLoad(workerId, load, lastEventId(load.dpRank), requests));
      requests = undefined; // reported once, with any rank
      onReport(load);
    }
  }
}

function isLargeChange(last: EngineLoad | undefined, load: EngineLoad): boolean {
  if (last === undefined) return true;
  return (
    Math.abs(load.usedKvBlocks - last.usedKvBlocks) > load.totalKvBlocks * BLOCK_SHARE ||
    Math.abs(load.activePrefillTokens - last.activePrefillTokens) > PREFILL_TOKENS
  );
}

interface WorkerReportsOptions extends RollupReporterOptions {
  readonly worker: WorkerOptions;
  readonly settings: WorkerSettings;
  readonly reserved: ReservedRequests;
}

/**
 * The reports of a worker. Routers get KV events and load over the event plane, and the load also with the worker's
 * lease in discovery. Planners get the traffic that the worker served, over its namespace.
 */
export class WorkerReports {
  readonly #options: WorkerReportsOptions;
  readonly #publishers: EventPublisher[] = [];
  #events: KvEventPublisher | undefined;
  /** The events in Dynamo's form, for its routers; undefined = in Stator's. */
  #dynamo: DynamoEvents | undefined;
  #load: LoadReporter | undefined;
  #rollups: RollupReporter | undefined;

  constructor(options: WorkerReportsOptions) {
    this.#options = options;
  }

  /** Journals of the KV events, one for each rank; empty if the engine publishes none. */
  get journals(): readonly RankJournal[] {
    return this.#events?.journals ?? [];
  }

  /**
   * Returns the leading tokens of a prompt that each rank has cached, as its events say. A cache below the device
   * counts in part.
   */
  cachedTokens(sequence: Uint32Array): readonly number[] {
    const { kvBlockSizeTokens } = this.#options.engineInfo;
    return this.#events?.heldBlocks(sequence).map((blocks) => Math.round(blocks * kvBlockSizeTokens)) ?? [];
  }

  /**
   * Starts the reports of KV events and load, each on a channel of the worker's component, and returns the channels.
   * @param isForDynamo whether routers of Dynamo read them, in their form
   */
  async open(isForDynamo = false): Promise<EventChannelRecord[]> {
    const { worker, settings, instanceId, engineInfo, reserved } = this.#options;
    const { eventPlane, address } = worker;
    const { dataParallelSize } = engineInfo;
    if (isForDynamo) this.#dynamo = new DynamoEvents({ eventPlane, address, instanceId, dataParallelSize });
    const { engine, clock, metrics } = worker;
    const channels: EventChannelRecord[] = [];
    if (engineInfo.publishesKvEvents) {
      const { holdsBlocksOnce: holdsOnce } = engineInfo;
      const publisher =
        (await this.#dynamo?.openKvEvents(channels)) ?? (await this.#openChannel(KV_EVENTS_TOPIC, channels));
      const events = new KvEventPublisher({ publisher, instanceId, dataParallelSize, holdsOnce });
      this.#events = events;
      engine.onKvEvents((step) => events.publish(step));
    }
    this.#load = new LoadReporter({
      publisher: (await this.#dynamo?.openLoads(channels)) ?? (await this.#openChannel(LOAD_TOPIC, channels)),
      workerId: u64OfHex(instanceId).toString(),
      clock,
      reportIntervalMs: settings.loadReportIntervalMs,
      lookIntervalMs: settings.loadLookIntervalMs,
      read: () => this.#read(),
      requests: reserved,
      lastEventId: (dpRank) => this.journals[dpRank]?.lastEventId,
      onReport: (load) => metrics.setLoad(load),
    });
    // No planner scales encode workers.
    const isPlanned = !isForDynamo && settings.rollupIntervalMs > 0 && this.#options.card.worker_type !== 'encode';
    if (isPlanned) {
      const { namespace } = worker.address;
      const publisher = await this.#openChannel(ROLLUP_TOPIC, channels, { kind: 'namespace', namespace });
      this.#rollups = new RollupReporter(this.#options, publisher);
    }
    return channels;
  }

  /** Returns the current load of the engine, and passes it to discovery at every check. */
  #read(): readonly EngineLoad[] {
    const { worker, instanceId, load, isDraining } = this.#options;
    const loads = load();
    worker.discovery.setLoad(instanceId, toWorkerLoad(loads, isDraining()));
    return loads;
  }

  /** The events in Dynamo's form; undefined if routers of Stator read them. */
  get dynamo(): DynamoEvents | undefined {
    return this.#dynamo;
  }

  /** Reports that the worker takes no new requests from now on. */
  tellDrain(): void {
    this.#rollups?.report();
  }

  async #openChannel(
    topic: string,
    channels: EventChannelRecord[],
    scope: EventScope = this.#componentScope(),
  ): Promise<EventPublisher> {
    const { worker, instanceId: worker_id } = this.#options;
    const publisher = await worker.eventPlane.publisher(scope, topic);
    this.#publishers.push(publisher);
    const { publisherId: instance_id, transport } = publisher;
    channels.push({ type: 'EventChannel', scope, topic, instance_id, transport, worker_id });
    return publisher;
  }

  #componentScope(): EventScope {
    const { namespace, component } = this.#options.worker.address;
    return { kind: 'component', namespace, component };
  }

  async close(): Promise<void> {
    this.#load?.stop();
    this.#rollups?.stop();
    for (const publisher of this.#publishers) await publisher.close();
    await this.#dynamo?.close();
  }
}

function toWorkerLoad(loads: readonly EngineLoad[], isDraining: boolean): WorkerLoad {
  return {
    ranks: loads.map(({ dpRank, runningRequests, waitingRequests, usedKvBlocks, activePrefillTokens }) => ({
      dpRank,
      requests: runningRequests + waitingRequests,
      decodeBlocks: usedKvBlocks,
      prefillTokens: activePrefillTokens,
    })),
    isDraining,
  };
}
