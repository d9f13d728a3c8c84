import type { Clock, Random, Timer } from '../../clock/index.ts';
import type { Discovery } from '../../discovery/index.ts';
import type { EventPlane, PlannerOutbox } from '../../planes/index.ts';
import {
  type AggregatedPool,
  HELD_TOPIC,
  PLANNER_EVENT_BYTES_MAX,
  PLANNER_EVENT_VERSION,
  type PlannerEventOf,
  packSortedKeys,
  packWorkerKeys,
  ROLLUP_TOPIC,
  readPlannerEvent,
} from '../../protocol/index.ts';
import type { Logger } from '../../telemetry/index.ts';
import { TopicFollower } from '../../worker-events/index.ts';
import { keysOfWorkers } from './aggregated-keys.ts';
import { RollupAggregator } from './rollup-aggregator.ts';

type WorkerRollup = PlannerEventOf<'worker.rollup'>;
type WorkerChange = 'worker.registered' | 'worker.draining' | 'worker.gone';
type ModelRollup = PlannerEventOf<'model.rollup'>;

export interface FleetRollupsOptions {
  readonly discovery: Discovery;
  readonly eventPlane: EventPlane;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** Milliseconds between two messages of a model. @default 5000 */
  readonly intervalMs?: number;
  /** Takes the messages to send. */
  readonly outbox: Pick<PlannerOutbox, 'put' | 'withdraw'>;
}

const INTERVAL_MS = 5000;
/** Intervals after which every worker has reported once. An earlier message would say that half the fleet is gone. */
const SETTLE_INTERVALS = 1.5;
const NAMESPACES_MAX = 64;
const MODELS_MAX = 1000;
/**
 * Workers of a model whose coming and going has a message of its own between two roll-ups; the next roll-up has all.
 */
const CHANGES_MAX = 16;
/** Milliseconds after which a model without workers is forgotten. */
const FORGOTTEN_MS = 600_000;

interface HeardNamespace {
  readonly followers: readonly TopicFollower[];
  readonly sinceMs: number;
  publishers: ReadonlySet<string>;
}

interface HeardModel {
  readonly namespace: string;
  readonly aggregator: RollupAggregator;
  heardAtMs: number;
  changes: number;
}

/**
 * Aggregates what the workers of a fleet report to planners into one message a model every five seconds, and passes on
 * at once what cannot wait. It sends only while this process leads. A process that stands by hears the same and sends
 * nothing, so that it knows the fleet when it has to lead; it counts from then on.
 */
export class FleetRollups {
  readonly #options: FleetRollupsOptions;
  readonly #intervalMs: number;
  readonly #source: string;
  readonly #namespaces = new Map<string, HeardNamespace>();
  readonly #models = new Map<string, HeardModel>();
  readonly #timer: Timer;
  /** Epoch of the counts while this process leads. */
  #term: string | undefined;
  #isClosed = false;

  constructor(options: FleetRollupsOptions) {
    this.#options = options;
    this.#intervalMs = options.intervalMs ?? INTERVAL_MS;
    this.#source = options.random.instanceId();
    this.#timer = options.clock.every(this.#intervalMs, () => this.#round());
  }

  /** Hears these namespaces too, from now on. */
  follow(namespaces: Iterable<string>): void {
    for (const namespace of namespaces) {
      if (this.#isClosed || this.#namespaces.has(namespace)) continue;
      if (this.#namespaces.size >= NAMESPACES_MAX) {
        this.#options.logger.warn('planners hear nothing of a namespace: there are too many', { namespace });
        continue;
      }
      this.#namespaces.set(namespace, this.#open(namespace));
    }
  }

  /** Begins to send. */
  lead(): void {
    if (this.#term !== undefined || this.#isClosed) return;
    this.#term = this.#options.random.instanceId();
    for (const { aggregator } of this.#models.values()) aggregator.beginAnew(this.#term);
  }

  /** Stops sending: another process sends now, or none does. */
  standBy(): void {
    if (this.#term !== undefined) this.#options.outbox.withdraw('model.rollup');
    this.#term = undefined;
  }

  /** Sends what was heard and not sent yet, if this process leads, and closes. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#round();
    this.#isClosed = true;
    this.#term = undefined;
    this.#timer.cancel();
    const followers = [...this.#namespaces.values()].flatMap((each) => each.followers);
    await Promise.all(followers.map((follower) => follower.close()));
  }

  #open(namespace: string): HeardNamespace {
    const { discovery, eventPlane, clock, logger } = this.#options;
    const scope = { kind: 'namespace', namespace } as const;
    const common = { discovery, eventPlane, clock, logger, scope };
    const listener = { event: ({ payload }: { readonly payload: unknown }) => this.#hear(namespace, payload) };
    const onPublishers = (workers: ReadonlySet<string>): void => this.#dropLost(namespace, workers);
    const followers = [
      new TopicFollower({ ...common, topic: ROLLUP_TOPIC, listener, onPublishers }),
      new TopicFollower({ ...common, topic: HELD_TOPIC, listener }),
    ];
    return { followers, sinceMs: clock.nowMs(), publishers: new Set() };
  }

  #hear(namespace: string, payload: unknown): void {
    const read = readPlannerEvent(payload);
    if (read.kind === 'refused') {
      this.#options.logger.warn('an event for planners was refused', { problem: read.problem });
      return;
    }
    const { event } = read;
    if (event.namespace !== namespace) return;
    if (event.type === 'request.held' && this.#term !== undefined) this.#options.outbox.put(event);
    if (event.type === 'worker.rollup') this.#hearWorker(event);
  }

  #hearWorker(event: WorkerRollup): void {
    const model = this.#modelOf(event);
    if (model === undefined) return;
    const { aggregator } = model;
    const before = aggregator.latestOf(event.worker_id);
    const nowMs = this.#options.clock.nowMs();
    if (!aggregator.add(event, nowMs)) return;
    model.heardAtMs = nowMs;
    const isDraining = event.draining === true;
    if (before === undefined && !isDraining) this.#tellChange(model, 'worker.registered', event);
    if (before?.draining !== true && isDraining) this.#tellChange(model, 'worker.draining', event);
  }

  #modelOf({ namespace, model }: WorkerRollup): HeardModel | undefined {
    const key = JSON.stringify([namespace, model]);
    const known = this.#models.get(key);
    if (known !== undefined) return known;
    if (this.#models.size >= MODELS_MAX) return undefined;
    const epoch = this.#term ?? '';
    const aggregator = new RollupAggregator({ namespace, model, source: this.#source, epoch });
    const heard = { namespace, aggregator, heardAtMs: 0, changes: 0 };
    this.#models.set(key, heard);
    return heard;
  }

  /** Forgets workers that discovery no longer names. */
  #dropLost(namespace: string, workers: ReadonlySet<string>): void {
    const heard = this.#namespaces.get(namespace);
    if (heard === undefined) return;
    for (const id of heard.publishers) if (!workers.has(id)) this.#drop(namespace, id);
    heard.publishers = new Set(workers);
  }

  #drop(namespace: string, id: string): void {
    for (const model of this.#models.values()) {
      const last = model.namespace === namespace ? model.aggregator.remove(id) : undefined;
      if (last !== undefined) this.#tellChange(model, 'worker.gone', last);
    }
  }

  #tellChange(
    model: HeardModel,
    type: WorkerChange,
    { namespace, model: name, component, worker_id, epoch, seq, engine, host }: WorkerRollup,
  ): void {
    const { outbox, clock } = this.#options;
    if (this.#term === undefined || !this.#isSettled(namespace) || ++model.changes > CHANGES_MAX) return;
    const common = { v: PLANNER_EVENT_VERSION, namespace, model: name, component, worker_id, epoch, seq } as const;
    const instance = host === undefined ? {} : { instance_id: host.instance_id };
    const facts = type === 'worker.registered' ? { engine, ...placeOf(host) } : {};
    outbox.put({ type, ...common, at: clock.wallMs(), ...instance, ...facts });
  }

  #round(): void {
    const { clock, outbox, logger } = this.#options;
    const nowMs = clock.nowMs();
    for (const [key, model] of this.#models) {
      model.changes = 0;
      if (model.aggregator.size === 0 && nowMs - model.heardAtMs > FORGOTTEN_MS) this.#models.delete(key);
      if (this.#term === undefined || !this.#isSettled(model.namespace)) continue;
      const { leftOut } = model.aggregator;
      const rollup = model.aggregator.aggregate(nowMs, clock.wallMs());
      if (rollup !== undefined) outbox.put(fitted(rollup));
      if (leftOut > 0) logger.warn('planners hear nothing of workers: there are too many', { workers: leftOut });
    }
  }

  /** Returns whether every worker that discovery names has reported, or has had time to. */
  #isSettled(namespace: string): boolean {
    const heard = this.#namespaces.get(namespace);
    if (heard === undefined) return false;
    if (this.#options.clock.nowMs() - heard.sinceMs >= SETTLE_INTERVALS * this.#intervalMs) return true;
    const models = [...this.#models.values()].filter((each) => each.namespace === namespace);
    const isHeard = (id: string): boolean => models.some(({ aggregator }) => aggregator.latestOf(id) !== undefined);
    return heard.publishers.size > 0 && [...heard.publishers].every(isHeard);
  }
}

/** Returns zone and market of a worker, as far as they are known. */
function placeOf({ zone, market }: Partial<NonNullable<WorkerRollup['host']>> = {}) {
  return { ...(zone === undefined ? {} : { zone }), ...(market === undefined ? {} : { market }) };
}

/**
 * Shortens a message that has no room. First it names workers by their keys, then it drops the passes of single
 * engines: the sums of the pool say the rest.
 */
function fitted(rollup: ModelRollup): ModelRollup {
  if (fits(rollup)) return rollup;
  const byKey = ofPools(rollup, ({ workers = [], instances, ...pool }) => {
    const { hosted, others } = keysOfWorkers(workers, instances);
    const ofHosts = hosted.length === 0 ? {} : { hosted_keys: packSortedKeys(hosted) };
    return { ...pool, worker_keys: packWorkerKeys(others), ...ofHosts };
  });
  if (fits(byKey)) return byKey;
  return ofPools(byKey, ({ engines = [], engines_left_out: out = 0, ...pool }) => ({
    ...pool,
    engines_left_out: out + engines.length,
  }));
}

function fits(rollup: ModelRollup): boolean {
  return Buffer.byteLength(JSON.stringify(rollup)) <= PLANNER_EVENT_BYTES_MAX;
}

function ofPools(rollup: ModelRollup, change: (pool: AggregatedPool) => AggregatedPool): ModelRollup {
  return {
    ...rollup,
    pools: Object.fromEntries(Object.entries(rollup.pools).map(([name, pool]) => [name, change(pool)])),
  };
}
